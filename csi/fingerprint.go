package csi

import (
	"context"
	"strconv"
	"strings"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/structs"
)

// A plugin describes itself in the answers to these calls. Real plugins announce the capability UNKNOWN,
// values of later specifications, and one value twice: the client ignores all of that.

// PluginInfo is a plugin's information on itself.
type PluginInfo struct {
	Name    string
	Version string
}

// PluginCapabilities are the services that a plugin process announces for its driver (CSI spec,
// GetPluginCapabilities). All processes of a driver announce the same: Controller does not mean that this
// very process serves the controller.
type PluginCapabilities struct {
	Controller    bool
	Groups        bool // GROUP_CONTROLLER_SERVICE
	Topology      bool // VOLUME_ACCESSIBILITY_CONSTRAINTS
	ExpandOnline  bool
	ExpandOffline bool
}

// learned holds the plugin's last announcements. A nil field was not queried yet.
type learned struct {
	plugin     *PluginCapabilities
	controller *structs.CSIControllerInfo
	groups     *bool // whether the group controller takes group snapshots
	node       *structs.CSINodeInfo
	storage    *structs.CSIStorageHealth
}

// updateLearned stores an answer. What it stores never changes afterwards: readers have it without the lock.
func (c *Client) updateLearned(set func(*learned)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set(&c.learned)
}

func (c *Client) getLearned() learned {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.learned
}

// Probe reports whether the plugin can work. Not ready without an error means that it is still starting: it
// must not be restarted for that (CSI spec, Probe). A plugin that omits the field is ready.
func (c *Client) Probe(ctx context.Context) (ready bool, err error) {
	resp, err := c.identity.Probe(ctx, &spec.ProbeRequest{})
	if err != nil {
		return false, err
	}
	v := resp.GetReady()
	return v == nil || v.GetValue(), nil
}

// PluginInfo returns the plugin's name and version.
func (c *Client) PluginInfo(ctx context.Context) (*PluginInfo, error) {
	resp, err := c.identity.GetPluginInfo(ctx, &spec.GetPluginInfoRequest{})
	if err != nil {
		return nil, err
	}

	name := resp.GetName()
	err = c.checkResponse("GetPluginInfo",
		requirement{"name", pluginNameFault(name)},
		requirement{"vendor_version", idFault(resp.GetVendorVersion(), structs.MaxCSIID)},
		requirement{"manifest", mapFault(resp.GetManifest(), structs.MaxCSIContext)})
	if err != nil {
		return nil, err
	}

	// The ID in the cluster has precedence: operators know a plugin by it.
	c.mu.Lock()
	if c.name == "" {
		c.name = name
	}

	c.mu.Unlock()
	return &PluginInfo{Name: name, Version: resp.GetVendorVersion()}, nil
}

// pluginNameFault describes the fault of the name that a plugin gives itself, "" for none (CSI spec,
// GetPluginInfoResponse.name).
func pluginNameFault(name string) string {
	if fault := idFault(name, structs.MaxCSIName); fault != "" {
		return fault
	}
	odd := func(r rune) bool {
		return r <= ' ' || r > '~'
	}
	if strings.ContainsFunc(name, odd) {
		return strconv.Quote(name) + " is not a domain name"
	}
	return ""
}

// PluginCapabilities returns the driver's services.
func (c *Client) PluginCapabilities(ctx context.Context) (*PluginCapabilities, error) {
	resp, err := c.identity.GetPluginCapabilities(ctx, &spec.GetPluginCapabilitiesRequest{})
	if err != nil {
		return nil, err
	}

	caps := &PluginCapabilities{}
	// Other values are ignored: see above.
	for _, p := range resp.GetCapabilities() {
		switch p.GetService().GetType() {
		case spec.PluginCapability_Service_CONTROLLER_SERVICE:
			caps.Controller = true
		case spec.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS:
			caps.Topology = true
		case spec.PluginCapability_Service_GROUP_CONTROLLER_SERVICE:
			caps.Groups = true
		}

		switch p.GetVolumeExpansion().GetType() {
		case spec.PluginCapability_VolumeExpansion_ONLINE:
			caps.ExpandOnline = true
		case spec.PluginCapability_VolumeExpansion_OFFLINE:
			caps.ExpandOffline = true
		}
	}

	c.updateLearned(func(k *learned) {
		k.plugin = caps
	})

	// Calls in flight read the learned value, so the caller gets a copy.
	return new(*caps), nil
}

// hasTopology reports whether topology may be sent. It calls the plugin once.
func (c *Client) hasTopology(ctx context.Context) (bool, error) {
	if k := c.getLearned(); k.plugin != nil {
		return k.plugin.Topology, nil
	}
	caps, err := c.PluginCapabilities(ctx)
	if err != nil {
		return false, err
	}
	return caps.Topology, nil
}

// ControllerCapabilities queries the controller's capabilities. The client keeps the answer: later calls
// leave out fields for capabilities that are missing.
func (c *Client) ControllerCapabilities(ctx context.Context) (*structs.CSIControllerInfo, error) {
	resp, err := c.controller.ControllerGetCapabilities(ctx, &spec.ControllerGetCapabilitiesRequest{})
	if err != nil {
		return nil, err
	}

	info := &structs.CSIControllerInfo{}
	for _, p := range resp.GetCapabilities() {
		addControllerRPC(info, p.GetRpc().GetType())
	}

	c.updateLearned(func(k *learned) {
		k.controller = info
	})

	return new(*info), nil
}

