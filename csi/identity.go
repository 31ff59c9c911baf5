package csi

import (
	"context"
	"fmt"
	"strings"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"berth/structs"
)

// maxNameLen is the longest name a plugin may give itself (CSI spec, GetPluginInfoResponse.name).
const maxNameLen = structs.MaxCSIName

// PluginInfo is a plugin's information on itself.
type PluginInfo struct {
	Name     string
	Version  string
	Manifest map[string]string // opaque
}

// PluginCapabilities are the services that a plugin process announces for its driver (CSI spec,
// GetPluginCapabilities). All processes of a driver announce the same: Controller does not mean that this
// very process serves the controller.
type PluginCapabilities struct {
	Controller       bool
	Topology         bool // VOLUME_ACCESSIBILITY_CONSTRAINTS
	GroupController  bool
	SnapshotMetadata bool
	SnapshotTopology bool
	ExpandOnline     bool
	ExpandOffline    bool
}

var pluginServices = map[spec.PluginCapability_Service_Type]func(*PluginCapabilities){
	spec.PluginCapability_Service_CONTROLLER_SERVICE: func(p *PluginCapabilities) {
		p.Controller = true
	},
	spec.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS: func(p *PluginCapabilities) {
		p.Topology = true
	},
	spec.PluginCapability_Service_GROUP_CONTROLLER_SERVICE: func(p *PluginCapabilities) {
		p.GroupController = true
	},
	spec.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE: func(p *PluginCapabilities) {
		p.SnapshotMetadata = true
	},
	spec.PluginCapability_Service_SNAPSHOT_ACCESSIBILITY_CONSTRAINTS: func(p *PluginCapabilities) {
		p.SnapshotTopology = true
	},
}

var pluginExpansion = map[spec.PluginCapability_VolumeExpansion_Type]func(*PluginCapabilities){
	spec.PluginCapability_VolumeExpansion_ONLINE: func(p *PluginCapabilities) {
		p.ExpandOnline = true
	},
	spec.PluginCapability_VolumeExpansion_OFFLINE: func(p *PluginCapabilities) {
		p.ExpandOffline = true
	},
}

// Probe reports whether the plugin can work. Not ready without an error means that it is still starting: it
// must not be restarted for that (CSI spec, Probe). A plugin that omits the field is ready.
func (c *Client) Probe(ctx context.Context) (ready bool, err error) {
	resp, err := call(ctx, c, "Probe", c.identity.Probe, &spec.ProbeRequest{})
	if err != nil {
		return false, err
	}
	return readyOf(resp.GetReady()), nil
}

func readyOf(v *wrapperspb.BoolValue) bool { return v == nil || v.GetValue() }

// PluginInfo returns the plugin's name and version.
func (c *Client) PluginInfo(ctx context.Context) (*PluginInfo, error) {
	const rpc = "GetPluginInfo"
	resp, err := call(ctx, c, rpc, c.identity.GetPluginInfo, &spec.GetPluginInfoRequest{})
	if err != nil {
		return nil, err
	}
	name := resp.GetName()
	if fault := pluginNameFault(name); fault != "" {
		return nil, c.badResponse(rpc, "name", fault)
	}
	err = c.checkResponse(rpc, requirement{"vendor_version", idFault(resp.GetVendorVersion(), maxID)},
		requirement{"manifest", contextFault(resp.GetManifest())})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	if c.name == "" {
		c.name = name
	}
	c.mu.Unlock()
	return &PluginInfo{Name: name, Version: resp.GetVendorVersion(), Manifest: resp.GetManifest()}, nil
}

func pluginNameFault(name string) string {
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxNameLen:
		return fmt.Sprintf("is %d bytes long, at most %d are allowed", len(name), maxNameLen)
	case strings.ContainsFunc(name, odd):
		return fmt.Sprintf("%q is not a domain name", name)
	}
	return ""
}

// PluginCapabilities returns the driver's services. Unknown ones are ignored.
func (c *Client) PluginCapabilities(ctx context.Context) (*PluginCapabilities, error) {
	const rpc = "GetPluginCapabilities"
	resp, err := call(ctx, c, rpc, c.identity.GetPluginCapabilities, &spec.GetPluginCapabilitiesRequest{})
	if err != nil {
		return nil, err
	}
	caps := &PluginCapabilities{}
	for _, p := range resp.GetCapabilities() {
		setCapability(caps, pluginServices, p.GetService().GetType())
		setCapability(caps, pluginExpansion, p.GetVolumeExpansion().GetType())
	}
	c.updateLearned(func(k *learned) { k.plugin = caps })
	answer := *caps
	return &answer, nil
}

// setCapability sets the field of a capability. Real plugins announce UNKNOWN, values of later
// specifications, and one value twice: all of that is harmless.
func setCapability[T comparable, C any](caps *C, table map[T]func(*C), value T) {
	if set, ok := table[value]; ok {
		set(caps)
	}
}

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
