package state

import (
	"cmp"
	"fmt"

	"berth/structs"
)

// VolumeDetail returns a volume with its plugin, claims, attachments and allocations. Parts with secrets are
// redacted copies.
func VolumeDetail(tx *ReadTx, v *structs.CSIVolume) *structs.CSIVolumeDetail {
	s := VolumeStub(tx, v)
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
		Blocked:             unschedulable(tx, v),
		ExpandBlocked:       ExpandBlocked(tx, v),
		LossPolicy:          LossPolicy(tx, v),
		Provider:            s.Provider,
		ControllerRequired:  s.ControllerRequired,
		ControllersHealthy:  s.ControllersHealthy,
		ControllersExpected: s.ControllersExpected,
		NodesHealthy:        s.NodesHealthy,
		NodesExpected:       s.NodesExpected,
	}

	p := Plugin(tx, v.PluginID)
	if p != nil {
		d.ProviderVersion = p.Version
	}

	d.WaitingJobs = JobsWaitingFor(tx, v)
	reason := Reasons(tx)
	for _, c := range ClaimsByVolume(tx, v.Namespace, v.ID) {
		addClaim(tx, d, c, reason(c))
	}

	for a := range AttachmentsByVolume(tx, v.Namespace, v.ID) {
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
	c.Reason = cmp.Or(staleHolder(tx, c), blocked)
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
	now := Instance(tx, a.PluginID, structs.CSIKindNode, a.NodeID).NodeReport().ID
	if now == "" || now == a.ExternalNodeID {
		return ""
	}
	return fmt.Sprintf("attached to node %s as %q, which plugin %s names %q now: "+
		"see whether its storage still knows the attachment",
		nodeName(tx, a.NodeID), a.ExternalNodeID, a.PluginID, now)
}
