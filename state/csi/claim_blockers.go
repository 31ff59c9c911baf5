package csi

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// VolumeBlock returns why no claim of the volume can be granted now, and "" if the volume itself does not
// prevent it.
func VolumeBlock(tx mvcc.Reader, v *structs.CSIVolume) string {
	p := Plugin(tx, v.PluginID)
	return cmp.Or(blockOf(v, p), expandsOffline(tx, v, p))
}

// blockOf is VolumeBlock with the row of the volume's plugin, nil if there is none.
func blockOf(v *structs.CSIVolume, p *structs.CSIPluginRow) string {
	switch v.State {
	case structs.VolumeCreating:
		return fmt.Sprintf("volume %s is being created%s",
			v.ID, Failing(v.LastError))
	case structs.VolumeDeleting:
		return fmt.Sprintf("volume %s is being deleted%s",
			v.ID, Failing(v.LastError))
	case structs.VolumeFailed:
		return fmt.Sprintf("volume %s could not be created: %s; correct it and create it again",
			v.ID, errorText(v.LastError))
	}

	if v.Marked() {
		return markText(v)
	}

	// Before that nobody knows whether the volume has to be attached, or whether the plugin needs a
	// controller.
	if p == nil || !p.Known {
		return fmt.Sprintf("no instance of plugin %s has been healthy yet: is its job running?", v.PluginID)
	}

	if p.ControllerRequired && !p.ControllerSeen {
		return fmt.Sprintf("no controller of plugin %s has been healthy yet: is its job running?", v.PluginID)
	}

	return ""
}

// Failing describes the last error of an operation that is repeated, as the end of a sentence. It returns ""
// for nil.
func Failing(e *structs.OperationError) string {
	if e == nil {
		return ""
	}
	if e.Attempts == 1 {
		return fmt.Sprintf(": failed once, with %q", e.Message)
	}
	return fmt.Sprintf(": failed %d times, last with %q", e.Attempts, e.Message)
}

// ClassBlock returns why no claim of the class can be granted although it conflicts with no other claim:
// attachments of another mode have to be detached first.
func ClassBlock(tx mvcc.Reader, v *structs.CSIVolume, k structs.ClaimClass) string {
	// The index is in the order of the modes. If the first attachment has the modes of the class, the first
	// one after these modes has others.
	a := schema.AttachmentsByMode.First(tx, v.Namespace, v.ID)
	if a != nil && a.AccessMode == k.AccessMode &&
		a.AttachmentMode == k.AttachmentMode {
		a = schema.AttachmentsByMode.After(tx, v.Namespace, v.ID,
			string(k.AccessMode), string(k.AttachmentMode))
	}

	if a == nil || a.Namespace != v.Namespace ||
		a.VolumeID != v.ID {
		return ""
	}

	return stillAttached(tx, a)
}

// NodeBlock returns why the claim's own node prevents the grant.
func NodeBlock(tx mvcc.Reader, v *structs.CSIVolume, c *structs.CSIClaim) string {
	for a := range excludingAttachments(tx, v, c.Class()) {
		if a.NodeID != c.NodeID {
			return stillAttached(tx, a)
		}
	}

	// A detach in progress would take the volume from the new claim.
	own := Attachment(tx, v.Namespace, v.ID, c.NodeID)
	if own != nil && own.State == structs.AttachmentDetaching {
		return stillAttached(tx, own)
	}

	// The attachment needs the plugin's own ID of the node (CSI spec, ControllerPublishVolume, node_id).
	p := Plugin(tx, v.PluginID)
	attaches := own == nil && p != nil && p.SupportsAttachDetach
	if attaches && ExternalNode(tx, v.PluginID, c.NodeID) == "" {
		return fmt.Sprintf("node %s has no node instance of plugin %s yet: is its job running there?",
			NodeName(tx, c.NodeID), v.PluginID)
	}

	return ""
}

