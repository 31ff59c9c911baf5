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

	"berth/plugins/hostpath/disk"
)

// CreateSnapshot copies a volume's data. It returns when the copy is whole, so a snapshot is always ready.
func (d *controller) CreateSnapshot(
	_ context.Context, req *csi.CreateSnapshotRequest,
) (*csi.CreateSnapshotResponse, error) {
	name := req.GetName()
	if name == "" {
		return nil, disk.Invalidf("name is missing")
	}

	sourceID := req.GetSourceVolumeId()
	if sourceID == "" {
		return nil, disk.Invalidf("source_volume_id is missing")
	}

	err := d.checkReachable(req.GetAccessibilityRequirements())
	if err != nil {
		return nil, err
	}

	release, err := d.lockKeys("snapshot name "+name, sourceID)
	if err != nil {
		return nil, err
	}
	defer release()

	n, found := d.store.Snapshots.FindByName(name)
	switch {
	case found && n.State != disk.Ready:
		return nil, disk.Faultf(codes.Aborted,
			"snapshot %s of that name is being deleted", n.ID)
	case found && n.Source != sourceID:
		return nil, disk.Faultf(codes.AlreadyExists,
			"snapshot %s of that name is of volume %s", n.ID, n.Source)
	case !found:
		v, err := d.volume(sourceID)
		if err != nil {
			return nil, err
		}

		n, err = d.createSnapshot(&disk.Snapshot{
			Head:    d.newRecord("snap", name),
			Content: v.Content,
			Source:  v.ID,
			Created: time.Now().UTC(),
		}, func(to string) error { return d.copyVolume(v.ID, to) })
		if err != nil {
			return nil, err
		}
	}

	return &csi.CreateSnapshotResponse{Snapshot: d.describeSnapshot(n)}, nil
}

func (d *controller) describeSnapshot(n *disk.Snapshot) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId:     n.ID,
		SourceVolumeId: n.Source,
		SizeBytes:      n.Size,
		ReadyToUse:     true,
		CreationTime:   timestamppb.New(n.Created),

		GroupSnapshotId: n.Group,
	}
}

// createSnapshot makes a snapshot: recorded, copied, marked ready.
func (d *controller) createSnapshot(
	n *disk.Snapshot, copyTo func(path string) error,
) (*disk.Snapshot, error) {
	err := putBooked(d.driver, d.store.Snapshots, n, n.Size)
	if err != nil {
		return nil, err
	}

	crash("snapshot recorded")
	data := d.store.Snapshots.Data(n.ID, n.Type)
	if n.Type == disk.Directory {
		err = os.Mkdir(data, 0o700)
	}
	if err == nil {
		err = copyTo(data)
	}
	if err == nil {
		crash("snapshot made")
		ready := *n
		ready.State = disk.Ready
		n = &ready
		err = d.store.Snapshots.Put(n)
	}
	if err != nil {
		err = fmt.Errorf("making snapshot %q: %w", n.Name, err)
		return nil, errors.Join(err, d.eraseSnapshot(n))
	}

	return n, nil
}

func (d *driver) eraseSnapshot(n *disk.Snapshot) error {
	err := os.RemoveAll(d.store.Snapshots.Data(n.ID, n.Type))
	if err != nil {
		return fmt.Errorf("removing snapshot %s: %w", n.ID, err)
	}
	return d.store.Snapshots.Delete(n.ID)
}

// copyFrom copies a source's data to an image path or into an empty directory, durably.
func (d *controller) copyFrom(s source, to string) error {
	if s.kind == "snapshot" {
		return d.copyData(s.Type, d.store.Snapshots.Data(s.id, s.Type), to)
	}
	return d.copyVolume(s.id, to)
}

func (d *controller) copyVolume(id, to string) (err error) {
	v, err := d.volume(id)
	if err != nil {
		return err
	}
	unfreeze, err := d.quiesce(v)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, unfreeze())
	}()
	return d.copyData(v.Type, d.dataOf(v), to)
}

func (d *controller) copyData(typ, from, to string) error {
	if typ == disk.Directory {
		err := disk.CopyTree(d.ctx, from, to)
		if err != nil {
			return err
		}
		// Tree syncs none of the files: one sync of all is cheaper.
		return disk.Sync(to)
	}
	return disk.CopyImage(d.ctx, from, to)
}

// quiesce prevents changes of an image during a copy, until a call of the returned function. It freezes the
// image's file system, so that the copy has a clean journal. It cannot freeze a block device, so it accepts a
// writable one only if a copy is of one instant. The copy of a directory is file by file: a user who needs
// all files of one instant has to stop the writers first.
func (d *controller) quiesce(v *disk.Volume) (unfreeze func() error, err error) {
	none := func() error { return nil }
	if v.Type == disk.Directory || v.Stage == nil {
		return none, nil
	}

	if !v.Stage.Use.Block {
		shown, err := d.shownAt(v, v.Stage.Path)
		if err != nil || !shown {
			return none, err
		}

		err = disk.Freeze(v.Stage.Path)
		if err != nil {
			return none, err
		}

		crash("snapshot frozen")
		return func() error {
			return disk.Thaw(v.Stage.Path)
		}, nil
	}

	for path, t := range v.Targets {
		if !t.ReadOnly && !disk.CanReflink(d.store.Dir) {
			return none, disk.Preconditionf(
				"volume %s is written to as a block device at %s, "+
					"and the file system of %s cannot copy it in one instant",
				v.ID, path, d.store.Dir)
		}
	}

	return none, disk.FlushLoop(d.dataOf(v))
}

// DeleteSnapshot removes a snapshot. Volumes made from it have separate copies.
func (d *controller) DeleteSnapshot(
	_ context.Context, req *csi.DeleteSnapshotRequest,
) (*csi.DeleteSnapshotResponse, error) {
	id := req.GetSnapshotId()
	if id == "" {
		return nil, disk.Invalidf("snapshot_id is missing")
	}

	release, err := d.lockKeys(id)
	if err != nil {
		return nil, err
	}
	defer release()

	n, ok := d.store.Snapshots.Get(id)
	if !ok {
		return &csi.DeleteSnapshotResponse{}, d.otherNodeError(id)
	}

	err = checkAlone(n)
	if err != nil {
		return nil, err
	}

	gone := *n
	gone.State = disk.Deleting
	err = d.store.Snapshots.Put(&gone)
	if err != nil {
		return nil, err
	}

	return &csi.DeleteSnapshotResponse{}, d.eraseSnapshot(&gone)
}

// GetSnapshot returns one snapshot.
func (d *controller) GetSnapshot(
	_ context.Context, req *csi.GetSnapshotRequest,
) (*csi.GetSnapshotResponse, error) {
	n, err := d.snapshot(req.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	return &csi.GetSnapshotResponse{Snapshot: d.describeSnapshot(n)}, nil
}
