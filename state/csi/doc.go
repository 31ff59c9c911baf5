// Package csi reads the rows of CSI: plugins and their instances on nodes, volumes, claims and attachments.
// It explains why a claim waits, and finds the claims that can be granted. Its functions take a snapshot or
// a transaction, and change nothing.
//
// Package csi/lifecycle changes these rows. The client of the CSI plugins is in package berth/csi.
package csi