// excludingAttachments yields the attachments of a volume that exclude a claim of a class on another node.
func excludingAttachments(
	tx mvcc.Reader, v *structs.CSIVolume, k structs.ClaimClass,
) iter.Seq[*structs.CSIAttachment] {
	switch {
	case k.AccessMode.SingleNode():
		return AttachmentsByVolume(tx, v.Namespace, v.ID)
	// One claim excludes the others, on any node. A node whose claim was taken by force may write until the
	// volume is detached from it.
	case k.Conflicts(k):
		return schema.ForcedDetaches.Scan(tx, v.Namespace, v.ID)
	}
	return func(func(*structs.CSIAttachment) bool) {}
}

// stillAttached describes an attachment that prevents something, with its last failure and a call whose
// outcome is unknown.
func stillAttached(tx mvcc.Reader, a *structs.CSIAttachment) string {
	relation := map[string]string{
		structs.AttachmentAttaching: "being attached to",
		structs.AttachmentAttached:  "still attached to",
		structs.AttachmentDetaching: "being detached from",
	}[a.State]
	return fmt.Sprintf("volume %s is %s node %s%s%s",
		a.VolumeID, relation, NodeName(tx, a.NodeID),
		Failing(a.LastError), describeCall(tx, a))
}

// describeCall describes a call with an unknown outcome, once an error has occurred. Before that the call is
// only in flight.
func describeCall(tx mvcc.Reader, a *structs.CSIAttachment) string {
	if a.Call == nil || a.LastError == nil {
		return ""
	}
	const text = "; the outcome of the %s at node %s is unknown: it is repeated there, or the next call waits"
	return fmt.Sprintf(text, a.Call.Op, NodeName(tx, a.Call.NodeID))
}

// NodeName returns the name of a node, or the ID if it has none or is gone.
func NodeName(tx mvcc.Reader, id string) string {
	n := schema.Nodes.Get(tx, id)
	if n == nil {
		return id + " (gone)"
	}
	return cmp.Or(n.Name, n.ID)
}

// Claimable reports whether a claim could be granted without the claims of the allocations for which ignore
// is true, and otherwise the reason. It is for planning: the claim need not exist, its node may be "", and
// detaching attachments do not count, because they end by themselves.
func Claimable(
	tx mvcc.Reader,
	c *structs.CSIClaim,
	ignore func(allocID string) bool,
) (ok bool, reason string) {
	v := Volume(tx, c.Namespace, c.VolumeID)
	if v == nil {
		return false, fmt.Sprintf("volume %s does not exist in namespace %s", c.VolumeID, c.Namespace)
	}

	err := checkClaimable(tx, v, c)
	if err != nil {
		return false, err.Error()
	}

	why := VolumeBlock(tx, v)
	if why != "" {
		return false, why
	}

	competes := func(other *structs.CSIClaim) bool {
		return other.AllocID != c.AllocID &&
			(ignore == nil || !ignore(other.AllocID))
	}

	// Waiting claims count, too: a new claim would be behind them.
	for _, state := range claimStates {
		for _, k := range ClassesIn(tx, v, state) {
			if !k.Conflicts(c.Class()) {
				continue
			}

			other := firstClaim(tx, v, classState{k, state}, competes)
			if other != nil {
				return false, DescribeHolder(tx, other)
			}
		}
	}

	return true, ""
}

// classState selects the claims of a class that are in a state.
type classState struct {
	class structs.ClaimClass
	state string
}

// firstClaim returns a claim of a volume that matches, nil if there is none.
func firstClaim(
	tx mvcc.Reader, v *structs.CSIVolume, of classState, matches func(*structs.CSIClaim) bool,
) *structs.CSIClaim {
	if of.state == structs.ClaimGranted {
		holders := someHolders(tx, v, of.class)
		i := slices.IndexFunc(holders, matches)
		if i >= 0 {
			return holders[i]
		}

		// someHolders gives a few of them. Only if there are more does the walk below read rows.
		if len(holders) == countOf(tx, v, of) {
			return nil // these are all
		}
	}

	for c := range claimsOf(tx, v, of) {
		if matches(c) {
			return c
		}
	}

	return nil
}

