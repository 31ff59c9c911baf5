package fencing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/state"
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
	// Options are given to the agent, besides the action and the plug. Their values may refer to pins of the
	// node, as Plug does.
	Options map[string]string `hcl:"options,placeholders"`
	// SecretFiles has options whose values are the contents of files. No output shows their values.
	SecretFiles map[string]string `hcl:"secret_files"`
	// Match has pins of the nodes that the device fences, "pin.rack", node.unique.name or node.unique.id.
	// Without it the device fences every node that has the pins of Options and Plug.
	Match map[string]string `hcl:"match,placeholders"`
	// Plug is the node's name at the agent, "" for the pin "plug" or else DefaultPlug. It may refer to pins of
	// the node, "${pin.vmid}", and to the name to which its join token bound it.
	Plug string `hcl:"plug,placeholders"`
	// Scope is ScopePower, as is "", or ScopeStorage.
	Scope string `hcl:"scope"`
	// Plugins and Volumes are all that a proof of ScopeStorage is about: IDs of CSI plugins, and of volumes
	// as NAMESPACE/ID.
	Plugins []string      `hcl:"plugins"`
	Volumes []string      `hcl:"volumes"`
	Timeout time.Duration `hcl:"timeout"` // of one action; 0 for DefaultTimeout
}

// Matches returns why the device does not fence a node, "" if it does: another value in Match, or a pin or a
// name that the node lacks. An agent without them could act on another machine.
func (d *Device) Matches(t *state.FenceTarget) string {
	for _, name := range slices.Sorted(maps.Keys(d.Match)) {
		has, err := valueOf(t, name)
		switch {
		case err != nil:
			return fmt.Sprintf("match: %s", err)
		case has != d.Match[name]:
			return fmt.Sprintf("match: %s of node %s is not %q", name, structs.ShortID(t.NodeID), d.Match[name])
		}
	}

	for _, name := range slices.Sorted(maps.Keys(d.Options)) {
		_, err := expand(d.Options[name], t)
		if err != nil {
			return fmt.Sprintf("options: %s: %s", name, err)
		}
	}
	_, err := d.plug(t)
	if err != nil {
		return err.Error()
	}
	return ""
}

// Covers reports whether a proof by the device is about a volume. A proof of ScopePower is about all volumes.
func (d *Device) Covers(pluginID, namespace, volumeID string) bool {
	return d.Scope != ScopeStorage ||
		slices.Contains(d.Plugins, pluginID) ||
		slices.Contains(d.Volumes, structs.NamespaceOr(namespace)+"/"+volumeID)
}

// plugPin is the pin that is the plug of a device without one.
const plugPin = "plug"

// plug returns the name of a node at the agent.
func (d *Device) plug(t *state.FenceTarget) (string, error) {
	text := d.Plug
	if text == "" && (t.Name == "" || t.Pins[plugPin] != "") {
		text = "${" + pinPrefix + plugPin + "}"
	}
	plug, err := expand(cmp.Or(text, DefaultPlug), t)
	switch {
	case err != nil && d.Plug == "":
		return "", fmt.Errorf("plug: %w, with its name at the device; that of the node is its own word: %s", err,
			t.Unnamed)
	case err == nil && strings.TrimSpace(plug) == "":
		err = fmt.Errorf("it is empty")
	}
	if err != nil {
		return "", fmt.Errorf("plug: %w", err)
	}
	return plug, nil
}

func (d *Device) timeout() time.Duration { return cmp.Or(d.Timeout, DefaultTimeout) }
