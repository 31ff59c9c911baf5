// Package csi has the procedures of storage: plugins, volumes, host volumes, claims, snapshots, group
// snapshots and schedules. They record what a request wants and wait for the outcome. The loops of the
// leader call the plugins, and package release detaches volumes.
package csi
