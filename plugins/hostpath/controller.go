package hostpath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"berth/internal/files"
	"berth/plugins/hostpath/disk"
)

// crash is called at the points between record, act and mark; tests of kills set it.
var crash = func(point string) {}

// ControllerGetCapabilities returns the controller's capabilities. It has no attach: a volume stays on its
// node.
func (d *controller) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
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
			Type: &csi.ControllerServiceCapability_Rpc{
				Rpc: &csi.ControllerServiceCapability_RPC{Type: c}}})
	}
	return resp, nil
}

// CreateVolume makes a volume on this node, or finds the one of that name.
func (d *controller) CreateVolume(
	_ context.Context, req *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	keys := []string{"volume name " + req.GetName()}
	content := req.GetVolumeContentSource()
	sourceID := cmp.Or(
		content.GetVolume().GetVolumeId(),
		content.GetSnapshot().GetSnapshotId())
	if sourceID != "" {
		keys = append(keys, sourceID) // no call changes a source during the copy
	}

	release, err := d.lockKeys(keys...)
	if err != nil {
		return nil, err
	}
	defer release()

	// The source is looked up under its lock, so no call deletes it before the copy.
	w, err := d.parseCreate(req)
	if err != nil {
		return nil, err
	}

	err = d.checkReachable(req.GetAccessibilityRequirements())
	if err != nil {
		return nil, err
	}

	v, found := d.store.Volumes.FindByName(w.name)
	// A failed creation whose data could not be removed is also here, until the next start removes it.
	switch {
	case found && v.State != disk.Ready:
		return nil, disk.Faultf(codes.Aborted,
			"volume %s of that name is being deleted", v.ID)
	case found:
		if field := w.differenceTo(v); field != "" {
			return nil, disk.Faultf(codes.AlreadyExists,
				"volume %s of that name has another %s", v.ID, field)
		}

	default:
		v, err = d.createVolume(w)
		if err != nil {
			return nil, err
		}
	}

	return &csi.CreateVolumeResponse{Volume: d.describeVolume(v)}, nil
}

func (d *controller) describeVolume(v *disk.Volume) *csi.Volume {
	return &csi.Volume{
		VolumeId:           v.ID,
		CapacityBytes:      v.Size,
		ContentSource:      contentSource(v.Source),
		AccessibleTopology: []*csi.Topology{d.topology()},
	}
}

// createVolume records a volume, fills it and marks it ready. It removes the remains of a failure. The next
// start removes the remains of a kill.
func (d *controller) createVolume(w *createRequest) (*disk.Volume, error) {
	v := &disk.Volume{
		Head:       d.newRecord("vol", w.name),
		Content:    disk.Content{Type: w.typ, FSType: w.fsType, Size: w.size},
		Thick:      w.typ == disk.Image && w.thick,
		Source:     w.source.String(),
		Parameters: w.params,
		Created:    time.Now().UTC(),
	}

	err := putBooked(d.driver, d.store.Volumes, v, v.Size)
	if err != nil {
		return nil, err
	}

	crash("create recorded")
	// A stored row never changes: this copy gets the results. After a failure v names the remains.
	made := *v
	err = d.fillVolume(&made, w)
	if err == nil {
		crash("create made")
		made.State = disk.Ready
		err = d.store.Volumes.Put(&made)
	}
	if err != nil {
		err = fmt.Errorf("making volume %q: %w", w.name, err)
		return nil, errors.Join(err, d.eraseVolume(v))
	}

	return &made, nil
}

// putBooked puts a row that books size more bytes, if the capacity suffices. The lock serializes bookings.
func putBooked[R disk.Row](d *driver, rows *disk.Table[R], r R, size int64) error {
	d.booking.Lock()
	defer d.booking.Unlock()
	left, err := d.freeBytes()
	if err != nil {
		return err
	}
	if size > left {
		return disk.Faultf(codes.ResourceExhausted,
			"node %s has %d free bytes, %d are requested", d.cfg.NodeID, left, size)
	}
	return rows.Put(r)
}

// freeBytes returns the bytes that are not booked, of the configured capacity or else of the file system. It
// is never more than the file system has free now.
func (d *driver) freeBytes() (int64, error) {
	total, free, err := disk.FreeSpace(d.store.Dir)
	if err != nil {
		return 0, fmt.Errorf("measuring the data directory: %w", err)
	}
	if d.cfg.Capacity > 0 {
		total = d.cfg.Capacity
	}
	return max(0, min(total-d.store.BookedBytes(), free)), nil
}

// dataOf is the path of a volume's data: a directory or an image.
func (d *driver) dataOf(v *disk.Volume) string {
	return d.store.Volumes.Data(v.ID, v.Type)
}

// fillVolume makes the data of a new volume, durably.
func (d *controller) fillVolume(v *disk.Volume, w *createRequest) error {
	data := d.dataOf(v)
	fill := d.fillImage
	if v.Type == disk.Directory {
		fill = d.fillDirectory
	}
	err := fill(v, w, data)
	if err != nil {
		return err
	}
	dir := d.store.Volumes.Path(v.ID)
	// The marks of success follow, so the data and its name in the directory have to be on the disk.
	return errors.Join(files.SyncDurable(data), files.SyncDurable(dir))
}

