package csi

import (
	"fmt"
	"slices"

	"berth/state/schema"
	"berth/structs"
)

// CheckClaims checks that every claim has its volume and its node's allocation. The allocation of a waiting
// claim may still start. A granted claim conflicts with no other, and its attachment fits it.
func CheckClaims(c *schema.Report) {
	granted := grantedClasses{}
	for cl := range schema.Claims.Scan(c) {
		subject := fmt.Sprintf("claim of volume %s/%s for allocation %s",
			cl.Namespace, cl.VolumeID, cl.AllocID)
		v := Volume(c, cl.Namespace, cl.VolumeID)
		a := schema.Allocs.Get(c, cl.AllocID)
		c.Want(v != nil, "%s: no such volume", subject)
		c.Want(a != nil, "%s: no such allocation", subject)
		c.Want(a == nil || a.NodeID == cl.NodeID,
			"%s: it is on another node than the claim", subject)
		c.Want(v == nil || v.PluginID == cl.PluginID,
			"%s: the volume is of another plugin", subject)
		c.Want(v == nil || v.Capable(cl.Class()),
			"%s: the volume is not capable of it", subject)
		grows := cl.ExpandBytes != 0 || cl.ExpandError != nil
		c.Want(!grows || v == nil ||
			v.NodeExpandBytes >= cl.ExpandBytes && v.NodeExpandBytes > 0,
			"%s: its node has still to grow the volume to %d, of which the volume does not know",
			subject, cl.ExpandBytes)
		switch cl.State {
		case structs.ClaimWaiting:
			c.Want(a == nil || !a.Terminal(),
				"%s: it waits though the allocation is terminal", subject)
			c.Want(cl.GrantIndex == 0 && cl.EndTime == 0,
				"%s: it waits and has a grant index, or an end", subject)
			continue

		case structs.ClaimGranted:
			c.Want(cl.GrantIndex >= cl.CreateIndex &&
				cl.GrantIndex <= cl.ModifyIndex,
				"%s: grant index %d", subject, cl.GrantIndex)
			c.Want(a == nil || a.ClientTerminal() == (cl.EndTime != 0),
				"%s: end %d differs from that of its allocation", subject, cl.EndTime)

		default:
			c.Want(false, "%s: state %q", subject, cl.State)
		}

		checkGrantedClaim(c, cl, granted, subject)
	}
}

// grantedClasses has the last granted claims, by volume and by the class of the claim.
type grantedClasses map[VolumeKey]map[structs.ClaimClass]*structs.CSIClaim

// checkGrantedClaim checks a granted claim against the granted claims before it and against its attachment.
func checkGrantedClaim(c *schema.Report, cl *structs.CSIClaim, granted grantedClasses, subject string) {
	key := VolumeKey{Namespace: cl.Namespace, VolumeID: cl.VolumeID}
	for k, other := range granted[key] {
		c.Want(!k.Conflicts(cl.Class()),
			"%s: granted although it conflicts with that of %s", subject, other.AllocID)
		c.Want(!k.Bound() || other.NodeID == cl.NodeID,
			"%s: granted beside that of %s on another node", subject, other.AllocID)
	}

	if granted[key] == nil {
		granted[key] = map[structs.ClaimClass]*structs.CSIClaim{}
	}

	granted[key][cl.Class()] = cl
	at := Attachment(c, cl.Namespace, cl.VolumeID, cl.NodeID)

	// The plugin attaches no volumes, or the ID of the node is not known yet: see attachFor.
	if at == nil {
		return
	}

	c.Want(at.State != structs.AttachmentDetaching,
		"%s: granted on an attachment that is detaching", subject)
	c.Want(at.AccessMode == cl.AccessMode &&
		at.AttachmentMode == cl.AttachmentMode,
		"%s: attached in another mode", subject)
}

// CheckClaimQueues checks that the stored counts equal the claims, and that no claim waits that could be
// granted.
func CheckClaimQueues(c *schema.Report) {
	found := map[string]int{}
	for cl := range schema.Claims.Scan(c) {
		key := fmt.Sprint(cl.Namespace, "/", cl.VolumeID, " ", cl.Class(), " ", cl.State)
		found[key]++
	}

	kept := map[string]int{}
	for l := range schema.ClaimQueues.Scan(c) {
		for _, n := range l.Classes {
			for _, state := range claimStates {
				count := *n.In(state)
				if count != 0 {
					key := fmt.Sprint(l.Namespace, "/", l.VolumeID, " ", n.Class(), " ", state)
					kept[key] = count
				}
			}
		}
	}

	schema.CheckCounts(c, "claims of volume", found, kept)

	// grantable walks the whole queue of a volume, so each volume is checked once.
	seen := map[VolumeKey]bool{}
	for cl := range schema.WaitingByPlugin.Scan(c) {
		key := VolumeKey{Namespace: cl.Namespace, VolumeID: cl.VolumeID}
		if seen[key] {
			continue
		}

		seen[key] = true
		for next := range grantable(c, cl.Namespace, cl.VolumeID) {
			c.Want(false, "claim of volume %s/%s for allocation %s waits though it could be granted",
				next.Namespace, next.VolumeID, next.AllocID)
		}
	}
}