// claimsOf yields a volume's claims of a class in a state. Claims outside the index of classes are nearly all
// claims of the volume, because granted claims have one access mode.
func claimsOf(
	tx mvcc.Reader,
	v *structs.CSIVolume,
	of classState,
) iter.Seq[*structs.CSIClaim] {
	if of.state == structs.ClaimWaiting ||
		of.class.Conflicts(of.class) {
		return schema.ClaimsByClass.Scan(tx, v.Namespace, v.ID,
			of.state, schema.ClassKey(of.class))
	}

	return func(yield func(*structs.CSIClaim) bool) {
		for c := range schema.Claims.Scan(tx, v.Namespace, v.ID) {
			if c.State == of.state &&
				c.Class() == of.class &&
				!yield(c) {
				return
			}
		}
	}
}

// attachBlock returns why the volume of a granted claim is not attached to its node, and "" if it is, or need
// not be.
func attachBlock(tx mvcc.Reader, c *structs.CSIClaim) string {
	a := Attachment(tx, c.Namespace, c.VolumeID, c.NodeID)
	p := Plugin(tx, c.PluginID)
	switch {
	case a == nil && p != nil && p.SupportsAttachDetach:
		return fmt.Sprintf("volume %s was granted before plugin %s attached volumes, "+
			"and node %s has no node instance of it yet: is its job running there?",
			c.VolumeID, c.PluginID, NodeName(tx, c.NodeID))
	case a == nil || a.State == structs.AttachmentAttached:
		return ""
	}

	why := AttachmentWaits(tx, a)
	if why != "" {
		return why
	}

	// Nothing prevents the call, so it fails, or no controller is there to make it.
	text := stillAttached(tx, a)
	if p != nil &&
		!HealthyInstance(tx, c.PluginID, structs.CSIKindController) {
		text += fmt.Sprintf("; no controller of plugin %s is healthy", c.PluginID)
	}

	return text
}

// DetachCommand returns the command by which an operator removes a volume from a node that is not reachable.
// The words name the node: its ID or name, or -external and what the plugin calls it.
func DetachCommand(ns, volume string, node ...string) string {
	return structs.CommandLine(ns, `volume detach -force -reason "it is off"`,
		append([]string{volume}, node...)...)
}

// ForceCommand returns the command to delete an attachment whose detach the plugin does not confirm.
func ForceCommand(ns, volume, node string) string {
	return detachCommand(ns, volume, node, ` -force -reason "..."`)
}

func detachCommand(ns, volume, node, flags string) string {
	return structs.CommandLine(ns, "volume detach"+flags, volume, node)
}

// DescribeHolder describes the allocation that holds a claim, and the remedy if the claim does not end by
// itself.
func DescribeHolder(tx mvcc.Reader, c *structs.CSIClaim) string {
	if c.State == structs.ClaimWaiting {
		return fmt.Sprintf("allocation %s waits for volume %s already", c.AllocID, c.VolumeID)
	}

	text := fmt.Sprintf("allocation %s (job %s) on node %s holds volume %s as %s, %s",
		c.AllocID, c.JobID, NodeName(tx, c.NodeID),
		c.VolumeID, c.AccessMode, c.Mode)
	why := StaleHolder(tx, c)
	if why != "" {
		return text + "; " + why
	}

	// The allocation exists: StaleHolder describes the holder if its allocation is gone.
	if schema.Allocs.Get(tx, c.AllocID).ServerTerminal() {
		return text + "; it is being stopped"
	}

	return text
}

