package hostpath

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"berth/plugins/hostpath/disk"
)

// maxGroupSources is the most volumes of a group.
const maxGroupSources = 64

// groupDriver is what the service needs of the driver.
type groupDriver struct {
	Store func() *disk.Store
	// Lock locks all keys or none. The error is ABORTED.
	Lock func(keys ...string) (release func(), err error)
	// Record returns the head of a new record.
	Record func(kind, name string) disk.Head
	Volume func(id string) (*disk.Volume, error)
	// Freeze prevents changes of a volume until a call of the returned function. The error is
	// FAILED_PRECONDITION for a volume with a writer that it cannot stop.
	Freeze func(v *disk.Volume) (thaw func() error, err error)
	// Copy makes a snapshot of a volume that does not change.
	Copy     func(n *disk.Snapshot, v *disk.Volume) (*disk.Snapshot, error)
	Erase    func(n *disk.Snapshot) error
	Describe func(n *disk.Snapshot) *csi.Snapshot
	// Foreign returns the error for the ID of another node, nil for others.
	Foreign func(id string) error
	// Crash is called at the points between record, act and mark.
	Crash func(point string)
}

// groupController serves the calls of the group controller. A group is a record with the IDs of its
// snapshots. All writes to its volumes are stopped before the first of them is copied, so the copies are of
// one instant.
type groupController struct {
	csi.UnimplementedGroupControllerServer
	groupDriver
}

// GroupControllerGetCapabilities returns the capabilities of the service.
func (s *groupController) GroupControllerGetCapabilities(
	context.Context, *csi.GroupControllerGetCapabilitiesRequest,
) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	return &csi.GroupControllerGetCapabilitiesResponse{
		Capabilities: []*csi.GroupControllerServiceCapability{{
			Type: &csi.GroupControllerServiceCapability_Rpc{Rpc: &csi.GroupControllerServiceCapability_RPC{
				Type: csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT,
			}},
		}},
	}, nil
}

// CreateVolumeGroupSnapshot copies the data of volumes. It returns when all copies are whole, so a group is
// always ready.
func (s *groupController) CreateVolumeGroupSnapshot(
	_ context.Context, req *csi.CreateVolumeGroupSnapshotRequest,
) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	name := req.GetName()
	if name == "" {
		return nil, disk.Invalidf("name is missing")
	}
	sources := slices.Sorted(slices.Values(req.GetSourceVolumeIds()))
	n := len(sources)
	if n == 0 || n > maxGroupSources || sources[0] == "" || len(slices.Compact(slices.Clone(sources))) != n {
		return nil, disk.Invalidf("source_volume_ids: expected 1 to %d different IDs", maxGroupSources)
	}

	release, err := s.Lock(append(slices.Clone(sources), "group name "+name)...)
	if err != nil {
		return nil, err
	}
	defer release()

	g, found := s.Store().Groups.FindByName(name)
	switch {
	case found && g.State != disk.Ready:
		return nil, disk.Faultf(codes.Aborted, "group snapshot %s of that name is being deleted", g.ID)
	case found && !slices.Equal(g.Sources, sources):
		return nil, disk.Faultf(codes.AlreadyExists, "group snapshot %s of that name is of the volumes %q",
			g.ID, g.Sources)
	case !found:
		g, err = s.cut(name, sources)
		if err != nil {
			return nil, err
		}
	}

	described, err := s.describe(g)
	return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: described}, err
}

// describe returns a group with its snapshots.
func (s *groupController) describe(g *disk.Group) (*csi.VolumeGroupSnapshot, error) {
	described := &csi.VolumeGroupSnapshot{
		GroupSnapshotId: g.ID,
		CreationTime:    timestamppb.New(g.Created),
		ReadyToUse:      true,
	}
	for _, id := range g.Snapshots {
		n, ok := s.Store().Snapshots.Get(id)
		if !ok {
			return nil, disk.Faultf(codes.Internal, "group snapshot %s has no snapshot %s", g.ID, id)
		}
		described.Snapshots = append(described.Snapshots, s.Describe(n))
	}
	return described, nil
}

