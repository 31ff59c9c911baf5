package csitest

import (
	"context"
	"slices"
	"strconv"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// snapshotTime is the time at which the plugin has cut all its snapshots, in seconds since 1970.
const snapshotTime = 1_700_000_000

// snapshots are the snapshots of a plugin.
type snapshots struct {
	next   int // the number of the last one
	byName map[string]*spec.Snapshot
}

// Snapshots lists the IDs of the existing snapshots, sorted.
func (p *Plugin) Snapshots() []string {
	store, unlock := p.lock()
	defer unlock()
	return store.snapshotIDs()
}

func (store *storage) snapshotIDs() (ids []string) {
	for _, s := range store.snapshots.byName {
		ids = append(ids, s.GetSnapshotId())
	}
	slices.Sort(ids)
	return ids
}

func (store *storage) snapshotByID(id string) (name string, s *spec.Snapshot) {
	for name, s := range store.snapshots.byName {
		if s.GetSnapshotId() == id {
			return name, s
		}
	}
	return "", nil
}

// CreateSnapshot makes a snapshot that is ready at once, or finds the one of that name.
func (s controller) CreateSnapshot(
	_ context.Context, req *spec.CreateSnapshotRequest,
) (*spec.CreateSnapshotResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	old := store.snapshots.byName[req.GetName()]
	if old != nil && old.GetSourceVolumeId() != req.GetSourceVolumeId() {
		return nil, Error("AlreadyExists", "snapshot %q is of another volume", req.GetName())
	}
	if old != nil {
		return &spec.CreateSnapshotResponse{Snapshot: proto.Clone(old).(*spec.Snapshot)}, nil
	}

	v, err := store.findVolume(req.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	store.snapshots.next++
	made := &spec.Snapshot{
		SnapshotId:     "snap-" + strconv.Itoa(store.snapshots.next),
		SourceVolumeId: v.GetVolumeId(),
		SizeBytes:      v.GetCapacityBytes(),
		CreationTime:   &timestamppb.Timestamp{Seconds: snapshotTime},
		ReadyToUse:     true,
	}
	store.snapshots.byName[req.GetName()] = made
	return &spec.CreateSnapshotResponse{Snapshot: proto.Clone(made).(*spec.Snapshot)}, nil
}

// DeleteSnapshot succeeds for an unknown snapshot (CSI spec, DeleteSnapshot).
func (s controller) DeleteSnapshot(
	_ context.Context, req *spec.DeleteSnapshotRequest,
) (*spec.DeleteSnapshotResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	name, found := store.snapshotByID(req.GetSnapshotId())
	if found.GetGroupSnapshotId() != "" {
		return nil, Error("InvalidArgument", "snapshot %q is a member of group %q", req.GetSnapshotId(),
			found.GetGroupSnapshotId())
	}
	delete(store.snapshots.byName, name)
	return &spec.DeleteSnapshotResponse{}, nil
}

// ListSnapshots lists by the order of the IDs.
func (s controller) ListSnapshots(
	_ context.Context, req *spec.ListSnapshotsRequest,
) (*spec.ListSnapshotsResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	ids, next, err := pageOf(store.snapshotIDs(), req.GetStartingToken(), req.GetMaxEntries())
	if err != nil {
		return nil, err
	}

	resp := &spec.ListSnapshotsResponse{NextToken: next}
	for _, id := range ids {
		_, found := store.snapshotByID(id)
		resp.Entries = append(resp.Entries, &spec.ListSnapshotsResponse_Entry{
			Snapshot: proto.Clone(found).(*spec.Snapshot),
		})
	}
	return resp, nil
}