// addControllerRPC sets the field of a capability.
func addControllerRPC(i *structs.CSIControllerInfo, rpc spec.ControllerServiceCapability_RPC_Type) {
	switch rpc {
	case spec.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME:
		i.SupportsCreateDelete = true
	case spec.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME:
		i.SupportsAttachDetach = true
	case spec.ControllerServiceCapability_RPC_LIST_VOLUMES:
		i.SupportsListVolumes = true
	case spec.ControllerServiceCapability_RPC_GET_CAPACITY:
		i.SupportsGetCapacity = true
	case spec.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT:
		i.SupportsCreateDeleteSnapshot = true
	case spec.ControllerServiceCapability_RPC_LIST_SNAPSHOTS:
		i.SupportsListSnapshots = true
	case spec.ControllerServiceCapability_RPC_CLONE_VOLUME:
		i.SupportsClone = true
	case spec.ControllerServiceCapability_RPC_PUBLISH_READONLY:
		i.SupportsReadOnlyAttach = true
	case spec.ControllerServiceCapability_RPC_EXPAND_VOLUME:
		i.SupportsExpand = true
	case spec.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES:
		i.SupportsListVolumesAttachedNodes = true
	case spec.ControllerServiceCapability_RPC_GET_VOLUME:
		i.SupportsGet = true
	case spec.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER:
		i.SupportsSingleNodeMultiWriter = true
	case spec.ControllerServiceCapability_RPC_MODIFY_VOLUME:
		i.SupportsModify = true
	case spec.ControllerServiceCapability_RPC_GET_VOLUME_HEALTH:
		i.SupportsCondition = true
	case spec.ControllerServiceCapability_RPC_LIST_VOLUME_HEALTH:
		i.SupportsListHealth = true
	}
}

// controllerHas returns the controller's capabilities. It queries them if they are not known yet. A plugin
// that is known to lack CONTROLLER_SERVICE has none and is not called (CSI spec, PluginCapability).
func (c *Client) controllerHas(ctx context.Context) (*structs.CSIControllerInfo, error) {
	k := c.getLearned()
	if k.plugin != nil && !k.plugin.Controller {
		return &structs.CSIControllerInfo{}, nil
	}
	if k.controller != nil {
		return k.controller, nil
	}
	return c.ControllerCapabilities(ctx)
}

// queryNode queries the node half's capabilities. ID, MaxVolumes and AccessibleTopology stay empty. The
// client keeps the answer.
func (c *Client) queryNode(ctx context.Context) (learned, error) {
	resp, err := c.node.NodeGetCapabilities(ctx, &spec.NodeGetCapabilitiesRequest{})
	if err != nil {
		return learned{}, err
	}

	info := &structs.CSINodeInfo{}
	for _, p := range resp.GetCapabilities() {
		switch p.GetRpc().GetType() {
		case spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME:
			info.RequiresNodeStageVolume = true
		case spec.NodeServiceCapability_RPC_GET_VOLUME_STATS:
			info.SupportsStats = true
		case spec.NodeServiceCapability_RPC_EXPAND_VOLUME:
			info.SupportsExpand = true
		case spec.NodeServiceCapability_RPC_GET_VOLUME_HEALTH:
			info.SupportsCondition = true
		case spec.NodeServiceCapability_RPC_GET_STORAGE_HEALTH:
			info.SupportsStorageHealth = true
		case spec.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP:
			info.SupportsMountGroup = true
		case spec.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER:
			info.MultiWriter = true
		}
	}

	c.updateLearned(func(k *learned) {
		k.node = info
	})

	return learned{node: info}, nil
}

// nodeHas returns the node half's capabilities. It queries them if they are not known yet.
func (c *Client) nodeHas(ctx context.Context) (learned, error) {
	// The answer may come from an earlier process: NodeInfo, which each fingerprint calls, renews it.
	if k := c.getLearned(); k.node != nil {
		return k, nil
	}
	return c.queryNode(ctx)
}

// NodeInfo returns the node's name, limit and topology, its capabilities, and the last answer of
// NodeGetStorageHealth.
func (c *Client) NodeInfo(ctx context.Context) (*structs.CSINodeInfo, error) {
	// The capabilities are queried each time, because a newer process may answer behind the same socket.
	has, err := c.queryNode(ctx)
	if err != nil {
		return nil, err
	}

	resp, err := c.node.NodeGetInfo(ctx, &spec.NodeGetInfoRequest{})
	if err != nil {
		return nil, err
	}

	topology := resp.GetAccessibleTopology()
	err = c.checkResponse("NodeGetInfo",
		requirement{"node_id", idFault(resp.GetNodeId(), structs.MaxCSINodeID)},
		notNegative("max_volumes_per_node", resp.GetMaxVolumesPerNode()),
		requirement{"accessible_topology", segmentsFault(topology.GetSegments())})
	if err != nil {
		return nil, err
	}

	// This is a copy, because other calls read the learned value.
	info := *has.node
	info.ID = resp.GetNodeId()
	info.MaxVolumes = resp.GetMaxVolumesPerNode()
	info.AccessibleTopology = fromTopology(topology)
	if info.SupportsStorageHealth {
		info.StorageHealth = c.getLearned().storage
	}
	return &info, nil
}
