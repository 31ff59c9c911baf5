package feasible

import (
	"fmt"
	"maps"
	"slices"

	"berth/scheduler/hostplace"
	"berth/scheduler/rejects"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// VolumeUse is one volume of one allocation, looked up.
type VolumeUse struct {
	claim   *structs.CSIClaim
	Volume  *structs.CSIVolume     // nil: there is none
	makes   bool                   // it does not exist, and is created for the allocation: see package storage
	request *structs.VolumeRequest // for it, if the job asks for it
	fault   string                 // why the job cannot have the volume that it asks for
	keys    []string               // unblock keys of changes that could make it available
	where   string                 // the topologies that reach it, for users; "" until needed
	bound   *structs.CSIClaim      // the use that binds it to its node, or nil: see ClaimClass.Bound
}

// BoundNode returns the ID of the one node on which the volume can be used, "" if another may do, too.
func (u *VolumeUse) BoundNode() string {
	if u.bound == nil {
		return ""
	}
	return u.bound.NodeID
}

// usesOf looks up the volumes of the allocation of the group with the index, by alias.
func (p *Outlook) usesOf(g *structs.TaskGroup, index int) []VolumeUse {
	if len(g.Volumes) == 0 {
		return nil
	}

	var out []VolumeUse

	// The order decides which volume a rejection names. It must not change between plans of one state.
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		r := g.Volumes[alias]
		if !r.NeedsClaim() {
			continue
		}

		c := r.Claim(p.Namespace, index, "")
		c.JobID = p.Eval.JobID
		c.TaskGroup = g.Name
		u := VolumeUse{
			claim:  c,
			Volume: csi.Volume(p, c.Namespace, c.VolumeID),
			keys:   []string{structs.WakeVolume(c.Namespace, c.VolumeID)},
		}

		if storage.IsClassRequest(r) {
			findAsked(p, &u, r, index)
		}
		if u.Volume != nil {
			u.keys = append(u.keys, structs.WakePlugin(u.Volume.PluginID))
		}

		out = append(out, u)
	}

	return out
}

// BlockedEverywhere returns the reason for which every node rejects alike: the quota is used up, or a volume
// is missing, not ready, or held by a claim that excludes this one.
func (p *Outlook) BlockedEverywhere(d *Demand) *rejects.Rejection {
	// A placement that finds no node is checked again for stops and victims, with the same volumes.
	if !d.looked {
		d.Uses = p.usesOf(d.Group.TaskGroup, d.Index)
		d.Hosts = p.Hosts.LookUp(p, hostplace.Of{
			Namespace: p.Namespace,
			JobID:     p.Eval.JobID,
			Group:     d.Group.TaskGroup,
			Index:     d.Index,
			Prev:      d.Prev,
			Stopped:   p.stopped,
		})
		d.looked = true
	}
	if r := QuotaRejection(p, d); r != nil {
		return r
	}
	for i := range d.Uses {
		u := &d.Uses[i]
		u.bound = binds(p, u)
		if why := p.unclaimableReason(*u); why != "" {
			return &rejects.Rejection{
				Filter: rejects.FilterVolume,
				Reason: "CSI volume " + u.claim.VolumeID + ": " + why,
				Keys:   u.keys,
			}
		}
	}
	if why, keys := d.Hosts.Nowhere(); why != "" {
		return &rejects.Rejection{Filter: rejects.FilterHostVolume, Reason: why, Keys: keys}
	}
	return nil
}

// unclaimableReason returns the reason for which no allocation can claim the volume now, "" if one can.
func (p *Outlook) unclaimableReason(u VolumeUse) string {
	if u.fault != "" {
		return u.fault
	}
	if u.makes {
		return unmakableReason(p, u)
	}
	ok, why := csi.Claimable(p, u.claim, p.willRelease)
	if !ok {
		return why
	}

	// Without a controller no node can be attached, so no node is worth a trial.
	if csi.LacksController(p, u.Volume.PluginID) {
		return fmt.Sprintf("no controller of plugin %s is healthy", u.Volume.PluginID)
	}

	// An allocation that is placed and has not claimed yet will claim before this one could.
	for i := range state.IntendedAgainst(p, u.claim) {
		if !p.stopped[i.AllocID] {
			return intendedReason(i)
		}
	}

	class := u.claim.Class()

	// So will allocations that this plan has placed before. It stops none of them.
	for _, i := range p.intended[volumeKey(u.claim)] {
		if i.Class().Conflicts(class) {
			return intendedReason(i)
		}
	}

	return ""
}

