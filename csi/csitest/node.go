package csitest

import (
	"context"
	"path/filepath"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
)

// node serves the node half. It embeds the services of the specification, so an RPC that it lacks answers
// Unimplemented.
type node struct {
	spec.UnimplementedNodeServer
	p *Plugin
}

func (s node) NodeGetCapabilities(
	context.Context, *spec.NodeGetCapabilitiesRequest,
) (*spec.NodeGetCapabilitiesResponse, error) {
	resp := &spec.NodeGetCapabilitiesResponse{}
	for _, name := range s.p.cfg.NodeCaps {
		// An unknown name is the value 0, UNKNOWN, which some real plugins announce.
		number := spec.NodeServiceCapability_RPC_Type_value[name]
		resp.Capabilities = append(resp.Capabilities, &spec.NodeServiceCapability{
			Type: &spec.NodeServiceCapability_Rpc{Rpc: &spec.NodeServiceCapability_RPC{
				Type: spec.NodeServiceCapability_RPC_Type(number)}}})
	}
	return resp, nil
}

func (s node) NodeGetInfo(context.Context, *spec.NodeGetInfoRequest) (*spec.NodeGetInfoResponse, error) {
	resp := &spec.NodeGetInfoResponse{
		NodeId:            s.p.cfg.NodeID,
		MaxVolumesPerNode: s.p.cfg.MaxVolumes,
	}
	// A plugin without a topology leaves the field out.
	if len(s.p.cfg.Topology) > 0 {
		resp.AccessibleTopology = &spec.Topology{Segments: s.p.cfg.Topology}
	}
	return resp, nil
}

// NodeStageVolume records the staging path, and binds the directory of the volume there if the plugin mounts.
func (s node) NodeStageVolume(
	_ context.Context, req *spec.NodeStageVolumeRequest,
) (*spec.NodeStageVolumeResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	v, err := store.onNode(req.GetVolumeId())
	if err != nil {
		return nil, err
	}

	err = store.bindMount(filepath.Join(store.dir, req.GetVolumeId()),
		req.GetStagingTargetPath(), false)
	if err != nil {
		return nil, err
	}

	v.staged[req.GetStagingTargetPath()] = true
	return &spec.NodeStageVolumeResponse{}, nil
}

// onNode finds a volume. For a plugin that has only the node half, every ID exists.
func (store *storage) onNode(id string) (*volume, error) {
	v := store.volumes[id]
	if v == nil && id != "" && !store.cfg.Controller {
		return store.addVolume(id, &spec.Volume{VolumeId: id}), nil
	}
	return store.findVolume(id)
}

// NodeUnstageVolume forgets the staging path. An unknown volume is unstaged already. The directory stays,
// because the client made it.
func (s node) NodeUnstageVolume(
	_ context.Context, req *spec.NodeUnstageVolumeRequest,
) (*spec.NodeUnstageVolumeResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	if v := store.volumes[req.GetVolumeId()]; v != nil {
		delete(v.staged, req.GetStagingTargetPath())
	}
	return &spec.NodeUnstageVolumeResponse{}, store.unmount(req.GetStagingTargetPath(), false)
}

// NodePublishVolume records the target path, and binds the staged directory there if the plugin mounts.
func (s node) NodePublishVolume(
	_ context.Context, req *spec.NodePublishVolumeRequest,
) (*spec.NodePublishVolumeResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	v, err := store.onNode(req.GetVolumeId())
	if err != nil {
		return nil, err
	}

	// A staged volume is bound from its staging path: the stage may have mounted another directory.
	source := filepath.Join(store.dir, req.GetVolumeId())
	if st := req.GetStagingTargetPath(); st != "" {
		if !v.staged[st] {
			return nil, Error("FailedPrecondition", "volume %q is not staged at %s",
				req.GetVolumeId(), st)
		}

		source = store.cfg.HostPath(st)
	}

	err = store.bindMount(source, req.GetTargetPath(), req.GetReadonly())
	if err != nil {
		return nil, err
	}

	v.published[req.GetTargetPath()] = true
	return &spec.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume forgets the target path and removes it, as the specification demands.
func (s node) NodeUnpublishVolume(
	_ context.Context, req *spec.NodeUnpublishVolumeRequest,
) (*spec.NodeUnpublishVolumeResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	if v := store.volumes[req.GetVolumeId()]; v != nil {
		delete(v.published, req.GetTargetPath())
	}
	return &spec.NodeUnpublishVolumeResponse{}, store.unmount(req.GetTargetPath(), true)
}

// NodeExpandVolume reports the size that the controller has set, or the larger requested one.
func (s node) NodeExpandVolume(
	_ context.Context, req *spec.NodeExpandVolumeRequest,
) (*spec.NodeExpandVolumeResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	v, err := store.onNode(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return &spec.NodeExpandVolumeResponse{
		CapacityBytes: max(v.GetCapacityBytes(),
			req.GetCapacityRange().GetRequiredBytes()),
	}, nil
}
