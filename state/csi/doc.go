// Package csi has the rows of storage: plugins and their instances on nodes, volumes and their classes,
// claims, attachments, the volumes of jobs, and what plugins report on health, space and drift. Read
// functions take a snapshot or a transaction; they explain why a claim waits, and find the claims that can be
// granted. Write functions register, create, expand and delete volumes, queue and grant claims, attach and
// detach volumes, and follow the reports on plugins.
//
// The package ends no allocation and changes no node: package state calls it when an allocation ends or a
// node reports, and has the commands that do both (state.VolumeUnpublish, state.VolumeForce). It calls no
// plugin: a loop of the leader does, and proposes the outcome. The client of the CSI plugins is in package
// berth/csi.
//
// Snapshots of volumes are in csi/snapshot, which imports this package.
package csi
