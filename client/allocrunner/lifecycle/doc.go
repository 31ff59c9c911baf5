// Package lifecycle has the rules for the life of an allocation: the phases that it reaches, the orders to
// end it, the order of its tasks, and the decisions on a restart, the health and the state for the servers.
//
// The decisions are functions of rows and times. The package reads no clock, does no I/O and knows no driver,
// hook or store: the runners of allocations and of tasks carry out the decisions and record them.
package lifecycle
