// Package agent runs one berth process from one configuration: a server, a node or both, and the HTTP API.
//
// It validates the whole configuration before it opens anything. Run returns after everything that it started
// has ended. The HTTP API ends first, then the node, then the server, so that none calls a part that has
// ended.
package agent
