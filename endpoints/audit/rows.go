package audit

import (
	"cmp"

	"berth/internal/auditlog"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
)

// maxRows bounds the rows before and after a change.
const maxRows = 16

// redacted stands for a value that may be a secret.
const redacted = "[redacted]"

// volume is a volume in an event.
type volume struct {
	Row          string            `json:"row"`
	Namespace    string            `json:"namespace"`
	ID           string            `json:"id"`
	Name         string            `json:"name,omitempty"`
	Plugin       string            `json:"plugin"`
	ExternalID   string            `json:"external_id,omitempty"`
	State        string            `json:"state"`
	Capacity     int64             `json:"capacity"`
	CapacityMin  int64             `json:"requested_capacity_min,omitempty"`
	CapacityMax  int64             `json:"requested_capacity_max,omitempty"`
	Capabilities []string          `json:"capabilities,omitempty"`
	FSType       string            `json:"fs_type,omitempty"`
	MountFlags   string            `json:"mount_flags,omitempty"`
	Secrets      string            `json:"secrets,omitempty"`
	SecretsFrom  string            `json:"secrets_from,omitempty"`
	Parameters   map[string]string `json:"parameters,omitempty"`
	Context      map[string]string `json:"context,omitempty"`
	CloneID      string            `json:"clone_id,omitempty"`
	SnapshotID   string            `json:"snapshot_id,omitempty"`
	OnNodeLoss   string            `json:"on_node_loss,omitempty"`
	ModifyIndex  uint64            `json:"modify_index"`
}

// claim is a claim in an event.
type claim struct {
	Row         string `json:"row"`
	Namespace   string `json:"namespace"`
	Volume      string `json:"volume"`
	Alloc       string `json:"allocation"`
	Node        string `json:"node"`
	Job         string `json:"job,omitempty"`
	Mode        string `json:"mode"`
	State       string `json:"state"`
	GrantIndex  uint64 `json:"grant_index,omitempty"`
	EndTime     int64  `json:"end_time,omitempty"` // UnixNano
	ModifyIndex uint64 `json:"modify_index"`
}

// rows returns the rows of the volumes and claims that a call is about.
func (r *Recorder) rows(c Call, objects []auditlog.Object) (all []any) {
	tx := r.Store.Read()
	ns := namespaceOf(c.Req)
	for _, o := range objects {
		if o.Type == "volume" {
			v := csi.Volume(tx, cmp.Or(o.Namespace, ns), o.ID)
			if v != nil {
				all = append(all, volumeOf(v))
			}
		}
	}
	for _, cl := range claims(tx, c) {
		all = append(all, claimOf(cl))
	}
	return all[:min(len(all), maxRows)]
}

// claims returns the claims that a call is about: one that it names, the claims of a volume on a node, or of
// a node that is lost.
func claims(tx *state.ReadTx, c Call) (all []*structs.CSIClaim) {
	switch req := c.Req.(type) {
	case *structs.VolumeClaimReleaseRequest:
		cl := csi.Claim(tx, req.RequestNamespace(), req.VolumeID, req.AllocID)
		if cl != nil {
			all = append(all, cl)
		}
	case *structs.CSIVolumeDetachRequest:
		for cl := range csi.ClaimsOf(tx, req.RequestNamespace(), req.VolumeID) {
			if req.NodeID == "" || cl.NodeID == req.NodeID {
				all = append(all, cl)
			}
		}
	case *cluster.NodeFenceRequest:
		for cl := range csi.ClaimsByNode(tx, req.NodeID) {
			all = append(all, cl)
		}
	}
	return all
}

func volumeOf(v *structs.CSIVolume) *volume {
	is := &volume{
		Row:         "volume",
		Namespace:   v.Namespace,
		ID:          v.ID,
		Name:        v.Name,
		Plugin:      v.PluginID,
		ExternalID:  v.ExternalID,
		State:       v.State,
		Capacity:    v.Capacity,
		CapacityMin: v.RequestedCapacityMin,
		CapacityMax: v.RequestedCapacityMax,
		SecretsFrom: v.SecretsFrom,
		Parameters:  redactedValues(v.Parameters),
		Context:     redactedValues(v.Context),
		CloneID:     v.CloneID,
		SnapshotID:  v.SnapshotID,
		OnNodeLoss:  v.OnNodeLoss,
		ModifyIndex: v.ModifyIndex,
	}
	for _, c := range v.RequestedCapabilities {
		if c != nil {
			is.Capabilities = append(is.Capabilities, string(c.AccessMode)+" "+string(c.AttachmentMode))
		}
	}
	if v.MountOptions != nil {
		is.FSType = v.MountOptions.FSType
		if len(v.MountOptions.MountFlags) > 0 {
			is.MountFlags = redacted
		}
	}
	if len(v.Secrets) > 0 || v.SealedSecrets != nil {
		is.Secrets = redacted
	}
	return is
}

// redactedValues returns the keys of a map.
func redactedValues(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	is := map[string]string{}
	for key := range m {
		is[key] = redacted
	}
	return is
}

func claimOf(c *structs.CSIClaim) *claim {
	return &claim{
		Row:         "claim",
		Namespace:   c.Namespace,
		Volume:      c.VolumeID,
		Alloc:       c.AllocID,
		Node:        c.NodeID,
		Job:         c.JobID,
		Mode:        c.Mode,
		State:       c.State,
		GrantIndex:  c.GrantIndex,
		EndTime:     c.EndTime,
		ModifyIndex: c.ModifyIndex,
	}
}
