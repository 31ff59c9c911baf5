// Package lease has the bound of the leases that leaders grant, and the longer leases that operators order
// for single nodes. It identifies the node that sends a request, by its secret and its epoch.
//
// It does not run leases: the leader does, in package server/leases. The release of the volumes of a node
// whose lease has ended is in package state. The package is apart from state, because csi asks it
// who sends a request, and state imports csi.
package lease