// CheckAttachments checks that a claim uses each attachment that is not detaching, that no claim uses the
// others, and that a volume for a single node has at most one.
func CheckAttachments(c *schema.Report) {
	single := map[VolumeKey]bool{}
	count := map[VolumeKey]int{}
	for a := range schema.Attachments.Scan(c) {
		subject := fmt.Sprintf("attachment of volume %s/%s to node %s",
			a.Namespace, a.VolumeID, a.NodeID)
		used := InUse(c, a)
		switch a.State {
		case structs.AttachmentAttaching, structs.AttachmentAttached:
			c.Want(used, "%s is %s and no claim uses it", subject, a.State)
			c.Want(Volume(c, a.Namespace, a.VolumeID) != nil,
				"%s is %s and the volume is gone", subject, a.State)
		case structs.AttachmentDetaching:
			c.Want(!used, "%s is detaching under a claim", subject)
		default:
			c.Want(false, "%s: state %q", subject, a.State)
		}

		// Without it no detach can be made (CSI spec, ControllerUnpublishVolume, node_id).
		c.Want(a.ExternalNodeID != "",
			"%s: its external node ID is not known", subject)
		c.Want(!a.Found || a.State == structs.AttachmentDetaching,
			"%s was found and is %s", subject, a.State)
		if a.Found {
			continue // no claim made it, so it may be in addition to theirs
		}

		k := VolumeKey{Namespace: a.Namespace, VolumeID: a.VolumeID}
		count[k]++
		single[k] = single[k] ||
			a.AccessMode.SingleNode() &&
				a.State != structs.AttachmentDetaching
	}

	for k, one := range single {
		c.Want(!one || count[k] == 1,
			"volume %s/%s is for a single node and has %d attachments", k.Namespace, k.VolumeID, count[k])
	}
}

// CheckVolumes checks that no two volumes are the same one of a plugin, that each has a known state, and that
// none with claims is being deleted.
func CheckVolumes(c *schema.Report) {
	external := map[[2]string]string{}
	for v := range schema.Volumes.Scan(c) {
		if v.ExternalID != "" {
			key := [2]string{v.PluginID, v.ExternalID}
			c.Want(external[key] == "",
				"volumes %s and %s are both %s of plugin %s", external[key], v.ID, v.ExternalID, v.PluginID)
			external[key] = v.ID
		}

		states := []string{
			structs.VolumeCreating,
			structs.VolumeReady,
			structs.VolumeFailed,
			structs.VolumeDeleting,
		}

		c.Want(slices.Contains(states, v.State),
			"volume %s/%s: state %q", v.Namespace, v.ID, v.State)
		c.Want(v.State != structs.VolumeDeleting ||
			!schema.Claims.Has(c, v.Namespace, v.ID),
			"volume %s/%s is deleting and claimed", v.Namespace, v.ID)
		c.Want((v.DeleteAt != 0) == (v.DeleteCause != ""),
			"volume %s/%s is to be deleted at %d because of %q", v.Namespace, v.ID, v.DeleteAt, v.DeleteCause)
		checkAllocVolume(c, v)
		c.Want(v.DeleteAt == 0 || v.Marked() || v.State == structs.VolumeDeleting,
			"volume %s/%s is %s and to be deleted later", v.Namespace, v.ID, v.State)
	}
}

// checkAllocVolume checks that the volume of an allocation that has ended is on its way out.
func checkAllocVolume(c *schema.Report, v *structs.CSIVolume) {
	if v.AllocID == "" {
		return
	}
	a := schema.Allocs.Get(c, v.AllocID)
	ended := a == nil || a.ClientTerminal()
	leaves := v.Marked() || v.State == structs.VolumeDeleting || v.State == structs.VolumeCreating ||
		v.State == structs.VolumeFailed // it goes with its last claim
	c.Want(!ended || leaves, "volume %s/%s is %s, and its allocation %s has ended",
		v.Namespace, v.ID, v.State, v.AllocID)
}

// CheckInstances checks that each instance has a node whose row names it.
func CheckInstances(c *schema.Report) {
	halves := map[string][]structs.CSIInstanceKey{}
	for i := range schema.Instances.Scan(c) {
		subject := fmt.Sprintf("%s instance of plugin %s on node %s",
			i.Kind, i.PluginID, i.NodeID)
		n := schema.Nodes.Get(c, i.NodeID)
		c.Want(n != nil, "%s: no such node", subject)
		c.Want(n == nil || n.Status != structs.NodeDown || !i.Healthy,
			"%s is healthy and the node is down", subject)
		c.Want(!i.DownWithNode || !i.Healthy,
			"%s is healthy and down with its node", subject)
		p := Plugin(c, i.PluginID)
		c.Want(p != nil, "%s: the plugin has no row", subject)
		c.Want(!i.Healthy || p == nil ||
			i.IsDriver(p.Provider) && !i.OtherDriver,
			"%s is healthy and of another driver, %q", subject, i.Provider)
		halves[i.NodeID] = append(halves[i.NodeID], i.Key())
	}

	// The instances of a node are found by its row: see InstancesByNode.
	for n := range schema.Nodes.Scan(c) {
		named := n.CSIInstances()
		own := halves[n.ID]
		c.Want(slices.Equal(named, own),
			"node %s names plugin instances %v and has %v", n.ID, named, own)
	}
}

// CheckPluginConfigs checks that each row has a setting.
func CheckPluginConfigs(c *schema.Report) {
	schema.CheckIndexes(c, schema.PluginConfigs)
	for p := range schema.PluginConfigs.Scan(c) {
		c.Want(!p.AreDefaults(), "the settings of plugin %s are the defaults", p.ID)
	}
}
