package report

import (
	"math"

	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
	"berth/structs/validate/field"
)

// Snapshot checks a node's answer about a snapshot that its plugin has taken.
func Snapshot(s *storage.CSISnapshot) error {
	f := field.New("the node's answer")
	checkSnapshot(f, s)
	return f.Err()
}

// Snapshots checks the sizes in a node's answer about the snapshots that its plugin lists.
func Snapshots(r *nodecalls.ClientCSISnapshotListResponse) error {
	f := field.New("the node's answer")
	f.CheckBytes("next_token", len(r.NextToken), structs.MaxCSIToken)
	for _, s := range field.FirstOf(f, "snapshots", r.Snapshots, structs.MaxCSIListed) {
		checkSnapshot(f, s)
	}
	return f.Err()
}

// latest is the last time, in seconds, that has a number of nanoseconds.
const latest = math.MaxInt64 / 1_000_000_000

func checkSnapshot(f field.Errors, s *storage.CSISnapshot) {
	if s == nil || s.ID == "" {
		f.Addf("a snapshot has no snapshot_id")
		return
	}
	f.CheckBytes("snapshot_id", len(s.ID), structs.MaxCSIID)
	f.CheckBytes("source_volume_id", len(s.ExternalSourceVolumeID), structs.MaxCSIID)
	checkTotal(f, "size_bytes", s.SizeBytes, limit{structs.MaxVolumeBytes, "bytes"})
	checkTopologies(f, s.AccessibleTopologies)
	f.Require(s.CreateTime >= 0 && s.CreateTime <= latest, "creation_time %d is out of range", s.CreateTime)
}

// Group checks a node's answer about a group snapshot that its plugin has taken of volumes, which have the
// plugin's IDs.
func Group(g *storage.CSIGroup, volumes []string) error {
	f := field.New("the node's answer")
	if g == nil || g.ID == "" {
		f.Addf("the group snapshot has no group_snapshot_id")
		return f.Err()
	}
	f.CheckBytes("group_snapshot_id", len(g.ID), structs.MaxCSIID)
	f.Require(g.CreateTime >= 0 && g.CreateTime <= latest, "creation_time %d is out of range", g.CreateTime)
	for _, s := range field.FirstOf(f, "snapshots", g.Snapshots, storage.MaxGroupMembers) {
		checkSnapshot(f, s)
	}
	fault := g.Fault(volumes)
	f.Require(fault == "", "the group snapshot %s", fault)
	return f.Err()
}
