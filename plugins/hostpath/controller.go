package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// crash is called at the points between record, act and mark; tests of kills set it.
var crash = func(point string) {}

// ControllerGetCapabilities names what the controller can do. There is no attach: a volume is where it is.
func (d *driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	resp := &csi.ControllerGetCapabilitiesResponse{}
	for _, c := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_GET_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		resp.Capabilities = append(resp.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: c}}})
	}
	return resp, nil
}

// CreateVolume makes a volume on this node, or finds the one of that name.
func (d *driver) CreateVolume(_ context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	keys := []string{"volume name " + req.GetName()}
	for _, id := range []string{req.GetVolumeContentSource().GetVolume().GetVolumeId(), req.GetVolumeContentSource().GetSnapshot().GetSnapshotId()} {
		if id != "" {
			keys = append(keys, id) // a source stays as it is while it is copied
		}
	}
	release, err := d.locks.take(keys...)
	if err != nil {
		return nil, err
	}
	defer release()
	w, err := d.read(req)
	if err != nil {
		return nil, err
	}
	if err := d.reachable(req.GetAccessibilityRequirements()); err != nil {
		return nil, err
	}
	v, found := d.store.volumes.named(w.name)
	switch {
	case found && v.State != stateReady:
		return nil, fail(codes.Aborted, "volume %s of that name is being deleted", v.ID)
	case found:
		if what := w.matches(v); what != "" {
			return nil, fail(codes.AlreadyExists, "volume %s of that name has another %s", v.ID, what)
		}
	default:
		if v, err = d.create(w); err != nil {
			return nil, err
		}
	}
	return &csi.CreateVolumeResponse{Volume: d.describe(v)}, nil
}

func (d *driver) describe(v *volume) *csi.Volume {
	out := &csi.Volume{VolumeId: v.ID, CapacityBytes: v.Size, AccessibleTopology: []*csi.Topology{d.topology()}}
	out.ContentSource = contentSource(v.Source)
	return out
}

// create makes a volume: recorded, filled, marked ready. What a failure leaves is removed at once, what a
// kill leaves at the next start.
func (d *driver) create(w *want) (*volume, error) {
	v := &volume{ID: d.newID("vol"), Name: w.name, State: stateCreating, Type: w.typ, FSType: w.fsType, Size: w.size,
		Source: w.source.String(), Parameters: w.params, Created: time.Now().UTC()}
	if err := d.admit(v.Size, func() error { return d.store.volumes.put(v) }); err != nil {
		return nil, errors.Join(err, d.forget(v.ID))
	}
	crash("create recorded")
	made := *v
	err := d.fill(&made, w)
	if err == nil {
		crash("create made")
		made.State = stateReady
		err = d.store.volumes.put(&made)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making volume %q: %w", w.name, err), d.erase(v))
	}
	return &made, nil
}

// forget removes the directory of a volume whose record could not be written.
func (d *driver) forget(id string) error {
	if _, ok := d.store.volumes.get(id); ok {
		return nil
	}
	if err := os.RemoveAll(d.store.volumes.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// admit books size bytes by calling put, if there is room for them. Admissions are one at a time.
func (d *driver) admit(size int64, put func() error) error {
	d.booking.Lock()
	defer d.booking.Unlock()
	left, err := d.left()
	if err != nil {
		return err
	}
	if size > left {
		return fail(codes.ResourceExhausted, "node %s has room for %d bytes, %d are asked for", d.cfg.NodeID, left, size)
	}
	return put()
}

// left is what may still be booked: of the capacity configured, or else of what the file system has; and
// never more than is free on it now.
func (d *driver) left() (int64, error) {
	total, free, err := room(d.store.dir)
	if err != nil {
		return 0, fmt.Errorf("measuring the data directory: %w", err)
	}
	if d.cfg.Capacity > 0 {
		total = d.cfg.Capacity
	}
	return max(0, min(total-d.store.booked(), free)), nil
}

// dataOf is the path of a volume's data: a directory or an image.
func (d *driver) dataOf(v *volume) string { return dataIn(d.store.volumes.path(v.ID), v.Type) }

func dataIn(dir, typ string) string {
	if typ == typeDirectory {
		return dir + "/data"
	}
	return dir + "/image"
}

// fill makes the data of a new volume.
func (d *driver) fill(v *volume, w *want) error {
	data := d.dataOf(v)
	if v.Type == typeDirectory {
		if err := os.Mkdir(data, 0o700); err != nil {
			return err
		}
		if w.source.kind == "" {
			return errors.Join(os.Chmod(data, 0o777), syncDir(data), syncDir(d.store.volumes.path(v.ID)))
		}
		return d.copyFrom(w.source, data)
	}
	if w.source.kind != "" {
		if err := d.copyFrom(w.source, data); err != nil {
			return err
		}
		v.FSSize = w.source.fsSize
	}
	if err := resizeImage(data, v.Size, false); err != nil {
		return err
	}
	if w.source.kind == "" && v.FSType != "" {
		if err := format(d.ctx, v.FSType, data); err != nil {
			return err
		}
		v.FSSize = v.Size
	}
	if err := resizeImage(data, v.Size, w.thick); err != nil { // formatting gives blocks back
		return err
	}
	return syncFile(data)
}

// resizeImage makes an image size bytes long, never shorter than it is.
func resizeImage(path string, size int64, thick bool) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < size {
		err = f.Truncate(size)
	}
	if err == nil && thick {
		err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	}
	return errors.Join(err, f.Close())
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), syncDir(parentOf(path)))
}

