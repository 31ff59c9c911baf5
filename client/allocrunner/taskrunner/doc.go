// Package taskrunner runs one task of an allocation: it prepares and starts the process, waits for its end,
// stops it, and starts it again as the restart policy says. Its types are:
//
//   - Task decides when the process starts and ends. Its goroutine is Run.
//   - Shared is all that it knows of its node, its allocation and the other tasks.
//   - recordKeeper keeps its record. A record precedes each call of a driver, and follows it.
//   - builder makes the inputs of the driver and the hooks from the job, with all placeholders replaced.
//   - process is one run of its process, until its end.
//   - Control acts on the process for hooks, checks and users.
//   - meter measures it.
//
// The only lock is recordKeeper's. It guards the record, and no callback is called with it. All other
// fields that change belong to the goroutine of the task.
//
// The package does not know when the allocation as a whole is to stop or to be set up: its runner, package
// allocrunner, gives the orders and reaches the phases that Shared has.
package taskrunner
