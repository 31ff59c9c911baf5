package csi

import (
	"cmp"
	"context"

	"berth/endpoints/query"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate"
)

// HostVolumes serves the methods of dynamic host volumes. Their rows are volumes of the CSI plugin that comes
// with berth.
type HostVolumes struct{ VolumeWrites }

// Create chooses the node of a volume and has its plugin create it there.
func (p HostVolumes) Create(
	ctx context.Context,
	req *storage.HostVolumeCreateRequest,
	resp *storage.HostVolumeCreateResponse,
) (uint64, error) {
	if req.Volume == nil {
		return 0, structs.Invalidf("Volume: nothing is given; expected a host volume")
	}

	v := *req.Volume
	v.Namespace = cmp.Or(v.Namespace, req.RequestNamespace())
	v.Canonicalize()
	err := validate.HostVolume(&v)
	if err != nil {
		return 0, err
	}

	options := req.WriteOptions
	options.Namespace = v.Namespace
	made := &structs.CSIVolumeRegisterResponse{}
	index, err := p.CreateHost(ctx, &HostVolume{
		Name:         v.Name,
		Choose:       func(tx *state.ReadTx) (*structs.CSIVolume, error) { return chooseHostNode(tx, v) },
		Detach:       req.Detach,
		WriteOptions: options,
	}, made)
	if err != nil {
		return 0, err
	}

	row := made.Volumes[0]
	tx := p.Store.Read()
	stored := csi.Volume(tx, row.Namespace, row.ID)
	if stored == nil {
		return 0, structs.Conflictf("host volume %q was deleted meanwhile", v.Name)
	}
	resp.Volume = hostVolumeForm(tx, stored)
	resp.Warnings = made.Warnings
	return index, nil
}

// Register rejects the registration of a directory that exists on a node.
func (HostVolumes) Register(
	context.Context, *storage.HostVolumeRegisterRequest, *structs.Empty,
) (uint64, error) {
	return 0, structs.Preconditionf("a directory that exists on a node is not registered: offer it with a " +
		"block host_volume in the client block of the configuration of the node, and send SIGHUP to its agent")
}

// findHostVolume returns the row of a host volume. The error is not-found.
func findHostVolume(tx *state.ReadTx, ns, id string) (*structs.CSIVolume, error) {
	row := csi.Volume(tx, ns, id)
	if row == nil || row.Host == nil {
		return nil, structs.NotFoundf("no host volume %q in namespace %q; to see their IDs: %s",
			structs.Cut(id, structs.MaxQuoted), ns, structs.CommandLine(ns, "volume status", "-type", "host"))
	}
	return row, nil
}

// hostVolumeForm returns a row in the form of the dialect.
func hostVolumeForm(tx *state.ReadTx, row *structs.CSIVolume) *storage.DynamicHostVolume {
	return storage.HostVolumeOf(row, blockOfRow(tx, row))
}

// Get reads a volume with the allocations that have it, or wait for it. The error is not-found.
func (HostVolumes) Get(
	tx *state.ReadTx, req *storage.HostVolumeGetRequest, resp *storage.HostVolumeGetResponse,
) error {
	row, err := findHostVolume(tx, req.RequestNamespace(), req.ID)
	if err != nil {
		return err
	}
	resp.Volume = &storage.DynamicHostVolumeDetail{
		DynamicHostVolume: *hostVolumeForm(tx, row),
		Allocations:       state.VolumeDetail(tx, row).Allocations,
	}
	return nil
}

// List lists the volumes of the namespaces of a request, as stubs.
func (HostVolumes) List(
	tx *state.ReadTx, req *storage.HostVolumeListRequest, resp *storage.HostVolumeListResponse,
) (err error) {
	l := query.List[structs.CSIVolume, storage.DynamicHostVolumeStub]{
		Key:  func(v *structs.CSIVolume) []string { return []string{v.Namespace, v.ID} },
		Stub: func(v *structs.CSIVolume, s *storage.DynamicHostVolumeStub) { *s = *hostVolumeForm(tx, v).Stub() },
		Keep: func(v *structs.CSIVolume) bool {
			return v.Host != nil &&
				(req.NodeID == "" || v.Host.NodeID == req.NodeID) &&
				(req.NodePool == "" || v.Host.NodePool == req.NodePool)
		},
	}
	rows := csi.VolumesFrom(tx, req.RequestNamespace(), req.Prefix, query.Start(req))
	resp.Volumes, err = l.Page(rows, req, resp)
	return err
}

// Remove deletes a volume and its data at once, or with Force the row of one whose node is gone.
func (p HostVolumes) Remove(
	ctx context.Context, req *storage.HostVolumeDeleteRequest, resp *structs.Empty,
) (uint64, error) {
	tx := p.Store.Read()
	row, err := findHostVolume(tx, req.RequestNamespace(), req.ID)
	if err != nil {
		return 0, err
	}

	gone := state.Node(tx, row.Host.NodeID) == nil
	command := structs.CommandLine(row.Namespace, "volume delete", "-type", "host", "-force", row.ID)
	switch {
	case gone && req.Force:
		return p.Deregister(ctx, &structs.CSIVolumeDeregisterRequest{
			ID:           row.ID,
			Force:        true,
			WriteOptions: req.WriteOptions,
		}, resp)
	case gone:
		return 0, structs.Preconditionf("host volume %q is on node %s, which is gone, so no plugin can delete "+
			"it; to delete its row alone: %s", row.Host.Name, structs.ShortID(row.Host.NodeID), command)
	case req.Force:
		return 0, structs.Preconditionf("host volume %q is on node %s, which is still a node of the cluster: "+
			"force is for a node that is gone; delete the volume without it", row.Host.Name,
			structs.ShortID(row.Host.NodeID))
	}
	return p.VolumeWrites.Remove(ctx, &structs.CSIVolumeDeleteRequest{
		ID:           row.ID,
		AtOnce:       true,
		WriteOptions: req.WriteOptions,
	}, resp)
}

// ListClaims lists the claims of groups on sticky host volumes.
func (HostVolumes) ListClaims(
	tx *state.ReadTx, req *storage.ClaimListRequest, resp *storage.ClaimListResponse,
) (err error) {
	matches := func(asked, value string) bool { return asked == "" || asked == value }
	l := query.List[storage.TaskGroupHostVolumeClaim, storage.TaskGroupHostVolumeClaim]{
		Key:  func(c *storage.TaskGroupHostVolumeClaim) []string { return []string{c.Namespace, c.ID} },
		Stub: func(c, stub *storage.TaskGroupHostVolumeClaim) { *stub = *c },
		Keep: func(c *storage.TaskGroupHostVolumeClaim) bool {
			return matches(req.JobID, c.JobID) && matches(req.TaskGroup, c.TaskGroupName) &&
				matches(req.VolumeName, c.VolumeName)
		},
	}
	rows := csi.HostClaimsFrom(tx, req.RequestNamespace(), req.Prefix, query.Start(req))
	resp.Claims, err = l.Page(rows, req, resp)
	return err
}