func (d *controller) fillDirectory(_ *disk.Volume, w *createRequest, data string) error {
	err := os.Mkdir(data, 0o700)
	if err != nil {
		return err
	}
	if w.source.kind == "" {
		// The user of the task is not known here, and the umask bounds Mkdir.
		return os.Chmod(data, 0o777)
	}
	return d.copyFrom(w.source, data)
}

func (d *controller) fillImage(v *disk.Volume, w *createRequest, data string) error {
	if w.source.kind != "" {
		err := d.copyFrom(w.source, data)
		if err != nil {
			return err
		}

		v.FSSize = w.source.FSSize
	}

	err := resizeImage(data, v.Size, false)
	if err != nil {
		return err
	}

	if w.source.kind == "" && v.FSType != "" {
		err = disk.Format(d.ctx, v.FSType, data)
		if err != nil {
			return err
		}

		v.FSSize = v.Size
	}

	return resizeImage(data, v.Size, w.thick) // formatting may free blocks
}

// DeleteVolume removes a volume and its data. It rejects a volume that is in use.
func (d *controller) DeleteVolume(
	_ context.Context, req *csi.DeleteVolumeRequest,
) (*csi.DeleteVolumeResponse, error) {
	id := req.GetVolumeId()
	if id == "" {
		return nil, disk.Invalidf("volume_id is missing")
	}

	release, err := d.lockKeys(id)
	if err != nil {
		return nil, err
	}
	defer release()

	v, ok := d.store.Volumes.Get(id)
	if !ok {
		return &csi.DeleteVolumeResponse{}, d.otherNodeError(id)
	}

	err = d.checkUnused(v)
	if err != nil {
		return nil, err
	}

	// From here on the volume does not come back: a kill leaves the deletion to the next start.
	gone := *v
	gone.State = disk.Deleting
	err = d.store.Volumes.Put(&gone)
	if err != nil {
		return nil, err
	}

	crash("delete recorded")
	return &csi.DeleteVolumeResponse{}, d.eraseVolume(&gone)
}

// checkUnused rejects a volume that is staged or published.
func (d *controller) checkUnused(v *disk.Volume) error {
	v = v.EditCopy()
	if err := checkUnpublished(v); err != nil {
		return err
	}
	live, err := d.isStaged(v)
	if err == nil && live {
		err = disk.Preconditionf("volume %s is staged at %s", v.ID, v.Stage.Path)
	}
	return err
}

// eraseVolume removes a volume's data and then its record, unless something shows the data.
func (d *driver) eraseVolume(v *disk.Volume) error {
	data := d.dataOf(v)
	var err error
	if v.Type == disk.Directory {
		err = d.checkUnexposed(v)
	} else {
		err = d.releaseImage(data)
	}
	if err != nil {
		return err
	}
	err = os.RemoveAll(data)
	if err != nil {
		return fmt.Errorf("removing volume %s: %w", v.ID, err)
	}
	crash("delete erased")
	return d.store.Volumes.Delete(v.ID)
}

// ValidateVolumeCapabilities checks whether a volume supports the capabilities.
func (d *controller) ValidateVolumeCapabilities(
	_ context.Context, req *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if req.GetVolumeId() != "" &&
		len(req.GetVolumeCapabilities()) == 0 {
		return nil, disk.Invalidf("volume_capabilities are missing")
	}

	v, err := d.volume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}

	for _, c := range req.GetVolumeCapabilities() {
		if err := checkCapability(c); err != nil {
			return nil, err
		}

		err := checkAllowed(v.Type, v.FSType, c)
		// What no volume has is a fault of the request. What this volume lacks is an answer.
		if err != nil {
			return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
		}
	}

	confirmed := &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext:      req.GetVolumeContext(),
		VolumeCapabilities: req.GetVolumeCapabilities(),
		Parameters:         req.GetParameters(),
	}

	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: confirmed}, nil
}

// GetCapacity returns the capacity that may still be reserved here.
func (d *controller) GetCapacity(
	_ context.Context, req *csi.GetCapacityRequest,
) (*csi.GetCapacityResponse, error) {
	t := req.GetAccessibleTopology()
	// This node makes no volumes there: a capacity of 0.
	if t != nil && !d.isHere(t) {
		return &csi.GetCapacityResponse{}, nil
	}

	w := &createRequest{params: req.GetParameters()}
	err := decideParams(w)
	if err == nil {
		err = decideType(w, req.GetVolumeCapabilities())
	}
	if err != nil {
		return nil, err
	}

	left, err := d.freeBytes()
	if err != nil {
		return nil, err
	}

	least, _ := sizes(w.typ, w.fsType)
	return &csi.GetCapacityResponse{
		AvailableCapacity: left,
		MaximumVolumeSize: wrapperspb.Int64(left),
		MinimumVolumeSize: wrapperspb.Int64(least),
	}, nil
}
