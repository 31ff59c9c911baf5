package csitest

import (
	"context"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// identity serves the calls about the plugin itself. It is always ready: a test scripts Probe for anything
// else.
type identity struct {
	spec.UnimplementedIdentityServer
	p *Plugin
}

func (s identity) Probe(context.Context, *spec.ProbeRequest) (*spec.ProbeResponse, error) {
	return &spec.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

func (s identity) GetPluginInfo(
	context.Context, *spec.GetPluginInfoRequest,
) (*spec.GetPluginInfoResponse, error) {
	return &spec.GetPluginInfoResponse{
		Name:          s.p.cfg.Name,
		VendorVersion: s.p.cfg.Version,
	}, nil
}

func (s identity) GetPluginCapabilities(
	context.Context, *spec.GetPluginCapabilitiesRequest,
) (*spec.GetPluginCapabilitiesResponse, error) {
	resp := &spec.GetPluginCapabilitiesResponse{}
	for _, name := range s.p.cfg.PluginCaps {
		cap := &spec.PluginCapability{}
		// One list names values of two enums; the name tells which one.
		if e, ok := spec.PluginCapability_VolumeExpansion_Type_value[name]; ok && e != 0 {
			cap.Type = &spec.PluginCapability_VolumeExpansion_{
				VolumeExpansion: &spec.PluginCapability_VolumeExpansion{
					Type: spec.PluginCapability_VolumeExpansion_Type(e)}}
		} else {
			number := spec.PluginCapability_Service_Type_value[name]
			cap.Type = &spec.PluginCapability_Service_{Service: &spec.PluginCapability_Service{
				Type: spec.PluginCapability_Service_Type(number)}}
		}

		resp.Capabilities = append(resp.Capabilities, cap)
	}

	return resp, nil
}

// controller serves the controller half on the storage in memory.
type controller struct {
	spec.UnimplementedControllerServer
	p *Plugin
}

// lock locks the storage for one call.
func (p *Plugin) lock() (store *storage, unlock func()) {
	p.storage.mu.Lock()
	return p.storage, p.storage.mu.Unlock
}

func (s controller) ControllerGetCapabilities(
	context.Context, *spec.ControllerGetCapabilitiesRequest,
) (*spec.ControllerGetCapabilitiesResponse, error) {
	resp := &spec.ControllerGetCapabilitiesResponse{}
	for _, name := range s.p.cfg.ControllerCaps {
		number := spec.ControllerServiceCapability_RPC_Type_value[name]
		resp.Capabilities = append(resp.Capabilities, &spec.ControllerServiceCapability{
			Type: &spec.ControllerServiceCapability_Rpc{Rpc: &spec.ControllerServiceCapability_RPC{
				Type: spec.ControllerServiceCapability_RPC_Type(number)}}})
	}
	return resp, nil
}

func (s controller) CreateVolume(
	_ context.Context, req *spec.CreateVolumeRequest,
) (*spec.CreateVolumeResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	v, err := store.createVolume(req)
	if err != nil {
		return nil, err
	}
	return &spec.CreateVolumeResponse{Volume: v}, nil
}

// GetCapacity answers what Config.Capacity has for the class of the parameters in the place.
func (s controller) GetCapacity(
	_ context.Context, req *spec.GetCapacityRequest,
) (*spec.GetCapacityResponse, error) {
	if s.p.cfg.Capacity == nil {
		return nil, Error("Unimplemented", "no capacity is known")
	}
	return s.p.cfg.Capacity(req), nil
}

// DeleteVolume rejects a volume in use, so that a test sees a deletion before the detach.
func (s controller) DeleteVolume(
	_ context.Context, req *spec.DeleteVolumeRequest,
) (*spec.DeleteVolumeResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	return &spec.DeleteVolumeResponse{}, store.deleteVolume(req.GetVolumeId())
}

func (s controller) ControllerPublishVolume(
	_ context.Context, req *spec.ControllerPublishVolumeRequest,
) (*spec.ControllerPublishVolumeResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	v, err := store.findVolume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}

	mode := req.GetVolumeCapability().GetAccessMode().GetMode()
	other := keys(v.attached)
	// A repeat for the node that has the volume succeeds.
	if singleNode(mode) && len(other) > 0 &&
		(len(other) > 1 || other[0] != req.GetNodeId()) {
		return nil, Error("FailedPrecondition", "volume %q is attached to %v",
			req.GetVolumeId(), other)
	}

	v.attached[req.GetNodeId()] = req.GetReadonly()
	return &spec.ControllerPublishVolumeResponse{
		PublishContext: map[string]string{"device": "/dev/" + req.GetVolumeId()},
	}, nil
}

// singleNode reports whether a mode lets one node use a volume at a time.
func singleNode(m spec.VolumeCapability_AccessMode_Mode) bool {
	switch m {
	case spec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
		spec.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		spec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return false
	}
	return true
}

// ControllerUnpublishVolume succeeds for an unknown volume and node (CSI spec, ControllerUnpublishVolume).
func (s controller) ControllerUnpublishVolume(
	_ context.Context, req *spec.ControllerUnpublishVolumeRequest,
) (*spec.ControllerUnpublishVolumeResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	if v := store.volumes[req.GetVolumeId()]; v != nil {
		delete(v.attached, req.GetNodeId())
	}
	return &spec.ControllerUnpublishVolumeResponse{}, nil
}

// ValidateVolumeCapabilities confirms everything that it is asked.
func (s controller) ValidateVolumeCapabilities(
	_ context.Context, req *spec.ValidateVolumeCapabilitiesRequest,
) (*spec.ValidateVolumeCapabilitiesResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	_, err := store.findVolume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}

	return &spec.ValidateVolumeCapabilitiesResponse{
		Confirmed: &spec.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeContext:      req.GetVolumeContext(),
			VolumeCapabilities: req.GetVolumeCapabilities(),
			Parameters:         req.GetParameters(),
		},
	}, nil
}

func (s controller) ListVolumes(
	_ context.Context, req *spec.ListVolumesRequest,
) (*spec.ListVolumesResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	ids, next, err := pageOf(keys(store.volumes),
		req.GetStartingToken(), req.GetMaxEntries())
	if err != nil {
		return nil, err
	}

	resp := &spec.ListVolumesResponse{NextToken: next}
	for _, id := range ids {
		resp.Entries = append(resp.Entries, &spec.ListVolumesResponse_Entry{
			Volume: cloneOf(store.volumes[id].Volume),
			Status: &spec.ListVolumesResponse_VolumeStatus{
				PublishedNodeIds: keys(store.volumes[id].attached),
			},
		})
	}

	return resp, nil
}

// ControllerModifyVolume accepts any value of a known volume. The record of calls has them.
func (s controller) ControllerModifyVolume(
	_ context.Context, req *spec.ControllerModifyVolumeRequest,
) (*spec.ControllerModifyVolumeResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	_, err := store.findVolume(req.GetVolumeId())
	return &spec.ControllerModifyVolumeResponse{}, err
}

// ControllerExpandVolume never makes a volume smaller, and always leaves a part of the work to the node.
func (s controller) ControllerExpandVolume(
	_ context.Context, req *spec.ControllerExpandVolumeRequest,
) (*spec.ControllerExpandVolumeResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	v, err := store.findVolume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}

	v.CapacityBytes = max(v.CapacityBytes,
		req.GetCapacityRange().GetRequiredBytes())
	return &spec.ControllerExpandVolumeResponse{
		CapacityBytes:         v.CapacityBytes,
		NodeExpansionRequired: true,
	}, nil
}
