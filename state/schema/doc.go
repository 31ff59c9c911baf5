// Package schema declares the tables of the replicated state: their keys, their indexes and the order in
// which a snapshot file holds them. The packages of the state read and write rows through these tables, and
// nothing else does: the functions of package state and of the packages below it keep the invariants between
// rows.
//
// Here are also the parts of keys that readers of an index need, the topics that a loop of the leader can
// follow, and the Report of violated invariants: a check of rows is a function that takes a Report. It stands
// in the package of the rows that it checks, and state.Check lists all. The package has no rule on the
// contents of rows, except that it counts the allocations of evaluations when an allocation changes.
package schema