// lostHolder returns who releases the claim of a lost node, and the remedy.
func lostHolder(tx mvcc.Reader, c *structs.CSIClaim) string {
	const (
		down = "that node is down, so nothing is released until it is back, "
		off  = "or until an operator who knows that it is off runs: "
	)
	confirm := off + "berth node confirm-lost " + c.NodeID
	v := Volume(tx, c.Namespace, c.VolumeID)
	switch {
	case v != nil && LossPolicy(tx, v) == structs.LossFence:
		return down + "until a fence device proves that it cannot write, " + confirm
	case followsLease(tx, c):
		return down + "until it has surely ended the tasks itself, because its lease has ended, " + confirm
	}

	return down + "until a fence device proves that it cannot write (berth node fence " + c.NodeID + "), " +
		off + DetachCommand(c.Namespace, c.VolumeID, c.NodeID)
}

// canUnmount reports whether the node of a claim has a healthy plugin, which unmounts the volume.
func canUnmount(tx mvcc.Reader, c *structs.CSIClaim) bool {
	i := Instance(tx, c.PluginID, structs.CSIKindNode, c.NodeID)
	return i != nil && i.Healthy
}

// StaleHolder returns why a granted claim may stay although its allocation does not use it, and the remedy.
// It returns "" for a used claim.
func StaleHolder(tx mvcc.Reader, c *structs.CSIClaim) string {
	a := schema.Allocs.Get(tx, c.AllocID)
	ended := a == nil || a.ClientTerminal()
	switch {
	case c.State != structs.ClaimGranted:
		return ""
	// No other remedy helps while the node is away.
	case schema.Nodes.Get(tx, c.NodeID).Lost():
		return lostHolder(tx, c)
	case ended && !canUnmount(tx, c):
		return fmt.Sprintf("it has ended, and plugin %s, which unmounts the volume, has no healthy instance on "+
			"that node: is its job running there?", c.PluginID)
	case ended && c.ReleaseError != nil:
		return fmt.Sprintf("it has ended, and its node has not released the volume%s; to call the node again: %s",
			Failing(c.ReleaseError),
			detachCommand(c.Namespace, c.VolumeID, c.NodeID, ""))
	case ended:
		return "it has ended and its node has not yet released the volume; if this lasts, call the node: " +
			detachCommand(c.Namespace, c.VolumeID, c.NodeID, "")
	}

	return ""
}

// checkClaimable rejects a claim that the volume can never grant, with or without other claims.
func checkClaimable(tx mvcc.Reader, v *structs.CSIVolume, c *structs.CSIClaim) error {
	class := c.Class()
	switch {
	case !c.AccessMode.Valid() ||
		!c.AttachmentMode.Valid() ||
		(c.Mode != structs.ClaimRead && c.Mode != structs.ClaimWrite):
		return structs.Invalidf(
			"a claim of volume %q needs a mode, an access mode and an attachment mode, not %s", v.ID, class)

	case c.Mode == structs.ClaimWrite && c.AccessMode.ReaderOnly():
		return structs.Invalidf("volume %q: access mode %s is read-only", v.ID, c.AccessMode)
	case !v.Capable(class):
		return structs.Preconditionf(
			"volume %q has no capability for %s with %s", v.ID, c.AccessMode, c.AttachmentMode)
	case v.State == structs.VolumeDeleting:
		return structs.Preconditionf("volume %q is being deleted", v.ID)
	case v.State == structs.VolumeFailed:
		return structs.Preconditionf("volume %q could not be created: %s",
			v.ID, errorText(v.LastError))
	case v.Marked():
		return structs.Preconditionf("%s", markText(v))
	}

	// The mode may have been asked for before an instance of the plugin was known.
	fault := ""
	if class.Bound() {
		fault = NoMultiWriter(tx, v.PluginID, c.NodeID)
	}
	if fault != "" {
		return structs.Preconditionf("volume %q: %s", v.ID, fault)
	}

	return nil
}

func errorText(e *structs.OperationError) string {
	if e == nil {
		return "the plugin gave no reason"
	}
	return e.Message
}
