package csitest

import (
	"context"
	"slices"
	"strconv"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// groups serves group snapshots on the storage in memory.
type groups struct {
	spec.UnimplementedGroupControllerServer
	p *Plugin
}

// Groups lists the IDs of the existing group snapshots, sorted.
func (p *Plugin) Groups() (ids []string) {
	store, unlock := p.lock()
	defer unlock()
	for _, g := range store.groups {
		ids = append(ids, g.GetGroupSnapshotId())
	}
	slices.Sort(ids)
	return ids
}

func (s groups) GroupControllerGetCapabilities(
	context.Context, *spec.GroupControllerGetCapabilitiesRequest,
) (*spec.GroupControllerGetCapabilitiesResponse, error) {
	resp := &spec.GroupControllerGetCapabilitiesResponse{}
	for _, name := range s.p.cfg.GroupCaps {
		number := spec.GroupControllerServiceCapability_RPC_Type_value[name]
		resp.Capabilities = append(resp.Capabilities, &spec.GroupControllerServiceCapability{
			Type: &spec.GroupControllerServiceCapability_Rpc{Rpc: &spec.GroupControllerServiceCapability_RPC{
				Type: spec.GroupControllerServiceCapability_RPC_Type(number)}}})
	}
	return resp, nil
}

// CreateVolumeGroupSnapshot makes a group that is ready at once, or finds the one of that name.
func (s groups) CreateVolumeGroupSnapshot(
	_ context.Context, req *spec.CreateVolumeGroupSnapshotRequest,
) (*spec.CreateVolumeGroupSnapshotResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	old := store.groups[req.GetName()]
	if old != nil && !sameSources(old, req.GetSourceVolumeIds()) {
		return nil, Error("AlreadyExists", "group snapshot %q is of other volumes", req.GetName())
	}
	if old == nil {
		var err error
		old, err = store.cutGroup(req)
		if err != nil {
			return nil, err
		}
	}
	found := proto.Clone(old).(*spec.VolumeGroupSnapshot)
	return &spec.CreateVolumeGroupSnapshotResponse{GroupSnapshot: found}, nil
}

// sameSources reports whether a group has exactly the snapshots of these volumes.
func sameSources(g *spec.VolumeGroupSnapshot, sources []string) bool {
	var of []string
	for _, s := range g.GetSnapshots() {
		of = append(of, s.GetSourceVolumeId())
	}
	slices.Sort(of)
	return slices.Equal(of, slices.Sorted(slices.Values(sources)))
}

// cutGroup makes a group with its snapshots, all or none.
func (store *storage) cutGroup(
	req *spec.CreateVolumeGroupSnapshotRequest,
) (*spec.VolumeGroupSnapshot, error) {
	for _, id := range req.GetSourceVolumeIds() {
		_, err := store.findVolume(id)
		if err != nil {
			return nil, err
		}
	}

	at := &timestamppb.Timestamp{Seconds: snapshotTime}
	store.snapshots.next++
	g := &spec.VolumeGroupSnapshot{
		GroupSnapshotId: "group-" + strconv.Itoa(store.snapshots.next),
		CreationTime:    at,
		ReadyToUse:      true,
	}
	for _, id := range req.GetSourceVolumeIds() {
		store.snapshots.next++
		made := &spec.Snapshot{
			SnapshotId:      "snap-" + strconv.Itoa(store.snapshots.next),
			SourceVolumeId:  id,
			GroupSnapshotId: g.GetGroupSnapshotId(),
			SizeBytes:       store.volumes[id].GetCapacityBytes(),
			CreationTime:    at,
			ReadyToUse:      true,
		}
		store.snapshots.byName["member "+made.GetSnapshotId()] = made
		g.Snapshots = append(g.Snapshots, made)
	}
	store.groups[req.GetName()] = g
	return g, nil
}

// DeleteVolumeGroupSnapshot deletes a group with its snapshots. Another list of snapshots than the exact one
// is INVALID_ARGUMENT.
func (s groups) DeleteVolumeGroupSnapshot(
	_ context.Context, req *spec.DeleteVolumeGroupSnapshotRequest,
) (*spec.DeleteVolumeGroupSnapshotResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	for name, g := range store.groups {
		if g.GetGroupSnapshotId() != req.GetGroupSnapshotId() {
			continue
		}
		var ids []string
		for _, m := range g.GetSnapshots() {
			ids = append(ids, m.GetSnapshotId())
		}
		slices.Sort(ids)
		if !slices.Equal(ids, slices.Sorted(slices.Values(req.GetSnapshotIds()))) {
			return nil, Error("InvalidArgument", "group snapshot %q has the snapshots %v", g.GetGroupSnapshotId(), ids)
		}
		for _, id := range ids {
			delete(store.snapshots.byName, "member "+id)
		}
		delete(store.groups, name)
	}
	return &spec.DeleteVolumeGroupSnapshotResponse{}, nil
}
