package taskconfig

import (
	"slices"
	"strings"

	"berth/structs"
)

// HasPort reports whether a port of the group is published.
func (t *Task) HasPort(label string) bool { return slices.Contains(t.Ports, label) }

// CheckPorts reports the first label that is not one of the group's ports.
func (t *Task) CheckPorts(group []string) error {
	for _, label := range t.Ports {
		if slices.Contains(group, label) {
			continue
		}
		shown := structs.Cut(label, structs.MaxQuoted)
		if len(group) == 0 {
			return structs.Invalidf("config.ports: %q: the group has no network with ports", shown)
		}
		return structs.Invalidf("config.ports: %q: expected a port of the group's network: %s",
			shown, structs.Cut(strings.Join(group, ", "), structs.MaxText))
	}

	return nil
}
