package csi

import (
	"context"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/structs"
)

type controllerSet = map[spec.ControllerServiceCapability_RPC_Type]func(*structs.CSIControllerInfo)

var controllerRPCs = controllerSet{
	spec.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME: func(i *structs.CSIControllerInfo) {
		i.SupportsCreateDelete = true
	},
	spec.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME: func(i *structs.CSIControllerInfo) {
		i.SupportsAttachDetach = true
	},
	spec.ControllerServiceCapability_RPC_LIST_VOLUMES: func(i *structs.CSIControllerInfo) {
		i.SupportsListVolumes = true
	},
	spec.ControllerServiceCapability_RPC_GET_CAPACITY: func(i *structs.CSIControllerInfo) {
		i.SupportsGetCapacity = true
	},
	spec.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT: func(i *structs.CSIControllerInfo) {
		i.SupportsCreateDeleteSnapshot = true
	},
	spec.ControllerServiceCapability_RPC_LIST_SNAPSHOTS: func(i *structs.CSIControllerInfo) {
		i.SupportsListSnapshots = true
	},
	spec.ControllerServiceCapability_RPC_CLONE_VOLUME: func(i *structs.CSIControllerInfo) {
		i.SupportsClone = true
	},
	spec.ControllerServiceCapability_RPC_PUBLISH_READONLY: func(i *structs.CSIControllerInfo) {
		i.SupportsReadOnlyAttach = true
	},
	spec.ControllerServiceCapability_RPC_EXPAND_VOLUME: func(i *structs.CSIControllerInfo) {
		i.SupportsExpand = true
	},
	spec.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES: func(i *structs.CSIControllerInfo) {
		i.SupportsListVolumesAttachedNodes = true
	},
	spec.ControllerServiceCapability_RPC_GET_VOLUME: func(i *structs.CSIControllerInfo) {
		i.SupportsGet = true
	},
	spec.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER: func(i *structs.CSIControllerInfo) {
		i.SupportsSingleNodeMultiWriter = true
	},
	spec.ControllerServiceCapability_RPC_MODIFY_VOLUME: func(i *structs.CSIControllerInfo) {
		i.SupportsModify = true
	},
	spec.ControllerServiceCapability_RPC_GET_VOLUME_HEALTH: func(i *structs.CSIControllerInfo) {
		i.SupportsCondition = true
	},
}

// nodeCaps is the node's answer with the one capability that the wire type does not show.
type nodeCaps struct {
	structs.CSINodeInfo
	single bool
}

var nodeRPCs = map[spec.NodeServiceCapability_RPC_Type]func(*nodeCaps){
	spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME: func(n *nodeCaps) {
		n.RequiresNodeStageVolume = true
	},
	spec.NodeServiceCapability_RPC_GET_VOLUME_STATS: func(n *nodeCaps) {
		n.SupportsStats = true
	},
	spec.NodeServiceCapability_RPC_EXPAND_VOLUME: func(n *nodeCaps) {
		n.SupportsExpand = true
	},
	spec.NodeServiceCapability_RPC_GET_VOLUME_HEALTH: func(n *nodeCaps) {
		n.SupportsCondition = true
	},
	spec.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP: func(n *nodeCaps) {
		n.SupportsMountGroup = true
	},
	spec.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER: func(n *nodeCaps) {
		n.single = true
	},
}

// ControllerCapabilities queries the controller's capabilities. The client remembers the answer: later calls
// leave out fields for capabilities that are missing.
func (c *Client) ControllerCapabilities(ctx context.Context) (*structs.CSIControllerInfo, error) {
	resp, err := call(ctx, c, "ControllerGetCapabilities", c.controller.ControllerGetCapabilities,
		&spec.ControllerGetCapabilitiesRequest{})
	if err != nil {
		return nil, err
	}
	info := &structs.CSIControllerInfo{}
	for _, p := range resp.GetCapabilities() {
		setCapability(info, controllerRPCs, p.GetRpc().GetType())
	}
	c.updateLearned(func(k *learned) { k.controller = info })
	answer := *info
	return &answer, nil
}

// NodeCapabilities queries the node half's capabilities; ID, MaxVolumes and AccessibleTopology stay empty
// (NodeInfo queries those, too). The client remembers the answer.
func (c *Client) NodeCapabilities(ctx context.Context) (*structs.CSINodeInfo, error) {
	resp, err := call(ctx, c, "NodeGetCapabilities", c.node.NodeGetCapabilities,
		&spec.NodeGetCapabilitiesRequest{})
	if err != nil {
		return nil, err
	}
	caps := &nodeCaps{}
	for _, p := range resp.GetCapabilities() {
		setCapability(caps, nodeRPCs, p.GetRpc().GetType())
	}
	info := caps.CSINodeInfo
	c.updateLearned(func(k *learned) { k.node, k.nodeSingle = &info, caps.single })
	answer := info
	return &answer, nil
}

// NodeInfo returns the node's name, limit and place, and its capabilities.
func (c *Client) NodeInfo(ctx context.Context) (*structs.CSINodeInfo, error) {
	const rpc = "NodeGetInfo"
	info, err := c.NodeCapabilities(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := call(ctx, c, rpc, c.node.NodeGetInfo, &spec.NodeGetInfoRequest{})
	if err != nil {
		return nil, err
	}
	segments := resp.GetAccessibleTopology().GetSegments()
	err = c.checkResponse(rpc,
		requirement{"node_id", idFault(resp.GetNodeId(), maxNodeID)},
		notNegative("max_volumes_per_node", resp.GetMaxVolumesPerNode()),
		requirement{"accessible_topology", segmentsFault(segments)})
	if err != nil {
		return nil, err
	}
	info.ID, info.MaxVolumes = resp.GetNodeId(), resp.GetMaxVolumesPerNode()
	info.AccessibleTopology = fromTopology(resp.GetAccessibleTopology())
	return info, nil
}

// controllerHas returns the controller's capabilities. It queries them if they are not known yet.
func (c *Client) controllerHas(ctx context.Context) (*structs.CSIControllerInfo, error) {
	if k := c.getLearned(); k.controller != nil {
		return k.controller, nil
	}
	return c.ControllerCapabilities(ctx)
}

// nodeHas returns the node half's capabilities. It queries them if they are not known yet.
func (c *Client) nodeHas(ctx context.Context) (learned, error) {
	if k := c.getLearned(); k.node != nil {
		return k, nil
	}
	if _, err := c.NodeCapabilities(ctx); err != nil {
		return learned{}, err
	}
	return c.getLearned(), nil
}