// DeleteVolume removes a volume and its data. One that anything still shows is refused.
func (d *driver) DeleteVolume(_ context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	id := req.GetVolumeId()
	if id == "" {
		return nil, fail(codes.InvalidArgument, "volume_id is missing")
	}
	release, err := d.locks.take(id)
	if err != nil {
		return nil, err
	}
	defer release()
	v, ok := d.store.volumes.get(id)
	if !ok {
		return &csi.DeleteVolumeResponse{}, d.elsewhere(id)
	}
	if err := d.unused(v); err != nil {
		return nil, err
	}
	gone := *v
	gone.State = stateDeleting
	if err := d.store.volumes.put(&gone); err != nil {
		return nil, err
	}
	crash("delete recorded")
	return &csi.DeleteVolumeResponse{}, d.erase(&gone)
}

// unused refuses a volume that is staged or published.
func (d *driver) unused(v *volume) error {
	v = v.fresh()
	for p := range v.Targets {
		mounted, err := isMounted(p)
		if err != nil {
			return err
		}
		if mounted {
			return fail(codes.FailedPrecondition, "volume %s is published at %s", v.ID, p)
		}
	}
	live, err := d.staged(v)
	if err == nil && live {
		err = fail(codes.FailedPrecondition, "volume %s is staged at %s", v.ID, v.Stage.Path)
	}
	return err
}

// erase removes a volume's data and then its record, unless something shows the data.
func (d *driver) erase(v *volume) error {
	data := d.dataOf(v)
	if v.Type == typeDirectory {
		at, err := d.exposures(v)
		if err != nil {
			return err
		}
		if len(at) > 0 {
			return fail(codes.FailedPrecondition, "volume %s is in use at %s", v.ID, at[0])
		}
	} else if err := d.release(data); err != nil {
		return err
	}
	if err := os.RemoveAll(data); err != nil {
		return fmt.Errorf("removing volume %s: %w", v.ID, err)
	}
	crash("delete erased")
	return d.store.volumes.drop(v.ID)
}

// releasePatience is how long release waits for a device's last user. A mount that is gone here may live
// on for a moment in the mount namespace of a process that is just being started; nothing tells us when
// that ends.
const releasePatience = 2 * time.Second

// release frees an image from its loop devices; one that somebody still uses is refused.
func (d *driver) release(image string) error {
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for start := time.Now(); ; {
		devices, err := loopsOf(image)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || len(devices) == 0 {
			return err
		}
		if time.Since(start) > releasePatience {
			return fail(codes.FailedPrecondition, "the volume is in use through %s", devices[0].path)
		}
		if err := detach(image); err != nil {
			return err
		}
		select {
		case <-t.C:
		case <-d.ctx.Done():
			return d.ctx.Err()
		}
	}
}

