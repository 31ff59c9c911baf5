package access

import (
	"slices"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/storage"
)

// findToken returns the identity of an allocation for the driver of a volume, nil if the driver may not have
// it: the allocation has no granted claim on a volume of the plugin, or no job of the plugin on the node asks
// for the audience.
func findToken(
	tx *state.ReadTx, a *structs.Allocation, g *structs.TaskGroup, w access.WantedIdentity,
) *structs.WorkloadIdentity {
	if !usesPlugin(tx, a, g, w.Workload) {
		return nil
	}

	for driver := range state.AllocsByNode(tx, a.NodeID) {
		if driver.ClientTerminal() || !slices.Contains(driver.CSIPlugins, w.Workload) {
			continue
		}

		token := askedToken(state.JobOf(tx, driver), driver.TaskGroup, w)
		if token != nil {
			return &structs.WorkloadIdentity{
				Name:     w.Name,
				Audience: []string{token.Audience},
				TTL:      token.TTL,
			}
		}
	}
	return nil
}

// usesPlugin reports whether an allocation has a granted claim on a volume of a plugin, or an inline volume.
func usesPlugin(tx *state.ReadTx, a *structs.Allocation, g *structs.TaskGroup, plugin string) bool {
	for _, r := range storage.GroupWithHostVolumes(g, a.CSIVolumes).Volumes {
		if r.IsInline() && r.PluginID == plugin {
			return true
		}
		if !r.NeedsClaim() {
			continue
		}

		id := r.VolumeID(a.Index(), a.ID)
		volume := csi.Volume(tx, a.Namespace, id)
		claim := csi.Claim(tx, a.Namespace, id, a.ID)
		if volume != nil && volume.PluginID == plugin && claim != nil && claim.State == structs.ClaimGranted {
			return true
		}
	}
	return false
}

// askedToken returns the token that the job of a plugin asks for, nil if it asks for none. A token for the
// API of the cluster is none of them.
func askedToken(j *structs.Job, group string, w access.WantedIdentity) *structs.CSIToken {
	if j == nil || j.Group(group) == nil || w.Name == structs.DefaultAudience {
		return nil
	}

	for _, t := range j.Group(group).Tasks {
		c := t.CSIPluginConfig
		if c == nil || c.ID != w.Workload {
			continue
		}

		at := slices.IndexFunc(c.Tokens, func(t *structs.CSIToken) bool { return t != nil && t.Audience == w.Name })
		if at >= 0 {
			return c.Tokens[at]
		}
	}
	return nil
}
