// Package allocrunner runs allocations on a node: one Runner for each, with one goroutine per task.
//
// The life of a Runner has these steps. The node's store has a record before each step and a mark after it:
//
//	record -> directories -> allocation hooks Up, in order
//	       -> prestart tasks -> main tasks -> poststart tasks
//	       -> all of these dead, sidecars last -> poststop tasks
//	       -> every task dead (reported at once) -> its hooks Down
//	       -> allocation hooks Down, in reverse, repeated until done
//	       -> kept until the servers delete it -> directory and records removed
//
// Its rules:
//
//   - An agent that ends (or is killed) leaves tasks running. The next agent recovers them by the handle in
//     the store and starts nothing twice. It starts other tasks only after an answer of the servers, which
//     may not want them any more.
//   - Down is called for each begun hook, whether its Up succeeded, failed or was interrupted. It is called
//     for another hook only by an agent that follows one that ended meanwhile.
//   - A task that waits for others decides on their recorded states, so that the next agent decides likewise.
//   - While a recovered task runs, a hook whose Up fails is retried: a restart of the agent never ends a
//     running workload.
//
// The parts of a Runner are its record with the current tasks (recordKeeper), the rounds of tasks (rounds),
// the watch of its health (healthWatch) and the bound on its time (runBound). Package lifecycle has the
// rules, package taskrunner runs one task, and package taskdirs makes the directories.
//
// The servers and the hooks decide on placement, claims and mounts.
package allocrunner
