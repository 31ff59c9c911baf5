// Package client is the node agent: it registers a machine as a node, keeps its lease with the servers,
// runs the allocations they place on it, and tells them what has become of those and of the CSI plugins
// among them.
//
// Its laws:
//
//   - What runs on the node outlives the agent. Everything needed to take it up again is in the node's
//     store (one bbolt file), written before it is done and marked after.
//   - A node registers when it is complete: first what ran already is taken up again, then drivers and
//     running plugins have been fingerprinted once, for a bounded time; then it registers.
//   - Until the servers have said once which allocations they want (ServersContacted), nothing that is
//     not running is started, and nothing is reported.
//   - The servers are told the newest state of each allocation until they acknowledge it; what came in
//     between may be left out.
//   - Every goroutine is waited for by Run.
//
// Goroutines, each of which Run waits for: one per subsystem (task drivers, CSI plugins, reconciling
// volumes once), which end last; the six loops runLease (registration and heartbeats), runDrivers and
// runPlugins (changes of the node), runAllocs (allocations that the servers want), runUpdates (states that
// the node reports) and runClaims (volumes in use against the claims of the node); and one runner per
// allocation with one goroutine per task, one that carries out a stop, and beside a running process one
// that waits for its end.
//
// How tasks are run is left to the drivers, what is mounted to package csihooks, the life
// of one allocation to package allocrunner.
package client
