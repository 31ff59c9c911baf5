package fencing

import (
	"cmp"
	"slices"
	"time"

	"berth/scheduler/match"
	"berth/structs"
)

// The scopes of a proof.
const (
	ScopePower   = "power"   // the machine is off: it writes to nothing
	ScopeStorage = "storage" // the machine is cut off from the volumes that the device names
)

// The defaults of a device.
const (
	DefaultTimeout = time.Minute
	DefaultPlug    = "${node.unique.name}"
)

// Device is one way to fence nodes. A server's configuration has it as a block `fencing "NAME"`.
type Device struct {
	Name  string `hcl:",label"`
	Agent string `hcl:"agent,required"` // the program: a name that is looked up, or an absolute path
	// Options are given to the agent, besides the action and the plug. Their values may refer to the node, as
	// Plug does.
	Options map[string]string `hcl:"options,placeholders"`
	// SecretFiles has options whose values are the contents of files. No output shows their values.
	SecretFiles map[string]string `hcl:"secret_files"`
	// Match has the attributes and meta of the nodes that the device fences, by their names in constraints:
	// "meta.rack". Without it the device fences every node.
	Match map[string]string `hcl:"match,placeholders"`
	// Plug is the node's name at the agent, "" for DefaultPlug. It may refer to the node as constraints do:
	// "${meta.plug}".
	Plug string `hcl:"plug,placeholders"`
	// Scope is ScopePower, as is "", or ScopeStorage.
	Scope string `hcl:"scope"`
	// Plugins and Volumes are all that a proof of ScopeStorage is about: IDs of CSI plugins, and of volumes
	// as NAMESPACE/ID.
	Plugins []string      `hcl:"plugins"`
	Volumes []string      `hcl:"volumes"`
	Timeout time.Duration `hcl:"timeout"` // of one action; 0 for DefaultTimeout
}

// Matches reports whether the device fences a node.
func (d *Device) Matches(n *structs.Node) bool {
	for name, want := range d.Match {
		has := match.TargetOf("${" + name + "}")(n)
		if !has.Set || has.Text != want {
			return false
		}
	}
	return true
}

// Covers reports whether a proof by the device is about a volume. A proof of ScopePower is about all volumes.
func (d *Device) Covers(pluginID, namespace, volumeID string) bool {
	return d.Scope != ScopeStorage ||
		slices.Contains(d.Plugins, pluginID) ||
		slices.Contains(d.Volumes, structs.NamespaceOr(namespace)+"/"+volumeID)
}

func (d *Device) plug() string { return cmp.Or(d.Plug, DefaultPlug) }

func (d *Device) timeout() time.Duration { return cmp.Or(d.Timeout, DefaultTimeout) }
