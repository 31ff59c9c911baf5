package state

import (
	"cmp"
	"fmt"
	"iter"
	"strings"

	"berth/structs"
)

// volumeBlock says why no claim of the volume can be granted now, "" if nothing of the volume itself is
// in the way.
func volumeBlock(tx *Read, v *structs.CSIVolume) string { return blockOf(v, Plugin(tx, v.PluginID)) }

// blockOf is volumeBlock with the row of the volume's plugin at hand, nil where there is none.
func blockOf(v *structs.CSIVolume, p *structs.CSIPluginRow) string {
	switch v.State {
	case structs.VolumeCreating:
		return fmt.Sprintf("volume %s is being created%s", v.ID, failing(v.LastError))
	case structs.VolumeDeleting:
		return fmt.Sprintf("volume %s is being deleted%s", v.ID, failing(v.LastError))
	case structs.VolumeFailed:
		return fmt.Sprintf("volume %s could not be created: %s; correct it and create it again", v.ID, errorText(v.LastError))
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
	return fmt.Sprintf(": failed %d times, last with %q", e.Attempts, e.Message)
}

// classBlock says why no claim of the class can be granted though it conflicts with no other claim:
// attachments of another mode have to go first.
func classBlock(tx *Read, v *structs.CSIVolume, k class) string {
	a := attachmentsByMode.first(tx, v.Namespace, v.ID)
	if a != nil && a.AccessMode == k.access && a.AttachmentMode == k.attachment {
		a = attachmentsByMode.after(tx, v.Namespace, v.ID, string(k.access), string(k.attachment))
	}
	if a == nil || a.Namespace != v.Namespace || a.VolumeID != v.ID {
		return ""
	}
	return stillAttached(tx, a)
}

// nodeBlock says why the claim's own node is in the way.
func nodeBlock(tx *Read, v *structs.CSIVolume, c *structs.CSIClaim) string {
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
	if p := Plugin(tx, v.PluginID); own == nil && p != nil && p.SupportsAttachDetach {
		half := Instance(tx, v.PluginID, structs.CSIKindNode, c.NodeID)
		if half == nil || half.NodeInfo == nil || half.NodeInfo.ID == "" {
			return fmt.Sprintf("node %s has no node instance of plugin %s yet: is its job running there?", nodeName(tx, c.NodeID), v.PluginID)
		}
	}
	return ""
}

func stillAttached(tx *Read, a *structs.CSIAttachment) string {
	return fmt.Sprintf("volume %s is being detached from node %s%s", a.VolumeID, nodeName(tx, a.NodeID), failing(a.LastError))
}

func nodeName(tx *Read, id string) string {
	n := Node(tx, id)
	if n == nil {
		return id + " (gone)"
	}
	return cmp.Or(n.Name, n.ID)
}

// Claimable reports whether a claim could be granted if the claims of the allocations for which ignore is
// true were gone, and if not why. It is for planning: the claim need not exist, its node may be "", and
// attachments on their way out do not count, for they leave by themselves.
func Claimable(tx *Read, c *structs.CSIClaim, ignore func(allocID string) bool) (ok bool, reason string) {
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
	for _, state := range []string{structs.ClaimGranted, structs.ClaimWaiting} {
		for _, k := range classesIn(tx, v.Namespace, v.ID, state) {
			if !k.conflicts(classOf(c)) {
				continue
			}
			for other := range claimsOf(tx, v, state, k) {
				if other.AllocID != c.AllocID && (ignore == nil || !ignore(other.AllocID)) {
					return false, holds(tx, other)
				}
			}
		}
	}
	return true, ""
}

// claimsOf yields a volume's claims of a class in a state. Those that are not in the index of classes are
// nearly all claims of the volume: what is granted is of one access mode.
func claimsOf(tx *Read, v *structs.CSIVolume, state string, k class) iter.Seq[*structs.CSIClaim] {
	if state == structs.ClaimWaiting || k.conflicts(k) {
		return claimsByClass.all(tx, v.Namespace, v.ID, state, k.letters())
	}
	return func(yield func(*structs.CSIClaim) bool) {
		for c := range claims.all(tx, v.Namespace, v.ID) {
			if c.State == state && classOf(c) == k && !yield(c) {
				return
			}
		}
	}
}

// manyHolders is how many claims a reason names one by one.
const manyHolders = 3

// ClaimBlocked says, for people, why a claim waits, or why one that is granted cannot be used yet; ""
// when the volume can be staged. It names who is in the way and, where that ends not by itself, what
// would help.
func ClaimBlocked(tx *Read, c *structs.CSIClaim) string {
	v := Volume(tx, c.Namespace, c.VolumeID)
	if v == nil {
		return fmt.Sprintf("volume %s is gone", c.VolumeID)
	}
	if c.State == structs.ClaimGranted {
		return attachBlock(tx, c)
	}
	if why := volumeBlock(tx, v); why != "" {
		return why
	}
	if why := conflictBlock(tx, c); why != "" {
		return why
	}
	return cmp.Or(classBlock(tx, v, classOf(c)), nodeBlock(tx, v, c), "it is about to be granted")
}

// attachBlock says what the attachment of a granted claim lacks.
func attachBlock(tx *Read, c *structs.CSIClaim) string {
	a, p := Attachment(tx, c.Namespace, c.VolumeID, c.NodeID), Plugin(tx, c.PluginID)
	switch {
	case a == nil && p != nil && p.SupportsAttachDetach:
		return fmt.Sprintf("volume %s was granted before plugin %s attached volumes, and node %s has no node instance of it yet: is its job running there?",
			c.VolumeID, c.PluginID, nodeName(tx, c.NodeID))
	case a == nil || a.State == structs.AttachmentAttached:
		return ""
	}
	text := fmt.Sprintf("volume %s is being attached to node %s%s", c.VolumeID, nodeName(tx, c.NodeID), failing(a.LastError))
	if p != nil && !HealthyInstance(tx, c.PluginID, structs.CSIKindController) {
		text += fmt.Sprintf("; no controller of plugin %s is healthy", c.PluginID)
	}
	return text
}

// conflictBlock names the claims that the claim conflicts with: those granted and those ahead.
func conflictBlock(tx *Read, c *structs.CSIClaim) string {
	var held, ahead []string
	for _, other := range ClaimsByVolume(tx, c.Namespace, c.VolumeID) {
		switch {
		case other.AllocID == c.AllocID || !classOf(other).conflicts(classOf(c)):
		case other.State == structs.ClaimGranted:
			held = append(held, holds(tx, other))
		case inLineOrder(other, c) < 0:
			ahead = append(ahead, "allocation "+other.AllocID)
		}
	}
	var text []string
	if len(held) > 0 {
		text = append(text, firstOf(held))
	}
	if len(ahead) > 0 {
		text = append(text, "ahead in line: "+firstOf(ahead))
	}
	return strings.Join(text, "; ")
}

func firstOf(texts []string) string {
	if more := len(texts) - manyHolders; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:manyHolders], ", "), more)
	}
	return strings.Join(texts, ", ")
}

