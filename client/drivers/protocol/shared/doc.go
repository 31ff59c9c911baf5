// Package shared has the messages of both driver and device plugins. The code is made of shared.proto.
package shared