func intendedReason(i *structs.CSIClaim) string {
	return fmt.Sprintf("allocation %s (job %s) is placed to use it as %s, %s",
		structs.ShortID(i.AllocID),
		i.JobID,
		i.AccessMode,
		i.Mode)
}

// willRelease reports whether the claims of an allocation will be released without further action: it has
// ended or will end, and its node is there to report that.
func (p *Outlook) willRelease(allocID string) bool {
	a := state.Alloc(p, allocID)
	if a == nil || p.NodeOf(a).Lost() {
		return false
	}
	return p.stopped[allocID] || a.Terminal()
}

// addIntendedClaims records the claims that an allocation of the plan will make.
func (p *Outlook) addIntendedClaims(a *structs.Allocation, uses []VolumeUse, v *NodeView) {
	for _, u := range uses {
		c := *u.claim
		c.AllocID = a.ID
		c.NodeID = a.NodeID
		if u.request != nil {
			c.VolumeID = u.request.VolumeID(a.Index(), a.ID)
		}
		c.PluginID = u.Volume.PluginID
		key := volumeKey(&c)
		p.intended[key] = append(p.intended[key], &c)
		at := v.volumes()
		at.intended = append(at.intended, &c)
	}
}

func volumeKey(c *structs.CSIClaim) string {
	return c.Namespace + "\x00" + c.VolumeID
}

// pluginView is one plugin on one node in the state. A plan does not change it.
type pluginView struct {
	half    *structs.CSIPluginInstance
	unfit   string                       // why the node's half cannot be used
	leaves  bool                         // this is why
	volumes map[string]*structs.CSIClaim // that count against its limit; nil until needed
}

// storageOn looks up a plugin on a node, once.
func (p *Outlook) storageOn(v *NodeView, plugin string) *pluginView {
	known := v.volumes().storage
	if s := known[plugin]; s != nil {
		return s
	}

	s := &pluginView{}
	s.half = csi.Instance(p, plugin, structs.CSIKindNode, v.Node.ID)
	switch {
	case s.half == nil:
		s.unfit = "CSI plugin " + plugin + " has no node instance here"
	case !s.half.Healthy:
		why := "unhealthy"
		if s.half.HealthDescription != "" {
			why += ": " + s.half.HealthDescription
		}

		s.unfit = fmt.Sprintf("CSI plugin %s has no healthy node instance here (%s)", plugin, why)

	case !state.InstanceStays(p, s.half):
		s.leaves = true
		s.unfit = "CSI plugin " + plugin +
			" leaves this node: the allocation that runs it has ended or is to end"
	}

	known[plugin] = s
	return s
}

// attachedOn returns a plugin's volumes that count against the limit of a node: claimed, waiting, attached or
// still detaching.
func (p *Outlook) attachedOn(v *NodeView, plugin string) map[string]*structs.CSIClaim {
	s := p.storageOn(v, plugin)
	if s.volumes != nil {
		return s.volumes
	}

	s.volumes = map[string]*structs.CSIClaim{}
	for a := range csi.AttachmentsByNode(p, v.Node.ID) {
		if a.PluginID != plugin {
			continue
		}

		// Of the claims only the names of the volumes are used: see keysOfVolumes.
		c := &structs.CSIClaim{
			Namespace: a.Namespace,
			VolumeID:  a.VolumeID,
		}
		s.volumes[volumeKey(c)] = c
	}

	for c := range csi.ClaimsByNode(p, v.Node.ID) {
		if c.PluginID == plugin {
			s.volumes[volumeKey(c)] = c
		}
	}

	return s.volumes
}

