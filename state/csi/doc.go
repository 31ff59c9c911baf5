// Package csi reads the rows of CSI: plugins and their instances on nodes, volumes, claims and attachments.
// It explains why a claim waits, and finds the claims that can be granted. Its functions take a snapshot or
// a transaction, and change nothing.
//
// Some nouns have their changes here, too: volume classes, which complete volumes with their values, the
// claims of groups on dynamic host volumes, the differences between volumes and the storage with their
// repair, the volumes that the controllers of their plugins do not report as healthy, and the places in which
// plugins had no space for a volume, so that jobs that ask for volumes are placed elsewhere for a while.
//
// Package csi/lifecycle changes the other rows. The client of the CSI plugins is in package berth/csi.
package csi