// cut makes a group: recorded, copied, marked ready. It removes the remains of a failure. The next start
// removes the remains of a kill.
func (s *groupController) cut(name string, sources []string) (*disk.Group, error) {
	var volumes []*disk.Volume
	for _, id := range sources {
		v, err := s.Volume(id)
		if err != nil {
			return nil, err
		}
		volumes = append(volumes, v)
	}

	g := &disk.Group{
		Head:    s.Record("group", name),
		Sources: sources,
		Created: time.Now().UTC(),
	}
	err := s.Store().Groups.Put(g)
	if err != nil {
		return nil, err
	}
	s.Crash("group recorded")

	made := *g
	made.Snapshots, err = s.copyAll(g, volumes)
	if err == nil {
		s.Crash("group made")
		made.State = disk.Ready
		err = s.Store().Groups.Put(&made)
	}
	if err != nil {
		err = fmt.Errorf("making group snapshot %q: %w", name, err)
		return nil, errors.Join(err, s.Remove(g))
	}
	return &made, nil
}

// copyAll copies volumes while none of them changes.
func (s *groupController) copyAll(g *disk.Group, volumes []*disk.Volume) (ids []string, err error) {
	for _, v := range volumes {
		thaw, freezeErr := s.Freeze(v)
		if freezeErr != nil {
			return nil, fmt.Errorf("volume %s: %w", v.ID, freezeErr)
		}
		defer func() { err = errors.Join(err, thaw()) }()
	}

	for _, v := range volumes {
		n, err := s.Copy(&disk.Snapshot{
			Head:    s.Record("snap", ""),
			Content: v.Content,
			Source:  v.ID,
			Created: g.Created,
			Group:   g.ID,
		}, v)
		if err != nil {
			return nil, err
		}
		s.Crash("group member made")
		ids = append(ids, n.ID)
	}
	return ids, nil
}

// Remove removes a group that is not ready, with its snapshots. The record is the last, so a repeat finds the
// rest.
func (s *groupController) Remove(g *disk.Group) error {
	for _, n := range s.Store().Snapshots.List() {
		if n.Group != g.ID {
			continue
		}
		err := s.Erase(n)
		if err != nil {
			return err
		}
	}
	s.Crash("group erased")
	return s.Store().Groups.Delete(g.ID)
}

// Reconcile removes what a kill has left of groups. report gets the ID of each, with the fault of its
// removal.
func (s *groupController) Reconcile(report func(id string, err error)) {
	for _, g := range s.Store().Groups.List() {
		if g.State != disk.Ready {
			report(g.ID, s.Remove(g))
		}
	}
}

// checkList rejects a list that does not name the snapshots of a group.
func checkList(g *disk.Group, ids []string) error {
	if !slices.Equal(slices.Sorted(slices.Values(ids)), slices.Sorted(slices.Values(g.Snapshots))) {
		return disk.Invalidf("snapshot_ids: group snapshot %s has the snapshots %q", g.ID, g.Snapshots)
	}
	return nil
}

// DeleteVolumeGroupSnapshot removes a group with its snapshots. Volumes made from them have separate copies.
func (s *groupController) DeleteVolumeGroupSnapshot(
	_ context.Context, req *csi.DeleteVolumeGroupSnapshotRequest,
) (*csi.DeleteVolumeGroupSnapshotResponse, error) {
	id := req.GetGroupSnapshotId()
	if id == "" {
		return nil, disk.Invalidf("group_snapshot_id is missing")
	}
	release, err := s.Lock(append(slices.Clone(req.GetSnapshotIds()), id)...)
	if err != nil {
		return nil, err
	}
	defer release()

	resp := &csi.DeleteVolumeGroupSnapshotResponse{}
	g, ok := s.Store().Groups.Get(id)
	if !ok {
		return resp, s.Foreign(id)
	}
	if g.State == disk.Ready {
		err = checkList(g, req.GetSnapshotIds())
	}
	if err != nil {
		return nil, err
	}

	gone := *g
	gone.State = disk.Deleting
	err = s.Store().Groups.Put(&gone)
	if err != nil {
		return nil, err
	}
	s.Crash("group deletion recorded")
	return resp, s.Remove(&gone)
}

// GetVolumeGroupSnapshot returns one group.
func (s *groupController) GetVolumeGroupSnapshot(
	_ context.Context, req *csi.GetVolumeGroupSnapshotRequest,
) (*csi.GetVolumeGroupSnapshotResponse, error) {
	id := req.GetGroupSnapshotId()
	if id == "" {
		return nil, disk.Invalidf("group_snapshot_id is missing")
	}
	g, ok := s.Store().Groups.Get(id)
	if !ok || g.State != disk.Ready {
		err := s.Foreign(id)
		if err == nil {
			err = disk.Faultf(codes.NotFound, "there is no group snapshot %s", id)
		}
		return nil, err
	}
	err := checkList(g, req.GetSnapshotIds())
	if err != nil {
		return nil, err
	}
	described, err := s.describe(g)
	return &csi.GetVolumeGroupSnapshotResponse{GroupSnapshot: described}, err
}
