package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/state"
	"berth/structs"
)

// volumeUse is one volume that one allocation wants, looked up.
type volumeUse struct {
	claim  *structs.CSIClaim
	volume *structs.CSIVolume // nil: there is none
}

func (u volumeUse) keys() []string {
	keys := []string{structs.WakeVolume(u.claim.Namespace, u.claim.VolumeID)}
	if u.volume != nil {
		keys = append(keys, structs.WakePlugin(u.volume.PluginID))
	}
	return keys
}

// usesOf looks up the volumes that an allocation of the group with the index wants, by alias.
func (p *planner) usesOf(g *structs.TaskGroup, index int) []volumeUse {
	var out []volumeUse
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		r := g.Volumes[alias]
		if r.Type != structs.VolumeTypeCSI {
			continue
		}
		c := r.Claim(p.ns, index)
		c.JobID, c.TaskGroup = p.eval.JobID, g.Name
		out = append(out, volumeUse{c, state.Volume(p.tx, c.Namespace, c.VolumeID)})
	}
	return out
}

// volumesClaimable refuses every node alike while a volume is missing, not ready, or held by a claim that
// excludes ours.
func volumesClaimable(p *planner, w *want, _ *view) *refusal {
	if !w.looked {
		w.uses, w.looked = p.usesOf(w.plan.group, w.index), true
		w.barred = p.bars(w.uses)
	}
	return w.barred
}

func (p *planner) bars(uses []volumeUse) *refusal {
	for _, u := range uses {
		if why := p.unclaimable(u); why != "" {
			return &refusal{reason: "CSI volume " + u.claim.VolumeID + ": " + why, keys: u.keys()}
		}
	}
	return nil
}

func (p *planner) unclaimable(u volumeUse) string {
	if ok, why := state.Claimable(p.tx, u.claim, p.letsGo); !ok {
		return why
	}
	if p.lacksController(u.volume.PluginID) {
		return fmt.Sprintf("no controller of plugin %s is healthy", u.volume.PluginID)
	}
	for _, i := range p.intents()[volumeKey(u.claim)] {
		if !p.stopped[i.AllocID] && i.Conflicts(u.claim) {
			return fmt.Sprintf("allocation %s (job %s) is placed to use it as %s, %s", structs.ShortID(i.AllocID), i.JobID, i.AccessMode, i.Mode)
		}
	}
	return ""
}

// letsGo reports whether the claims of an allocation will be released by themselves: it has ended or is
// to end, and its node is there to say that it has let go.
func (p *planner) letsGo(allocID string) bool {
	a := state.Alloc(p.tx, allocID)
	if a == nil || p.lost(a.NodeID) {
		return false
	}
	return p.stopped[allocID] || a.Terminal()
}

// lacksController reports whether the plugin needs a controller and none is healthy.
func (p *planner) lacksController(plugin string) bool {
	row := state.Plugin(p.tx, plugin)
	return row != nil && row.ControllerRequired && !state.HealthyInstance(p.tx, plugin, structs.CSIKindController)
}

// intents are the claims of live allocations that have not made them yet, by volume: those placed before
// whose nodes have not got to it, and those that this plan places.
func (p *planner) intents() map[string][]*structs.CSIClaim {
	if p.intended != nil {
		return p.intended
	}
	p.intended = map[string][]*structs.CSIClaim{}
	versions := map[structs.JobKey]map[uint64]*structs.Job{}
	for a := range state.Allocs(p.tx, p.ns) {
		if a.Terminal() {
			continue
		}
		key := structs.JobKey{Namespace: a.Namespace, ID: a.JobID}
		if versions[key] == nil {
			versions[key] = map[uint64]*structs.Job{}
		}
		job, known := versions[key][a.JobVersion]
		if !known {
			job = state.JobVersion(p.tx, a.Namespace, a.JobID, a.JobVersion)
			versions[key][a.JobVersion] = job
		}
		if job != nil {
			p.intend(a, job.Group(a.TaskGroup))
		}
	}
	return p.intended
}

// intend notes what an allocation is going to claim and has not.
func (p *planner) intend(a *structs.Allocation, g *structs.TaskGroup) {
	if g == nil || p.intended == nil {
		return
	}
	for _, r := range g.Volumes {
		c := r.Claim(a.Namespace, a.Index())
		if r.Type != structs.VolumeTypeCSI || state.Claim(p.tx, c.Namespace, c.VolumeID, a.ID) != nil {
			continue
		}
		c.AllocID, c.NodeID, c.JobID, c.TaskGroup = a.ID, a.NodeID, a.JobID, a.TaskGroup
		if v := state.Volume(p.tx, c.Namespace, c.VolumeID); v != nil {
			c.PluginID = v.PluginID
		}
		key := volumeKey(c)
		p.intended[key] = append(p.intended[key], c)
		p.intendedOn[a.NodeID] = append(p.intendedOn[a.NodeID], c)
	}
}