// ValidateVolumeCapabilities says whether a volume can be used as asked.
func (d *driver) ValidateVolumeCapabilities(_ context.Context, req *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if req.GetVolumeId() != "" && len(req.GetVolumeCapabilities()) == 0 {
		return nil, fail(codes.InvalidArgument, "volume_capabilities are missing")
	}
	v, err := d.volume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	for _, c := range req.GetVolumeCapabilities() {
		if err := wellFormed(c); err != nil {
			return nil, err
		}
		if err := allows(v.Type, v.FSType, c); err != nil {
			return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
		}
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: req.GetVolumeContext(), VolumeCapabilities: req.GetVolumeCapabilities(), Parameters: req.GetParameters()}}, nil
}

// GetCapacity tells how much may still be booked here.
func (d *driver) GetCapacity(_ context.Context, req *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	if t := req.GetAccessibleTopology(); t != nil && !d.isHere(t) {
		return &csi.GetCapacityResponse{}, nil
	}
	w := &want{params: req.GetParameters()}
	if err := decideParams(w, nil); err != nil {
		return nil, err
	}
	if err := decideType(w, &csi.CreateVolumeRequest{VolumeCapabilities: req.GetVolumeCapabilities()}); err != nil {
		return nil, err
	}
	left, err := d.left()
	if err != nil {
		return nil, err
	}
	least, _ := sizes(w.typ, w.fsType)
	return &csi.GetCapacityResponse{AvailableCapacity: left, MaximumVolumeSize: wrapperspb.Int64(left),
		MinimumVolumeSize: wrapperspb.Int64(least)}, nil
}

// ControllerExpandVolume books and grows a volume. Its file system grows here too when the volume is not
// in use; else that is left to the node.
func (d *driver) ControllerExpandVolume(_ context.Context, req *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	v, err := d.volume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	r := req.GetCapacityRange()
	if r.GetRequiredBytes() == 0 && r.GetLimitBytes() == 0 {
		return nil, fail(codes.InvalidArgument, "capacity_range is missing")
	}
	if err := checkRange(r); err != nil {
		return nil, err
	}
	release, err := d.locks.take(v.ID)
	if err != nil {
		return nil, err
	}
	defer release()
	if v, err = d.volume(v.ID); err != nil { // as it is now that it is ours
		return nil, err
	}
	size := rounded(v.Type, max(r.GetRequiredBytes(), v.Size), r.GetLimitBytes())
	if limit := r.GetLimitBytes(); limit > 0 && size > limit {
		return nil, fail(codes.OutOfRange, "volume %s has %d bytes, the limit is %d", v.ID, size, limit)
	}
	v, err = d.expand(v, size)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: v.Size, NodeExpansionRequired: v.Type == typeImage && v.Stage != nil}, nil
}

// expand grows a volume to size: the booking first, then the image, then what is on it if nobody uses it.
func (d *driver) expand(v *volume, size int64) (*volume, error) {
	if size > v.Size {
		bigger := *v
		bigger.Size = size
		if err := d.admit(size-v.Size, func() error { return d.store.volumes.put(&bigger) }); err != nil {
			return nil, err
		}
		v = &bigger
		crash("expand recorded")
	}
	if v.Type == typeDirectory {
		return v, nil
	}
	if err := resizeImage(d.dataOf(v), v.Size, v.Parameters[paramProvisioning] == "thick"); err != nil {
		return nil, fmt.Errorf("growing volume %s: %w", v.ID, err)
	}
	crash("expand grown")
	if v.Stage != nil {
		return v, nil
	}
	settled, err := d.settle(v)
	if codeIs(err, codes.FailedPrecondition) { // somebody uses it although it is not staged: the next stage grows it
		d.logger.Warn("file system grows with the next stage", "volume_id", v.ID, "error", err)
		return v, nil
	}
	return settled, err
}

// settle brings the file system of an image that is not in use to the size of the image. xfs grows only
// while it is mounted: the next stage does it.
func (d *driver) settle(v *volume) (*volume, error) {
	if v.FSType != "ext4" || v.FSSize >= v.Size {
		return v, nil
	}
	if err := d.release(d.dataOf(v)); err != nil {
		return nil, err
	}
	if err := growOffline(d.ctx, d.dataOf(v)); err != nil {
		return nil, fmt.Errorf("growing the file system of volume %s: %w", v.ID, err)
	}
	return d.grown(v)
}

// grown marks that the file system is as large as the volume.
func (d *driver) grown(v *volume) (*volume, error) {
	done := v.fresh()
	done.FSSize = v.Size
	return done, d.store.volumes.put(done)
}
