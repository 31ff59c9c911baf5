package hostpath

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"berth/plugins/hostpath/disk"
)

// GetPluginInfo returns the driver's name and version.
func (d *identity) GetPluginInfo(
	context.Context, *csi.GetPluginInfoRequest,
) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{
		Name:          d.cfg.Name,
		VendorVersion: d.cfg.Version,
	}, nil
}

// GetPluginCapabilities returns the services: a volume is on one node, and grows while it is in use. A
// Snapshot is on one node, too. The capability for that is new in the specification, so the driver does not
// report it. It rejects a restore on another node.
func (d *identity) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	resp := &csi.GetPluginCapabilitiesResponse{}
	for _, s := range []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_CONTROLLER_SERVICE,
		csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE,
		csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
	} {
		resp.Capabilities = append(resp.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{
				Service: &csi.PluginCapability_Service{Type: s}}})
	}
	online := &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE}
	resp.Capabilities = append(resp.Capabilities, &csi.PluginCapability{
		Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: online},
	})
	return resp, nil
}

// Probe reports whether the driver has its data directory, and whether it can write there.
func (d *identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	ready := d.ready.Load()
	if ready {
		err := unix.Access(d.store.Dir, unix.W_OK)
		if err != nil {
			return nil, disk.Preconditionf("the data directory %s cannot be written: %w", d.cfg.DataDir, err)
		}
	}
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(ready)}, nil
}

// topology returns the topology of this node.
func (d *driver) topology() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{d.cfg.TopologyKey: d.cfg.NodeID}}
}

// isHere reports whether a topology has this node, by the driver's own key.
func (d *driver) isHere(t *csi.Topology) bool {
	node, named := t.GetSegments()[d.cfg.TopologyKey]
	return !named || node == d.cfg.NodeID
}

// checkReachable rejects a requirement that this node does not meet.
func (d *driver) checkReachable(r *csi.TopologyRequirement) error {
	lists := [][]*csi.Topology{
		r.GetRequisite(),
		r.GetPreferred(),
	}
	for _, list := range lists {
		if slices.ContainsFunc(list, d.isHere) {
			return nil
		}
		if len(list) > 0 {
			return disk.Faultf(codes.ResourceExhausted,
				"volumes here are reachable only from node %s, which is not among the requested topologies",
				d.cfg.NodeID)
		}
	}
	return nil
}
