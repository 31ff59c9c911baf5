package hostpath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// CreateSnapshot copies a volume's data. It returns when the copy is whole, so a snapshot is always ready.
func (d *driver) CreateSnapshot(
	_ context.Context, req *csi.CreateSnapshotRequest,
) (*csi.CreateSnapshotResponse, error) {
	name := req.GetName()
	if name == "" {
		return nil, invalidf("name is missing")
	}
	if req.GetSourceVolumeId() == "" {
		return nil, invalidf("source_volume_id is missing")
	}
	if err := d.reachable(req.GetAccessibilityRequirements()); err != nil {
		return nil, err
	}
	release, err := d.lock("snapshot name "+name, req.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	defer release()
	n, found := d.store.snapshots.findByName(name)
	switch {
	case found && n.State != stateReady:
		return nil, fail(codes.Aborted, "snapshot %s of that name is being deleted", n.ID)
	case found && n.Source != req.GetSourceVolumeId():
		return nil, fail(codes.AlreadyExists, "snapshot %s of that name is of volume %s", n.ID, n.Source)
	case !found:
		v, err := d.volume(req.GetSourceVolumeId())
		if err != nil {
			return nil, err
		}
		n, err = d.createSnapshot(name, v)
		if err != nil {
			return nil, err
		}
	}
	return &csi.CreateSnapshotResponse{Snapshot: d.describeSnapshot(n)}, nil
}

func (d *driver) describeSnapshot(n *snapshot) *csi.Snapshot {
	return &csi.Snapshot{SnapshotId: n.ID, SourceVolumeId: n.Source, SizeBytes: n.Size, ReadyToUse: true,
		CreationTime: timestamppb.New(n.Created)}
}

// createSnapshot makes a snapshot: recorded, copied, marked ready.
func (d *driver) createSnapshot(name string, v *volume) (*snapshot, error) {
	n := &snapshot{
		recordHead: recordHead{ID: d.newID("snap"), Name: name, State: stateCreating},
		Source:     v.ID, Type: v.Type, FSType: v.FSType, Size: v.Size, FSSize: v.FSSize,
		Created: time.Now().UTC(),
	}
	if err := d.checkCapacity(n.Size, func() error { return d.store.snapshots.putRecord(n) }); err != nil {
		return nil, err
	}
	crash("snapshot recorded")
	data := d.store.snapshots.data(n.ID, n.Type)
	var err error
	if n.Type == typeDirectory {
		err = os.Mkdir(data, 0o700)
	}
	if err == nil {
		err = d.copyFrom(source{kind: "volume", id: v.ID, typ: v.Type}, data)
	}
	if err == nil {
		crash("snapshot made")
		ready := *n
		ready.State = stateReady
		n, err = &ready, d.store.snapshots.putRecord(&ready)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making snapshot %q: %w", name, err), d.eraseSnapshot(n))
	}
	return n, nil
}

func (d *driver) eraseSnapshot(n *snapshot) error {
	if err := os.RemoveAll(d.store.snapshots.data(n.ID, n.Type)); err != nil {
		return fmt.Errorf("removing snapshot %s: %w", n.ID, err)
	}
	return d.store.snapshots.deleteRecord(n.ID)
}

// copyFrom copies a source's data to an image path or into an empty directory, durably.
func (d *driver) copyFrom(s source, to string) (err error) {
	if s.kind == "snapshot" {
		return d.copyData(s.typ, d.store.snapshots.data(s.id, s.typ), to)
	}
	v, err := d.volume(s.id)
	if err != nil {
		return err
	}
	wake, err := d.quiesce(v)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, wake()) }()
	return d.copyData(v.Type, d.dataOf(v), to)
}

func (d *driver) copyData(typ, from, to string) error {
	if typ == typeDirectory {
		if err := copyTree(d.ctx, from, to); err != nil {
			return err
		}
		return syncFS(to)
	}
	return copyImage(d.ctx, from, to)
}

// quiesce keeps an image from changing while it is copied, until the returned function is called. It freezes
// the image's file system, so that the copy begins with a clean journal. A block device cannot be frozen, so
// it copies a writable one only if a copy is of one instant. A directory is copied file by file: a user who
// needs all files of one instant has to stop the writers first.
func (d *driver) quiesce(v *volume) (wake func() error, err error) {
	none := func() error { return nil }
	if v.Type == typeDirectory || v.Stage == nil {
		return none, nil
	}
	if !v.Stage.Use.Block {
		shown, err := d.shownAt(v, v.Stage.Path)
		if err != nil || !shown {
			return none, err
		}
		if err := freeze(v.Stage.Path); err != nil {
			return none, err
		}
		crash("snapshot frozen")
		return func() error { return thaw(v.Stage.Path) }, nil
	}
	for path, t := range v.Targets {
		if !t.ReadOnly && !canReflink(d.store.dir) {
			return none, preconditionf(
				"volume %s is written to as a block device at %s, "+
					"and the file system of %s cannot copy it in one instant", v.ID, path, d.store.dir)
		}
	}
	return none, flush(d.dataOf(v))
}

// DeleteSnapshot removes a snapshot. Volumes made from it have separate copies.
func (d *driver) DeleteSnapshot(
	_ context.Context, req *csi.DeleteSnapshotRequest,
) (*csi.DeleteSnapshotResponse, error) {
	id := req.GetSnapshotId()
	if id == "" {
		return nil, invalidf("snapshot_id is missing")
	}
	release, err := d.lock(id)
	if err != nil {
		return nil, err
	}
	defer release()
	n, ok := d.store.snapshots.getRecord(id)
	if !ok {
		return &csi.DeleteSnapshotResponse{}, d.otherNodeError(id)
	}
	gone := *n
	gone.State = stateDeleting
	if err := d.store.snapshots.putRecord(&gone); err != nil {
		return nil, err
	}
	return &csi.DeleteSnapshotResponse{}, d.eraseSnapshot(&gone)
}

// GetSnapshot returns one snapshot.
func (d *driver) GetSnapshot(
	_ context.Context, req *csi.GetSnapshotRequest,
) (*csi.GetSnapshotResponse, error) {
	n, err := d.snapshot(req.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	return &csi.GetSnapshotResponse{Snapshot: d.describeSnapshot(n)}, nil
}
