package state

import (
	"cmp"
	"fmt"

	"berth/state/csi"
	"berth/structs"
)

// VolumeDetail returns a volume with its plugin, claims, attachments and allocations. Parts with secrets are
// redacted copies.
func VolumeDetail(tx *ReadTx, v *structs.CSIVolume) *structs.CSIVolumeDetail {
	s := csi.VolumeStub(tx, v)
	d := &structs.CSIVolumeDetail{
		CSIVolume:           *v.Copy().Redacted(),
		AccessMode:          s.AccessMode,
		AttachmentMode:      s.AttachmentMode,
		ReadAllocs:          map[string]*structs.AllocListStub{},
		WriteAllocs:         map[string]*structs.AllocListStub{},
		Allocations:         []*structs.AllocListStub{},
		Claims:              []*structs.CSIClaim{},
		Attachments:         []*structs.CSIAttachment{},
		Schedulable:         s.Schedulable,
		Blocked:             csi.Unschedulable(tx, v),
		ExpandBlocked:       csi.ExpandBlocked(tx, v),
		LossPolicy:          csi.LossPolicy(tx, v),
		Provider:            s.Provider,
		ControllerRequired:  s.ControllerRequired,
		ControllersHealthy:  s.ControllersHealthy,
		ControllersExpected: s.ControllersExpected,
		NodesHealthy:        s.NodesHealthy,
		NodesExpected:       s.NodesExpected,
	}

	p := csi.Plugin(tx, v.PluginID)
	if p != nil {
		d.ProviderVersion = p.Version
	}

	d.WaitingJobs = csi.JobsWaitingFor(tx, v)
	reason := csi.Reasons(tx)
	for _, c := range csi.ClaimsByVolume(tx, v.Namespace, v.ID) {
		addClaim(tx, d, c, reason(c))
	}

	for a := range csi.AttachmentsByVolume(tx, v.Namespace, v.ID) {
		a = a.Copy().Redacted()
		d.Attachments = append(d.Attachments, a)
		text := renamedNode(tx, a)
		if text != "" {
			d.Warnings = append(d.Warnings, text)
		}
	}

	return d
}

func addClaim(tx Reader, d *structs.CSIVolumeDetail, c *structs.CSIClaim, blocked string) {
	c = c.Copy()
	c.Reason = cmp.Or(csi.StaleHolder(tx, c), blocked)
	d.Claims = append(d.Claims, c)
	a := Alloc(tx, c.AllocID)
	if c.State != structs.ClaimGranted || a == nil {
		return
	}
	stub := new(structs.AllocListStub)
	AllocStubs(tx)(a, stub)
	d.Allocations = append(d.Allocations, stub)
	if c.Mode == structs.ClaimWrite {
		d.WriteAllocs[a.ID] = stub
		return
	}
	d.ReadAllocs[a.ID] = stub
}

// renamedNode warns if the plugin's name of a node has changed since the volume was attached to it. The
// attachment keeps the old name, because the detach needs it.
func renamedNode(tx Reader, a *structs.CSIAttachment) string {
	now := csi.Instance(tx, a.PluginID, structs.CSIKindNode, a.NodeID).NodeReport().ID
	if now == "" || now == a.ExternalNodeID {
		return ""
	}
	return fmt.Sprintf("attached to node %s as %q, which plugin %s names %q now: "+
		"see whether its storage still knows the attachment",
		csi.NodeName(tx, a.NodeID), a.ExternalNodeID, a.PluginID, now)
}
