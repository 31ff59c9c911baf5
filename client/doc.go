// Package client is the node agent, which runs allocations on a machine. It registers the machine as a node,
// keeps the node's lease with the servers, runs the allocations that the servers place on the node, and
// reports their states, and the states of the CSI plugins among them.
//
// Its rules:
//
//   - Allocations outlive the agent. The node's store (one bbolt file) has everything an agent needs to
//     continue with them. The agent writes a record before an action and a mark after it.
//   - A node registers when it is complete: the agent first searches for running tasks, then waits a bounded
//     time for one fingerprint of each driver and each running plugin.
//   - Until the servers have sent the allocations of the node once (ServersContacted), the agent starts
//     no tasks and reports no states.
//   - The agent reports the newest state of each allocation until the servers acknowledge it. It may skip
//     earlier states.
//   - Run waits for every goroutine.
//
// Run waits for these goroutines: one per subsystem (task drivers, CSI plugins, reconciling volumes once),
// which end last; the loops, each a type with its own fields over what they share (node); and one runner per
// allocation with one goroutine per task, one that executes a stop, and for a running process one that waits
// for its end. The loops are
//
//   - registration: the row of the node and its lease (run), and changes of the row (runDrivers);
//   - work: the allocations that the servers want (runAllocs), and the states of them that the node reports
//     (runUpdates);
//   - plugins: changes of the plugin instances;
//   - claims: the volumes in use against the claims of the node.
//
// The drivers run tasks, package csi/csihooks mounts volumes, and package allocrunner runs one allocation.
// The package itself answers the calls of the servers for allocations, and publishes the metrics and the
// metadata of the node.
package client
