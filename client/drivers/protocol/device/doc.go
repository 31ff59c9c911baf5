// Package device is the service of device plugins. The code is made of device.proto.
package device
