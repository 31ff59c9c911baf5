// Package endpointstest has a server for the tests of procedures, in one process and without Raft: it applies
// each log entry at once. It also has the rows with which these tests begin. It tests nothing itself.
package endpointstest
