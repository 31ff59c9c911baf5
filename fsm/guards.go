package fsm

import (
	"cmp"

	"berth/state"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/admission"
	"berth/structs/cluster"
	"berth/structs/quota"
	snaprow "berth/structs/storage"
)

// guarded are the destructive commands that name a row by a name or an ID that another row can have later,
// each with its row. If the payload says which row the caller has seen (structs.WriteOptions.Created), a row
// that was made anew since is a conflict. All other destructive commands name an ID that is drawn once, or
// the CreateIndex of the row themselves.
var guarded = []*CommandInfo{
	guard(NodeDeregister, func(tx *state.WriteTx, p *structs.NodeDeregisterRequest) *structs.Node {
		if len(p.NodeIDs) != 1 {
			return nil // an index belongs to one node
		}
		return schema.Nodes.Get(tx, p.NodeIDs[0])
	}),
	guard(NodePoolDelete, func(tx *state.WriteTx, p *cluster.NodePoolDeleteRequest) *cluster.NodePool {
		return schema.NodePools.Get(tx, p.Name)
	}),
	guard(NamespaceDelete, func(tx *state.WriteTx, p *cluster.NamespaceDeleteRequest) *cluster.Namespace {
		return schema.Namespaces.Get(tx, p.Name)
	}),
	guard(JobDeregister, func(tx *state.WriteTx, p *structs.JobDeregisterRequest) *structs.Job {
		return schema.Jobs.Get(tx, p.RequestNamespace(), p.JobID)
	}),
	guard(VolumeDeregister, func(tx *state.WriteTx, p *structs.CSIVolumeDeregisterRequest) *structs.CSIVolume {
		return schema.Volumes.Get(tx, p.RequestNamespace(), p.ID)
	}),
	guard(VolumeDelete, func(tx *state.WriteTx, p *structs.CSIVolumeDeleteRequest) *structs.CSIVolume {
		return schema.Volumes.Get(tx, p.RequestNamespace(), p.ID)
	}),
	guard(VolumeForce, func(tx *state.WriteTx, p *structs.CSIVolumeForceRequest) *structs.CSIVolume {
		return schema.Volumes.Get(tx, p.RequestNamespace(), p.VolumeID)
	}),
	// Of an operator: a node names its claims without this index.
	guard(VolumeUnpublish, func(tx *state.WriteTx, p *structs.CSIVolumeUnpublishRequest) *structs.CSIVolume {
		if len(p.Claims) == 0 {
			return nil // a request of an operator names one volume
		}
		k := p.Claims[0]
		return schema.Volumes.Get(tx, cmp.Or(k.Namespace, p.RequestNamespace()), k.VolumeID)
	}),
	guard(PluginDelete, func(tx *state.WriteTx, p *structs.CSIPluginDeleteRequest) *structs.CSIPluginRow {
		return schema.Plugins.Get(tx, p.ID)
	}),
	guard(VolumeClassDelete, func(tx *state.WriteTx, p *snaprow.ClassDeleteRequest) *snaprow.VolumeClass {
		return schema.VolumeClasses.Get(tx, p.Name)
	}),
	guard(SnapshotDelete, func(tx *state.WriteTx, p *snaprow.SnapshotDeleteEntry) *snaprow.VolumeSnapshot {
		return schema.Snapshots.Get(tx, p.RequestNamespace(), p.Name)
	}),
	guard(SnapshotGroupDelete,
		func(tx *state.WriteTx, p *snaprow.SnapshotDeleteEntry) *snaprow.GroupSnapshot {
			return schema.SnapshotGroups.Get(tx, p.RequestNamespace(), p.Name)
		}),
	guard(SnapshotScheduleDelete,
		func(tx *state.WriteTx, p *snaprow.ScheduleDeleteRequest) *snaprow.SnapshotSchedule {
			return schema.SnapshotSchedules.Get(tx, p.RequestNamespace(), p.ScheduleName)
		}),
	guard(QuotaDelete, func(tx *state.WriteTx, p *quota.SpecDeleteRequest) *quota.Spec {
		return schema.Quotas.Get(tx, p.Name)
	}),
	guard(AdmissionRuleDelete, func(tx *state.WriteTx, p *admission.RuleDeleteRequest) *admission.Rule {
		return schema.AdmissionRules.Get(tx, p.Name)
	}),
	guard(ACLPolicyDelete, func(tx *state.WriteTx, p *access.PolicyDeleteRequest) *access.Policy {
		return schema.ACLPolicies.Get(tx, p.Name)
	}),
	guard(ACLAuthMethodDelete, func(tx *state.WriteTx, p *access.AuthMethodDeleteRequest) *access.AuthMethod {
		return schema.ACLAuthMethods.Get(tx, p.Name)
	}),
}

// stamped is a row of type T.
type stamped[T any] interface {
	*T
	Stamps() (created, modified uint64)
}

// guard gives a command the row that its payload names.
func guard[P, T any, R stamped[T]](c Command[P], row func(*state.WriteTx, *P) R) *CommandInfo {
	c.created = func(tx *state.WriteTx, payload any) uint64 {
		r := row(tx, payload.(*P))
		if r == nil {
			return 0
		}
		created, _ := r.Stamps()
		return created
	}
	return c.CommandInfo
}

// checkCreated rejects a destructive command about a row that another one has replaced. A row that is gone is
// left to the command.
func (c *CommandInfo) checkCreated(tx *state.WriteTx, payload any) error {
	if c.created == nil {
		return nil
	}
	seen := payload.(interface{ Write() *structs.WriteOptions }).Write().Created
	created := c.created(tx, payload)
	if seen == 0 || created == 0 || created == seen {
		return nil
	}
	return structs.Conflictf("what you have seen (create index %d) was deleted meanwhile, and another one has "+
		"its name (create index %d): look at it, and act on that one", seen, created)
}