// DetachCommand is what an operator runs to take a volume from a node that cannot be asked.
func DetachCommand(ns, volume, node string) string {
	return detachCommand(ns, volume, node, `-force -reason "it is off" `)
}

func detachCommand(ns, volume, node, flags string) string {
	if ns != structs.DefaultNamespace {
		flags += "-namespace " + ns + " "
	}
	return fmt.Sprintf("berth volume detach %s%s %s", flags, volume, node)
}

// holds says who holds a claim, and what would end it if it does not end by itself.
func holds(tx *Read, c *structs.CSIClaim) string {
	if c.State == structs.ClaimWaiting {
		return fmt.Sprintf("allocation %s waits for volume %s already", c.AllocID, c.VolumeID)
	}
	text := fmt.Sprintf("allocation %s (job %s) on node %s holds volume %s as %s, %s",
		c.AllocID, c.JobID, nodeName(tx, c.NodeID), c.VolumeID, c.AccessMode, c.Mode)
	if why := lingers(tx, c); why != "" {
		return text + "; " + why
	}
	if a := Alloc(tx, c.AllocID); a.ServerTerminal() {
		return text + "; it is being stopped"
	}
	return text
}

// lingers says why a claim that is granted may stay although nobody works with it, and what would help;
// "" when it is of use.
func lingers(tx *Read, c *structs.CSIClaim) string {
	n, a := Node(tx, c.NodeID), Alloc(tx, c.AllocID)
	switch {
	case c.State != structs.ClaimGranted:
		return ""
	case n == nil, n.Status == structs.NodeDown:
		return fmt.Sprintf("that node is down, so nothing is released until it is back, or until an operator who knows that it is off"+
			" runs: %s", DetachCommand(c.Namespace, c.VolumeID, c.NodeID))
	case a == nil || a.ClientTerminal():
		return "it has ended and its node has not yet let go; should that last, this asks the node why: " +
			detachCommand(c.Namespace, c.VolumeID, c.NodeID, "")
	}
	return ""
}
