// Package allocrunner runs allocations on a node: one Runner for each, with one goroutine per task.
//
// A Runner's life, each step of which is in the node's store before it is done and marked after:
//
//	record -> directories -> allocation hooks Up, in order -> tasks
//	       -> every task dead (reported at once) -> its hooks Down
//	       -> allocation hooks Down, in reverse, again and again until done
//	       -> kept until the servers forget it -> directory and records removed
//
// Its laws:
//
//   - An agent that ends (or is killed) leaves tasks running; the next one takes them up again by the
//     handle in the store and starts nothing twice. What it cannot take up again it starts only after the
//     servers were heard, who may not want it any more.
//   - A hook that was begun is taken down, whether its Up succeeded, failed or was cut off; a hook that
//     was never begun is not.
//   - While a task that was taken up again runs, a hook whose Up fails is tried again: a running workload
//     is never ended because the agent restarted.
//
// Placement, claims and mounts are left to the servers and to the hooks.
package allocrunner
