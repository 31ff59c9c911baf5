package registry

import (
	"context"

	"berth/csi"
	"berth/structs"
)

// Fingerprint fills in the report of a half of a plugin. A call that fails leaves the earlier values.
func Fingerprint(ctx context.Context, c *csi.Client, kind structs.CSIKind, r *structs.CSIInfo) error {
	info, err := c.PluginInfo(ctx)
	if err != nil {
		return err
	}

	caps, err := c.PluginCapabilities(ctx)
	if err != nil {
		return err
	}

	r.Provider = info.Name
	r.ProviderVersion = info.Version
	r.RequiresControllerPlugin = caps.Controller
	r.RequiresTopologies = caps.Topology
	// A plugin with both expands a volume in use, too.
	r.ExpandsOffline = caps.ExpandOffline && !caps.ExpandOnline
	if kind == structs.CSIKindController {
		// The specification allows no call of the controller then (GetPluginCapabilities).
		if !caps.Controller {
			return structs.Preconditionf("the plugin does not announce CONTROLLER_SERVICE: " +
				"it has no controller, so its job needs the type \"node\"")
		}
		controller, err := c.ControllerCapabilities(ctx)
		if err != nil {
			return err
		}
		controller.GroupSnapshots, err = csi.Groups{Client: c}.Offered(ctx)
		if err == nil {
			r.ControllerInfo = controller
		}
		return err
	}

	node, err := c.NodeInfo(ctx)
	if err == nil {
		r.NodeInfo = node
	}

	return err
}
