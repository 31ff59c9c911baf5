package structs

// CSIClaimQueueRow counts the claims of a volume by class, in the table csi_lines. It exists while the volume
// has claims.
type CSIClaimQueueRow struct {
	Namespace string
	VolumeID  string
	Classes   []CSIClassCount // sorted; no class is without claims
	Indexes
}

// CSIClassCount counts the claims of one class.
type CSIClassCount struct {
	AccessMode     CSIAccessMode
	AttachmentMode CSIAttachmentMode
	Mode           string
	Granted        int
	Waiting        int
}

// In returns the counter that a claim in the state belongs to: Granted, or Waiting for every other state. The
// caller may change it in place.
func (n *CSIClassCount) In(state string) *int {
	if state == ClaimGranted {
		return &n.Granted
	}
	return &n.Waiting
}
