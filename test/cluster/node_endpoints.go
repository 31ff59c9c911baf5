package cluster

import (
	"context"

	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
)

// plugin returns a plugin whose controller runs here.
func (n *Node) plugin(id string) (Plugin, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.plugins[id]
	if !ok || !p.Controller {
		return p, structs.Unavailablef("no controller of plugin %s on node %s", id, n.Name)
	}
	return p, nil
}

// endpoints returns the methods that servers call at the node.
func (n *Node) endpoints() []rpc.Endpoint {
	return []rpc.Endpoint{
		rpc.Handle(nodecalls.ClientCSIControllerCreate, n.createVolume),
		rpc.Handle(nodecalls.ClientCSIControllerValidate, n.validateVolume),
		rpc.Handle(nodecalls.ClientCSIControllerDelete, n.deleteVolume),
		rpc.Handle(nodecalls.ClientCSIControllerAttach, n.attachVolume),
		rpc.Handle(nodecalls.ClientCSIControllerDetach, n.detachVolume),
		rpc.Handle(nodecalls.ClientCSIControllerList, n.listVolumes),
		rpc.Handle(nodecalls.ClientCSINodeDetach, n.releaseVolume),
		rpc.Handle(nodecalls.ClientCSINodeVolume, n.nodeVolume),
	}
}

func (n *Node) createVolume(
	_ context.Context, r *nodecalls.ClientCSICreateRequest,
) (*nodecalls.ClientCSICreateResponse, error) {
	p, err := n.plugin(r.PluginID)
	if err != nil {
		return nil, err
	}
	id, err := n.Storage.create(n.Name, r.Name, p.Local)
	if err != nil {
		return nil, err
	}
	resp := &nodecalls.ClientCSICreateResponse{
		ExternalID: id,
		Capacity:   max(1, r.Capacity.RequiredBytes),
	}
	if p.Zone != "" {
		resp.Topologies = []*structs.CSITopology{{Segments: map[string]string{"zone": p.Zone}}}
	}
	return resp, nil
}

func (n *Node) validateVolume(
	_ context.Context, r *nodecalls.ClientCSIValidateRequest,
) (*structs.Empty, error) {
	if _, err := n.plugin(r.PluginID); err != nil {
		return nil, err
	}
	if !n.Storage.Exists(r.ExternalID) {
		return nil, structs.NotFoundf("no volume %s", r.ExternalID)
	}
	return &structs.Empty{}, nil
}

func (n *Node) deleteVolume(
	_ context.Context, r *nodecalls.ClientCSIDeleteRequest,
) (*structs.Empty, error) {
	if _, err := n.plugin(r.PluginID); err != nil {
		return nil, err
	}
	return &structs.Empty{}, n.Storage.remove(n.Name, r.ExternalID)
}

func (n *Node) attachVolume(
	_ context.Context, r *nodecalls.ClientCSIAttachRequest,
) (*nodecalls.ClientCSIAttachResponse, error) {
	if _, err := n.plugin(r.PluginID); err != nil {
		return nil, err
	}
	resp := &nodecalls.ClientCSIAttachResponse{PublishContext: structs.Secrets{"dev": r.ExternalID}}
	return resp, n.Storage.attach(n.Name, r.ExternalID, r.ExternalNodeID, r.AccessMode)
}

func (n *Node) detachVolume(
	_ context.Context, r *nodecalls.ClientCSIDetachRequest,
) (*structs.Empty, error) {
	if _, err := n.plugin(r.PluginID); err != nil {
		return nil, err
	}
	return &structs.Empty{}, n.Storage.detach(n.Name, r.ExternalID, r.ExternalNodeID)
}

func (n *Node) listVolumes(
	_ context.Context, r *nodecalls.ClientCSIListRequest,
) (*nodecalls.ClientCSIListResponse, error) {
	p, err := n.plugin(r.PluginID)
	return &nodecalls.ClientCSIListResponse{Volumes: n.Storage.list(p.Lists)}, err
}

func (n *Node) nodeVolume(
	_ context.Context, r *nodecalls.ClientCSINodeVolumeRequest,
) (*nodecalls.ClientCSINodeVolumeResponse, error) {
	return &nodecalls.ClientCSINodeVolumeResponse{Mounts: n.Storage.mountsAt(n.Name, r.VolumeID)}, nil
}

// releaseVolume unmounts a volume for an ended allocation.
func (n *Node) releaseVolume(
	_ context.Context, r *nodecalls.ClientCSINodeDetachRequest,
) (*structs.Empty, error) {
	n.mu.Lock()
	_, runs := n.allocs[r.AllocID]
	n.mu.Unlock()
	if runs {
		return nil, structs.Conflictf("allocation %s still runs on %s", r.AllocID, n.Name)
	}
	n.Storage.releaseAlloc(n.Name, r.AllocID, r.VolumeID)
	return &structs.Empty{}, nil
}