// pluginsServe checks that each plugin is healthy on the node, and stays. One that leaves is still healthy
// until its node stops it: with a volume the node would have the capacity of the plugin's next allocation. No
// key tells of that one if it takes over from a healthy one.
func pluginsServe(p *Outlook, d *Demand, v *NodeView) *rejects.Rejection {
	for _, u := range d.Uses {
		if r := serves(p, v, u.Volume.PluginID, u.keys); r != nil {
			return r
		}
	}
	for _, plugin := range d.Group.inline {
		keys := []string{structs.WakePlugin(plugin)}
		if reason := csi.PluginConfig(p, plugin).InlineDenied(); reason != "" {
			return &rejects.Rejection{Reason: reason, Keys: keys}
		}
		if r := serves(p, v, plugin, keys); r != nil {
			return r
		}
	}
	return nil
}

// serves returns nil if a plugin is healthy on the node, and stays, else a rejection with the keys.
func serves(p *Outlook, v *NodeView, plugin string, keys []string) *rejects.Rejection {
	s := p.storageOn(v, plugin)
	p.Waits = p.Waits || s.leaves
	if s.unfit == "" {
		return nil
	}
	return &rejects.Rejection{Reason: s.unfit, Keys: keys}
}

// volumesReachable checks the topology of the plugin's half on the node, which NodeGetInfo has reported.
func volumesReachable(p *Outlook, d *Demand, v *NodeView) *rejects.Rejection {
	for i := range d.Uses {
		u := &d.Uses[i]

		// pluginsServe comes before this filter, so the node has the half.
		place := p.storageOn(v, u.Volume.PluginID).half.NodeReport().AccessibleTopology
		if u.Volume.ReachableFrom(place) {
			r := exhaustedIn(p, u, place)
			if r != nil {
				return r
			}
			continue
		}

		// Many nodes reject for this reason, and the text is the same for all.
		if u.where == "" {
			u.where = describeTopologies(u.Volume)
		}
		return &rejects.Rejection{
			Reason: "CSI volume " + u.Volume.ID + ": it is reachable only from " + u.where,
			Keys:   u.keys,
		}
	}
	return nil
}

// guardsTasks checks that the guard of the node can end all tasks, if a volume needs that. The node would
// reject the allocation.
func guardsTasks(p *Outlook, d *Demand, v *NodeView) *rejects.Rejection {
	for _, u := range d.Uses {
		// Only with this policy do the servers release a volume without a proof, because the node promises to
		// end the tasks.
		if csi.LossPolicy(p, u.Volume) != structs.LossLease {
			continue
		}
		for _, driver := range d.Group.drivers {
			why := v.Node.Attributes[structs.AttrUnguarded(driver)]
			if why != "" {
				return &rejects.Rejection{
					Reason: fmt.Sprintf("CSI volume %s with on_node_loss = %q: no guard can end the tasks of driver %s: %s",
						u.Volume.ID, structs.LossLease, driver, why),
					Keys: u.keys,
				}
			}
		}
	}
	return nil
}

// describeTopologies formats the topologies of a volume.
func describeTopologies(v *structs.CSIVolume) string {
	var out []string
	for _, t := range v.Topologies {
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(t.Segments)) {
			parts = append(parts, k+"="+t.Segments[k])
		}
		out = append(out, joinBrief(parts, ","))
	}
	return joinBrief(out, " or ")
}

// MaxKeys is the most volumes whose release an evaluation waits for because of full nodes.
const MaxKeys = 1024

// keysOfVolumes returns the unblock keys of the volumes on a node.
func (p *Outlook) keysOfVolumes(volumes map[string]*structs.CSIClaim) []string {
	// Beyond the bound the evaluation is retried after a time: see conclusion.addRetryEval.
	if p.Keys.named+len(volumes) > MaxKeys {
		p.Keys.TooMany = true
	}
	if p.Keys.TooMany {
		return nil
	}
	sorted := slices.Sorted(maps.Keys(volumes))
	var keys []string
	for _, k := range sorted[:min(len(sorted), structs.ManyVolumes)] {
		c := volumes[k]
		keys = append(keys, structs.WakeVolume(c.Namespace, c.VolumeID))
	}
	p.Keys.named += len(keys)
	return keys
}
