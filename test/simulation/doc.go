// Package simulation tests the servers with random jobs on simulated nodes, in virtual time.
//
// The store, the log entries, the procedures and the loops of the leader are real. The log has one server,
// and its leadership ends now and then. The nodes run no processes. They behave like agents: they claim
// volumes, wait for the allocations before, start late, do not die until their kill_timeout, fail, lose
// their connection or their power, and return.
//
// The rules are those of package invariant, those of state.Check, and the storage's own: it fails the test
// when two allocations have a volume that exclude each other.
//
// BERTH_TEST_SEED repeats the choices of one run. Two runs of one seed are alike, not equal: the order of
// goroutines and the IDs of rows differ. BERTH_TEST_LONG, a duration such as 10m, runs new seeds for that
// long. BERTH_TEST_JOB names a job of which the history has each change of a row.
package simulation
