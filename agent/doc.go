// Package agent is one berth process made from one configuration: a server, a node, or both, and the HTTP
// API in front of them.
//
// Its laws: what is configured is validated whole before anything is opened; Run returns when everything
// it started has ended, in the order HTTP, node, server, so that nobody is asked who is already gone.
package agent
