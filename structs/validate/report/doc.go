// Package report checks the values that nodes report and that plugins answer: the resources, devices and
// networks of a node, the states of its allocations, the volumes that a plugin has made or lists.
//
// No user writes these values, so a fault is one of a program. The checks bound what the servers store, and
// what a plugin makes a node pass on.
package report
