package csitest

import (
	"context"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
)

// The health that the plugin tells of. All are empty at first.
type conditions struct {
	volumes map[string][]*spec.VolumeHealth_VolumeHealthEntry // by the ID of the volume
	backend []*spec.NodeGetStorageHealthResponse_StorageBackendHealth
}

// SetHealth sets the adverse conditions of a volume, which both halves of the plugin report. None: it is
// healthy.
func (p *Plugin) SetHealth(id string, statuses ...*spec.VolumeHealth_VolumeHealthEntry) {
	p.storage.mu.Lock()
	defer p.storage.mu.Unlock()
	p.storage.conditions.volumes[id] = statuses
}

// SetStorageHealth sets the adverse conditions of the storage, which the node half reports.
func (p *Plugin) SetStorageHealth(all ...*spec.NodeGetStorageHealthResponse_StorageBackendHealth) {
	p.storage.mu.Lock()
	defer p.storage.mu.Unlock()
	p.storage.conditions.backend = all
}

// health returns the conditions of a volume.
func (store *storage) health(id string) *spec.VolumeHealth {
	return &spec.VolumeHealth{VolumeId: id, HealthStatuses: store.conditions.volumes[id]}
}

// ControllerListVolumeHealth lists the volumes that are not healthy.
func (s controller) ControllerListVolumeHealth(
	_ context.Context, req *spec.ControllerListVolumeHealthRequest,
) (*spec.ControllerListVolumeHealthResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	var ill []string
	for _, id := range keys(store.volumes) {
		if len(store.conditions.volumes[id]) > 0 {
			ill = append(ill, id)
		}
	}
	ids, next, err := pageOf(ill, req.GetStartingToken(), req.GetMaxEntries())
	if err != nil {
		return nil, err
	}

	resp := &spec.ControllerListVolumeHealthResponse{NextToken: next}
	for _, id := range ids {
		resp.Entries = append(resp.Entries, store.health(id))
	}
	return resp, nil
}

// ControllerGetVolumeHealth answers NOT_FOUND for a volume that does not exist.
func (s controller) ControllerGetVolumeHealth(
	_ context.Context, req *spec.ControllerGetVolumeHealthRequest,
) (*spec.ControllerGetVolumeHealthResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	_, err := store.findVolume(req.GetVolumeId())
	return &spec.ControllerGetVolumeHealthResponse{VolumeHealth: store.health(req.GetVolumeId())}, err
}

// NodeGetVolumeHealth needs no staged or published volume: an attempt is enough.
func (s node) NodeGetVolumeHealth(
	_ context.Context, req *spec.NodeGetVolumeHealthRequest,
) (*spec.NodeGetVolumeHealthResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	_, err := store.onNode(req.GetVolumeId())
	return &spec.NodeGetVolumeHealthResponse{VolumeHealth: store.health(req.GetVolumeId())}, err
}

// NodeGetStorageHealth answers what SetStorageHealth has set.
func (s node) NodeGetStorageHealth(
	context.Context, *spec.NodeGetStorageHealthRequest,
) (*spec.NodeGetStorageHealthResponse, error) {
	store, unlock := s.p.lock()
	defer unlock()
	return &spec.NodeGetStorageHealthResponse{BackendHealth: store.conditions.backend}, nil
}
