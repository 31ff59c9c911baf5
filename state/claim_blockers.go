package state

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"berth/structs"
)

// volumeBlock returns why no claim of the volume can be granted now, and "" if the volume itself does not
// prevent it.
func volumeBlock(tx Reader, v *structs.CSIVolume) string {
	p := Plugin(tx, v.PluginID)
	return cmp.Or(blockOf(v, p),
		expandsOffline(tx, v, p))
}

// blockOf is volumeBlock with the row of the volume's plugin, nil if there is none.
func blockOf(v *structs.CSIVolume, p *structs.CSIPluginRow) string {
	switch v.State {
	case structs.VolumeCreating:
		return fmt.Sprintf("volume %s is being created%s",
			v.ID, failing(v.LastError))
	case structs.VolumeDeleting:
		return fmt.Sprintf("volume %s is being deleted%s",
			v.ID, failing(v.LastError))
	case structs.VolumeFailed:
		return fmt.Sprintf("volume %s could not be created: %s; correct it and create it again",
			v.ID, errorText(v.LastError))
	}
	if p == nil || !p.Known {
		return fmt.Sprintf("no instance of plugin %s has been healthy yet: is its job running?", v.PluginID)
	}
	if p.ControllerRequired && !p.ControllerSeen {
		return fmt.Sprintf("no controller of plugin %s has been healthy yet: is its job running?", v.PluginID)
	}
	return ""
}

func failing(e *structs.OperationError) string {
	if e == nil {
		return ""
	}
	if e.Attempts == 1 {
		return fmt.Sprintf(": failed once, with %q", e.Message)
	}
	return fmt.Sprintf(": failed %d times, last with %q", e.Attempts, e.Message)
}

// classBlock returns why no claim of the class can be granted although it conflicts with no other claim:
// attachments of another mode have to be detached first.
func classBlock(tx Reader, v *structs.CSIVolume, k structs.ClaimClass) string {
	a := attachmentsByMode.First(tx, v.Namespace, v.ID)
	if a != nil && a.AccessMode == k.AccessMode &&
		a.AttachmentMode == k.AttachmentMode {
		a = attachmentsByMode.After(tx, v.Namespace, v.ID,
			string(k.AccessMode), string(k.AttachmentMode))
	}
	if a == nil || a.Namespace != v.Namespace ||
		a.VolumeID != v.ID {
		return ""
	}
	return stillAttached(tx, a)
}

// nodeBlock returns why the claim's own node prevents the grant.
func nodeBlock(tx Reader, v *structs.CSIVolume, c *structs.CSIClaim) string {
	if c.AccessMode.SingleNode() {
		for a := range AttachmentsByVolume(tx, v.Namespace, v.ID) {
			if a.NodeID != c.NodeID {
				return stillAttached(tx, a)
			}
		}
	}
	own := Attachment(tx, v.Namespace, v.ID, c.NodeID)
	if own != nil && own.State == structs.AttachmentDetaching {
		return stillAttached(tx, own)
	}
	p := Plugin(tx, v.PluginID)
	if own == nil && p != nil && p.SupportsAttachDetach {
		if externalNode(tx, v.PluginID, c.NodeID) == "" {
			return fmt.Sprintf("node %s has no node instance of plugin %s yet: is its job running there?",
				nodeName(tx, c.NodeID), v.PluginID)
		}
	}
	return ""
}

func stillAttached(tx Reader, a *structs.CSIAttachment) string {
	doing := map[string]string{
		structs.AttachmentAttaching: "being attached to",
		structs.AttachmentAttached:  "still attached to",
		structs.AttachmentDetaching: "being detached from",
	}[a.State]
	return fmt.Sprintf("volume %s is %s node %s%s%s", a.VolumeID, doing, nodeName(tx, a.NodeID),
		failing(a.LastError), asked(tx, a))
}

// asked describes a call with an unknown outcome, once an error has occurred. Before that the call is only in
// flight.
func asked(tx Reader, a *structs.CSIAttachment) string {
	if a.Call == nil || a.LastError == nil {
		return ""
	}
	return fmt.Sprintf("; the outcome of the %s at node %s is unknown: "+
		"it is repeated there, or the next call waits",
		a.Call.Op, nodeName(tx, a.Call.NodeID))
}

func nodeName(tx Reader, id string) string {
	n := Node(tx, id)
	if n == nil {
		return id + " (gone)"
	}
	return cmp.Or(n.Name, n.ID)
}

// Claimable reports whether a claim could be granted without the claims of the allocations for which ignore
// is true, and if not why. It is for planning: the claim need not exist, its node may be "", and detaching
// attachments do not count, because they end by themselves.
func Claimable(tx Reader, c *structs.CSIClaim, ignore func(allocID string) bool) (ok bool, reason string) {
	v := Volume(tx, c.Namespace, c.VolumeID)
	if v == nil {
		return false, fmt.Sprintf("volume %s does not exist in namespace %s", c.VolumeID, c.Namespace)
	}
	if err := claimable(v, c); err != nil {
		return false, err.Error()
	}
	if why := volumeBlock(tx, v); why != "" {
		return false, why
	}
	for _, state := range claimStates {
		for _, k := range classesIn(tx, v, state) {
			if !k.Conflicts(c.Class()) {
				continue
			}
			other := someoneElse(tx, v, state, k, c, ignore)
			if other != nil {
				return false, describeHolder(tx, other)
			}
		}
	}
	return true, ""
}