func volumeKey(c *structs.CSIClaim) string { return c.Namespace + "\x00" + c.VolumeID }

// storage is one plugin on one node as the state has it; a plan does not change it.
type storage struct {
	half    *structs.CSIPluginInstance
	unfit   string                       // why the node's half cannot be used
	volumes map[string]*structs.CSIClaim // that take a place: claimed, waited for, attached or still being detached
}

// storageOn looks at a plugin on a node, once.
func (p *planner) storageOn(v *view, plugin string) *storage {
	if s := v.storage[plugin]; s != nil {
		return s
	}
	s := &storage{half: state.Instance(p.tx, plugin, structs.CSIKindNode, v.node.ID), volumes: map[string]*structs.CSIClaim{}}
	switch {
	case s.half == nil:
		s.unfit = fmt.Sprintf("CSI plugin %s has no node instance here", plugin)
	case !s.half.Healthy:
		s.unfit = fmt.Sprintf("CSI plugin %s has no healthy node instance here (unhealthy%s)", plugin, colon(s.half.HealthDescription))
	}
	for c := range state.ClaimsByNode(p.tx, v.node.ID) {
		if c.PluginID == plugin {
			s.volumes[volumeKey(c)] = c
		}
	}
	for a := range state.AttachmentsByNode(p.tx, v.node.ID) {
		if c := (&structs.CSIClaim{Namespace: a.Namespace, VolumeID: a.VolumeID}); a.PluginID == plugin && s.volumes[volumeKey(c)] == nil {
			s.volumes[volumeKey(c)] = c
		}
	}
	v.storage[plugin] = s
	return s
}

// limit is how many volumes the plugin allows the node, 0 for any number.
func (s *storage) limit() int64 {
	if s.half == nil || s.half.NodeInfo == nil {
		return 0
	}
	return s.half.NodeInfo.MaxVolumes
}

func colon(description string) string {
	if description == "" {
		return ""
	}
	return ": " + description
}

func pluginsHealthy(p *planner, w *want, v *view) *refusal {
	for _, u := range w.uses {
		if s := p.storageOn(v, u.volume.PluginID); s.unfit != "" {
			return &refusal{reason: s.unfit, keys: u.keys()}
		}
	}
	return nil
}

func volumesReachable(p *planner, w *want, v *view) *refusal {
	for _, u := range w.uses {
		if !u.volume.ReachableFrom(topologyOf(p.storageOn(v, u.volume.PluginID).half)) {
			return &refusal{reason: fmt.Sprintf("CSI volume %s: it is reachable only from %s", u.volume.ID, places(u.volume)), keys: u.keys()}
		}
	}
	return nil
}

func topologyOf(i *structs.CSIPluginInstance) *structs.CSITopology {
	if i == nil || i.NodeInfo == nil {
		return nil
	}
	return i.NodeInfo.AccessibleTopology
}

// places writes the topologies of a volume.
func places(v *structs.CSIVolume) string {
	var out []string
	for _, t := range v.Topologies {
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(t.Segments)) {
			parts = append(parts, k+"="+t.Segments[k])
		}
		out = append(out, strings.Join(parts, ","))
	}
	return strings.Join(out, " or ")
}

// volumesWithinLimit counts, for each plugin, the different volumes that take a place on the node, those of
// allocations that are placed there and have not claimed yet, and those of this allocation.
func volumesWithinLimit(p *planner, w *want, v *view) *refusal {
	for _, u := range w.uses {
		plugin := u.volume.PluginID
		s := p.storageOn(v, plugin)
		limit := s.limit()
		if limit <= 0 || int64(len(s.volumes)+len(p.intendedOn[v.node.ID])+len(w.uses)) <= limit {
			continue
		}
		there := p.volumesOn(v, s, plugin)
		before := len(there)
		for _, other := range w.uses {
			if other.volume.PluginID == plugin {
				there[volumeKey(other.claim)] = other.claim
			}
		}
		if len(there) > before && int64(len(there)) > limit {
			return &refusal{reason: fmt.Sprintf("CSI plugin %s has its limit of %d volumes on this node", plugin, limit),
				keys: append(wakesOf(there), structs.WakePlugin(plugin))}
		}
	}
	return nil
}

// volumesOn are the volumes of a plugin that take, or are about to take, a place on a node.
func (p *planner) volumesOn(v *view, s *storage, plugin string) map[string]*structs.CSIClaim {
	there := maps.Clone(s.volumes)
	for _, c := range p.intendedOn[v.node.ID] {
		if c.PluginID == plugin && !p.stopped[c.AllocID] {
			there[volumeKey(c)] = c
		}
	}
	return there
}

// wakesOf are the keys of what would make room on a node.
func wakesOf(there map[string]*structs.CSIClaim) []string {
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(there)) {
		if len(keys) < structs.ManyVolumes {
			keys = append(keys, structs.WakeVolume(there[k].Namespace, there[k].VolumeID))
		}
	}
	return keys
}
