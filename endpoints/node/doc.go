// Package node has the procedures of nodes: their registration and heartbeats, drains and pools, the tokens
// of their tasks, and the loss of a node. The leader keeps the leases, and its loops drain and fence.
package node