// someoneElse returns a volume's claim of a class in a state that belongs to another allocation than c and is
// not to be ignored, nil if there is none.
func someoneElse(
	tx Reader, v *structs.CSIVolume, state string, k structs.ClaimClass, c *structs.CSIClaim,
	ignore func(allocID string) bool,
) *structs.CSIClaim {
	other := func(o *structs.CSIClaim) bool {
		return o.AllocID != c.AllocID &&
			(ignore == nil || !ignore(o.AllocID))
	}
	if state == structs.ClaimGranted {
		some := someHolders(tx, v, k)
		if i := slices.IndexFunc(some, other); i >= 0 {
			return some[i]
		}
		if len(some) == countOf(tx, v, k, state) {
			return nil // these are all
		}
	}
	for o := range claimsOf(tx, v, state, k) {
		if other(o) {
			return o
		}
	}
	return nil
}

// claimsOf yields a volume's claims of a class in a state. Claims outside the index of classes are nearly all
// claims of the volume, because granted claims have one access mode.
func claimsOf(
	tx Reader, v *structs.CSIVolume, state string, k structs.ClaimClass,
) iter.Seq[*structs.CSIClaim] {
	if state == structs.ClaimWaiting || k.Conflicts(k) {
		return claimsByClass.Scan(tx, v.Namespace, v.ID,
			state, classKey(k))
	}
	return func(yield func(*structs.CSIClaim) bool) {
		for c := range claims.Scan(tx, v.Namespace, v.ID) {
			if c.State == state && c.Class() == k &&
				!yield(c) {
				return
			}
		}
	}
}

// attachBlock returns what prevents the attachment of a granted claim.
func attachBlock(tx Reader, c *structs.CSIClaim) string {
	a := Attachment(tx, c.Namespace, c.VolumeID, c.NodeID)
	p := Plugin(tx, c.PluginID)
	switch {
	case a == nil && p != nil && p.SupportsAttachDetach:
		return fmt.Sprintf("volume %s was granted before plugin %s attached volumes, "+
			"and node %s has no node instance of it yet: is its job running there?",
			c.VolumeID, c.PluginID, nodeName(tx, c.NodeID))
	case a == nil || a.State == structs.AttachmentAttached:
		return ""
	}
	if why := AttachmentWaits(tx, a); why != "" {
		return why
	}
	text := stillAttached(tx, a)
	if p != nil &&
		!HealthyInstance(tx, c.PluginID, structs.CSIKindController) {
		text += fmt.Sprintf("; no controller of plugin %s is healthy", c.PluginID)
	}
	return text
}

// DetachCommand returns the command by which an operator removes a volume from a node that is not reachable.
func DetachCommand(ns, volume, node string) string {
	return detachCommand(ns, volume, node, `-force -reason "it is off" `)
}

// ForceCommand returns the command to delete an attachment whose detach the plugin does not confirm.
func ForceCommand(ns, volume, node string) string {
	return detachCommand(ns, volume, node, `-force -reason "..." `)
}

func detachCommand(ns, volume, node, flags string) string {
	return volumeCommand("detach "+flags, ns) + volume + " " + node
}

// volumeCommand returns the beginning of a command on a volume of the namespace.
func volumeCommand(verb, ns string) string {
	if ns != structs.DefaultNamespace {
		verb += "-namespace " + ns + " "
	}
	return "berth volume " + verb
}

// describeHolder describes the allocation that holds a claim, and the remedy if the claim does not end by
// itself.
func describeHolder(tx Reader, c *structs.CSIClaim) string {
	if c.State == structs.ClaimWaiting {
		return fmt.Sprintf("allocation %s waits for volume %s already", c.AllocID, c.VolumeID)
	}
	text := fmt.Sprintf("allocation %s (job %s) on node %s holds volume %s as %s, %s",
		c.AllocID, c.JobID, nodeName(tx, c.NodeID), c.VolumeID, c.AccessMode, c.Mode)
	if why := staleHolder(tx, c); why != "" {
		return text + "; " + why
	}
	a := Alloc(tx, c.AllocID)
	if a.ServerTerminal() {
		return text + "; it is being stopped"
	}
	return text
}

// staleHolder returns why a granted claim may stay although its allocation does not use it, and the remedy.
// It returns "" for a used claim.
func staleHolder(tx Reader, c *structs.CSIClaim) string {
	a := Alloc(tx, c.AllocID)
	ended := a == nil || a.ClientTerminal()
	switch {
	case c.State != structs.ClaimGranted:
		return ""
	case Node(tx, c.NodeID).Lost():
		return fmt.Sprintf("that node is down, so nothing is released until it is back, "+
			"or until an operator who knows that it is off"+
			" runs: %s", DetachCommand(c.Namespace, c.VolumeID, c.NodeID))
	case ended && c.ReleaseError != nil:
		return fmt.Sprintf("it has ended, and its node has not released the volume%s; to call the node again: %s",
			failing(c.ReleaseError), detachCommand(c.Namespace, c.VolumeID, c.NodeID, ""))
	case ended:
		return "it has ended and its node has not yet released the volume; if this lasts, call the node: " +
			detachCommand(c.Namespace, c.VolumeID, c.NodeID, "")
	}
	return ""
}
