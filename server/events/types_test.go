package events_test

import (
	"slices"
	"testing"
	"time"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/structs/event"
	"berth/structs/storage"
)

// changed returns a copy of a row with a change.
func changed[R any](row *R, edit func(*R)) *R {
	now := *row
	edit(&now)
	return &now
}

// aChange is a change of a row, with the topic and type of an event that it makes.
type aChange struct {
	table       mvcc.AnyTable
	command     string
	before, now any
	topic       event.Topic
	kind        string
}

// changesOfJobs have the types of the dialect about jobs and what runs for them.
func changesOfJobs() []aChange {
	job := &structs.Job{ID: "j"}
	eval := &structs.Evaluation{ID: "e"}
	alloc := &structs.Allocation{
		ID: "a", DesiredStatus: structs.AllocDesiredRun, ClientStatus: structs.AllocRunning,
		Services: []*structs.ServiceInstance{{ID: "s"}},
	}
	rollout := &structs.Deployment{ID: "d"}
	return []aChange{
		{schema.Jobs, "JobRegister", nil, job, event.Job, "JobRegistered"},
		{schema.Jobs, "JobDeregister", job, nil, event.Job, "JobDeregistered"},
		{schema.Jobs, "Reap", job, nil, event.Job, "JobBatchDeregistered"},
		{schema.Jobs, "PlanApply", job, job, event.Job, "PlanResult"},
		{schema.Jobs, "EvalUpdate", job, job, event.Job, "EvaluationUpdated"},
		{schema.Jobs, "AllocsClientUpdate", job, job, event.Job, "AllocationUpdated"},
		{schema.JobVersions, "JobTag", job, job, event.Job, "JobVersionTagged"},
		{schema.JobVersions, "JobUntag", job, job, event.Job, "JobVersionUntagged"},
		{schema.Evals, "EvalUpdate", nil, eval, event.Evaluation, "EvaluationUpdated"},
		{schema.Allocs, "AllocsClientUpdate", alloc, alloc, event.Allocation, "AllocationUpdated"},
		{schema.Allocs, "AllocStop", alloc, alloc, event.Allocation, "AllocationUpdateDesiredStatus"},
		{schema.Allocs, "PlanApply", nil, alloc, event.Allocation, "PlanResult"},
		{schema.Allocs, "PlanApply", nil, alloc, event.Service, "ServiceRegistration"},
		{schema.Allocs, "Reap", alloc, nil, event.Service, "ServiceDeregistration"},
		{schema.Deployments, "DeploymentStatus", rollout, rollout, event.Deployment, "DeploymentStatusUpdate"},
		{schema.Deployments, "DeploymentPromote", rollout, rollout, event.Deployment, "DeploymentPromotion"},
		{schema.Deployments, "DeploymentHealth", rollout, rollout, event.Deployment, "DeploymentAllocHealth"},
		{schema.Deployments, "PlanApply", nil, rollout, event.Deployment, "PlanResult"},
	}
}

// changesOfNodes have the types about nodes, their pools, and rights.
func changesOfNodes() []aChange {
	node := &structs.Node{ID: "n", SchedulingEligibility: structs.NodeEligible}
	drained := changed(node, func(n *structs.Node) { n.DrainStrategy = &structs.DrainStrategy{} })
	ineligible := changed(node, func(n *structs.Node) { n.SchedulingEligibility = structs.NodeIneligible })
	pool := &cluster.NodePool{Name: "p"}
	token := &access.Token{AccessorID: "t"}
	policy := &access.Policy{Name: "p"}
	role := &access.Role{ID: "r"}
	return []aChange{
		{schema.Nodes, "NodeRegister", nil, node, event.Node, "NodeRegistration"},
		{schema.Nodes, "NodeDeregister", node, nil, event.Node, "NodeDeregistration"},
		{schema.Nodes, "NodeDrain", node, drained, event.Node, "NodeDrain"},
		{schema.Nodes, "NodeEligibility", node, ineligible, event.Node, "NodeEligibility"},
		{schema.Nodes, "NodeStatus", node, node, event.Node, "NodeStreamEvent"},
		{schema.NodePools, "NodePoolPut", nil, pool, event.NodePool, "NodePoolUpserted"},
		{schema.NodePools, "NodePoolDelete", pool, nil, event.NodePool, "NodePoolDeleted"},
		{schema.ACLTokens, "C", nil, token, event.ACLToken, "ACLTokenUpserted"},
		{schema.ACLTokens, "C", token, nil, event.ACLToken, "ACLTokenDeleted"},
		{schema.ACLPolicies, "C", nil, policy, event.ACLPolicy, "ACLPolicyUpserted"},
		{schema.ACLPolicies, "C", policy, nil, event.ACLPolicy, "ACLPolicyDeleted"},
		{schema.ACLRoles, "C", nil, role, event.ACLRole, "ACLRoleUpserted"},
		{schema.ACLRoles, "C", role, nil, event.ACLRole, "ACLRoleDeleted"},
	}
}

// changesOfFences have the types about fences.
func changesOfFences() []aChange {
	run := &cluster.FenceRun{NodeID: "n", State: cluster.FenceRunning}
	ended := func(state string) *cluster.FenceRun {
		return changed(run, func(r *cluster.FenceRun) { r.State = state })
	}
	order := &cluster.FenceOrder{NodeID: "n"}
	return []aChange{
		{schema.FenceOrders, "C", nil, order, event.Fence, "FenceOrdered"},
		{schema.FenceOrders, "C", order, nil, event.Fence, "FenceOrderEnded"},
		{schema.FenceRuns, "C", nil, run, event.Fence, "FenceBegun"},
		{schema.FenceRuns, "C", run, ended(cluster.FenceProved), event.Fence, "FenceProved"},
		{schema.FenceRuns, "C", run, ended(cluster.FenceFailed), event.Fence, "FenceFailed"},
		{schema.FenceRuns, "C", run, ended(cluster.FenceVoid), event.Fence, "FenceVoid"},
		{schema.FenceRuns, "C", run, nil, event.Fence, "FenceDeleted"},
	}
}

// changesOfServers have the types about servers.
func changesOfServers() []aChange {
	wrong := &cluster.WrongClock{ServerID: "i", Server: "s.global", Ahead: time.Hour}
	worse := changed(wrong, func(c *cluster.WrongClock) { c.Ahead = 2 * time.Hour })
	return []aChange{
		{schema.WrongClocks, "C", nil, wrong, event.Clock, "ClockWrong"},
		{schema.WrongClocks, "C", wrong, worse, event.Clock, "ClockWrong"},
		{schema.WrongClocks, "C", worse, nil, event.Clock, "ClockRight"},
	}
}

// changesOfVolumes have the types about volumes and plugins.
func changesOfVolumes() []aChange {
	volume := &structs.CSIVolume{ID: "v", CSIVolumeOrigin: structs.CSIVolumeOrigin{Capacity: 1}}
	grown := changed(volume, func(v *structs.CSIVolume) { v.Capacity = 2 })
	called := changed(volume, func(v *structs.CSIVolume) { v.Call = &structs.CSICall{Op: "create"} })
	failed := changed(volume, func(v *structs.CSIVolume) {
		v.LastError = &structs.OperationError{Message: "full"}
	})
	host := &structs.CSIVolume{
		ID:              "h",
		CSIVolumeOrigin: structs.CSIVolumeOrigin{Host: &structs.CSIHost{NodeID: "n"}},
	}
	plugin := &structs.CSIPluginRow{ID: "p"}
	ill := &structs.CSIPluginInstance{NodeID: "n"}
	healthy := changed(ill, func(i *structs.CSIPluginInstance) { i.Healthy = true })
	return []aChange{
		{schema.Volumes, "VolumePut", nil, volume, event.CSIVolume, "CSIVolumeRegistered"},
		{schema.Volumes, "VolumeOutcome", volume, volume, event.CSIVolume, "CSIVolumeUpdated"},
		{schema.Volumes, "VolumeClaim", volume, volume, event.CSIVolume, "CSIVolumeClaim"},
		{schema.Volumes, "VolumeOutcome", volume, grown, event.CSIVolume, "CSIVolumeGrown"},
		{schema.Volumes, "VolumeDeregister", volume, nil, event.CSIVolume, "CSIVolumeDeregistered"},
		{schema.Volumes, "VolumePut", nil, host, event.HostVolume, "HostVolumeRegistered"},
		{schema.Volumes, "VolumeDeregister", host, nil, event.HostVolume, "HostVolumeDeleted"},
		{schema.Volumes, "VolumeOutcome", volume, called, event.Operation, "OperationBegun"},
		{schema.Volumes, "VolumeOutcome", called, failed, event.Operation, "OperationFailed"},
		{schema.Volumes, "VolumeOutcome", called, volume, event.Operation, "OperationEnded"},
		{schema.Plugins, "C", nil, plugin, event.CSIPlugin, "CSIPluginUpserted"},
		{schema.Plugins, "C", plugin, nil, event.CSIPlugin, "CSIPluginDeleted"},
		{schema.Instances, "C", nil, ill, event.Instance, "InstanceRegistered"},
		{schema.Instances, "C", ill, healthy, event.Instance, "InstanceHealthy"},
		{schema.Instances, "C", healthy, ill, event.Instance, "InstanceUnhealthy"},
		{schema.Instances, "C", ill, ill, event.Instance, "InstanceUpdated"},
		{schema.Instances, "C", ill, nil, event.Instance, "InstanceDeregistered"},
	}
}

// changesOfUse have the types about the use of volumes, and about their snapshots.
func changesOfUse() []aChange {
	waiting := &structs.CSIClaim{VolumeID: "v", AllocID: "a", State: structs.ClaimWaiting}
	granted := changed(waiting, func(c *structs.CSIClaim) { c.State = structs.ClaimGranted })
	attaching := &structs.CSIAttachment{VolumeID: "v", NodeID: "n", State: structs.AttachmentAttaching}
	attached := changed(attaching, func(a *structs.CSIAttachment) { a.State = structs.AttachmentAttached })
	detaching := changed(attaching, func(a *structs.CSIAttachment) { a.State = structs.AttachmentDetaching })
	cut := &storage.VolumeSnapshot{Name: "s", Progress: storage.Progress{State: storage.SnapshotCreating}}
	ready := changed(cut, func(s *storage.VolumeSnapshot) { s.State = storage.SnapshotReady })
	failed := changed(cut, func(s *storage.VolumeSnapshot) { s.State = storage.SnapshotFailed })
	return []aChange{
		{schema.Claims, "VolumeClaim", nil, waiting, event.Claim, "ClaimRequested"},
		{schema.Claims, "VolumeUnpublish", waiting, granted, event.Claim, "ClaimGranted"},
		{schema.Claims, "C", granted, granted, event.Claim, "ClaimUpdated"},
		{schema.Claims, "VolumeUnpublish", granted, nil, event.Claim, "ClaimReleased"},
		{schema.Attachments, "C", nil, attaching, event.Attachment, "AttachmentRequested"},
		{schema.Attachments, "C", attaching, attached, event.Attachment, "AttachmentAttached"},
		{schema.Attachments, "C", attached, detaching, event.Attachment, "AttachmentDetaching"},
		{schema.Attachments, "C", attached, attached, event.Attachment, "AttachmentUpdated"},
		{schema.Attachments, "C", detaching, nil, event.Attachment, "AttachmentDetached"},
		{schema.Snapshots, "C", nil, cut, event.Snapshot, "SnapshotRequested"},
		{schema.Snapshots, "C", cut, ready, event.Snapshot, "SnapshotReady"},
		{schema.Snapshots, "C", cut, failed, event.Snapshot, "SnapshotFailed"},
		{schema.Snapshots, "C", ready, ready, event.Snapshot, "SnapshotUpdated"},
		{schema.Snapshots, "C", ready, nil, event.Snapshot, "SnapshotDeleted"},
	}
}

// TestMake_EachTypeHasItsChange: each type of an event is that of one of the changes.
func TestMake_EachTypeHasItsChange(t *testing.T) {
	all := slices.Concat(
		changesOfJobs(), changesOfNodes(), changesOfFences(), changesOfServers(), changesOfVolumes(),
		changesOfUse())
	seen := map[event.Topic][]string{}
	for _, c := range all {
		got := typesOf(made(c.table, c.command, c.before, c.now))
		if !slices.Contains(got, string(c.topic)+" "+c.kind) {
			t.Errorf("%s of %+v: got %q, want %s %s", c.command, c.now, got, c.topic, c.kind)
		}
		seen[c.topic] = append(seen[c.topic], c.kind)
	}
	for topic, kinds := range event.Types {
		for _, kind := range kinds {
			if !slices.Contains(seen[topic], kind) {
				t.Errorf("no change has the type %s of topic %s", kind, topic)
			}
		}
	}
}

// TestMake_ARetryIsNoFailure: an operator's retry makes the next attempt due, and another attempt may fail.
func TestMake_ARetryIsNoFailure(t *testing.T) {
	failed := &structs.CSIVolume{
		ID: "v",
		CSIVolumeStatus: structs.CSIVolumeStatus{
			LastError: &structs.OperationError{Message: "full", Time: 1, Attempts: 1},
		},
	}
	retried := changed(failed, func(v *structs.CSIVolume) {
		v.LastError = changed(v.LastError, func(e *structs.OperationError) { e.RetryTime = 5 })
	})
	again := changed(retried, func(v *structs.CSIVolume) {
		v.LastError = changed(v.LastError, func(e *structs.OperationError) { e.Attempts = 2 })
	})
	got := typesOf(made(schema.Volumes, "VolumeRetry", failed, retried))
	if slices.Contains(got, "Operation OperationFailed") {
		t.Errorf("a retry makes %q", got)
	}
	got = typesOf(made(schema.Volumes, "VolumeOutcome", retried, again))
	if !slices.Contains(got, "Operation OperationFailed") {
		t.Errorf("a second failure makes %q", got)
	}
}

// TestMake_GivesItsOwnEventsAReason: each event of a topic of berth has a reason.
func TestMake_GivesItsOwnEventsAReason(t *testing.T) {
	own := []event.Topic{
		event.Claim, event.Attachment, event.Instance, event.Fence, event.Operation, event.Snapshot,
		event.Clock,
	}
	for _, c := range slices.Concat(changesOfFences(), changesOfServers(), changesOfVolumes(), changesOfUse()) {
		for _, m := range made(c.table, c.command, c.before, c.now) {
			if slices.Contains(own, m.Topic) && m.Reason == "" {
				t.Errorf("%s has no reason", m.Type)
			}
		}
	}
}

// TestMake_TellsNoFormerReason: an instance is not gone because it was healthy, and an order does not end for
// the reason for which it was given.
func TestMake_TellsNoFormerReason(t *testing.T) {
	instance := changed(&structs.CSIPluginInstance{NodeID: "n"}, func(i *structs.CSIPluginInstance) {
		i.HealthDescription = "former"
	})
	cut := &storage.VolumeSnapshot{
		Name: "s", Progress: storage.Progress{State: storage.SnapshotFailed, Reason: "former"}}
	order := &cluster.FenceOrder{NodeID: "n", Why: "former"}
	run := &cluster.FenceRun{NodeID: "n", State: cluster.FenceRunning, Why: "former"}
	proved := changed(run, func(r *cluster.FenceRun) { r.State = cluster.FenceProved })
	for _, c := range []aChange{
		{schema.Instances, "C", instance, nil, event.Instance, "InstanceDeregistered"},
		{schema.FenceOrders, "C", order, nil, event.Fence, "FenceOrderEnded"},
		{schema.FenceRuns, "C", run, proved, event.Fence, "FenceProved"},
		{schema.Snapshots, "C", cut, nil, event.Snapshot, "SnapshotDeleted"},
	} {
		for _, m := range made(c.table, c.command, c.before, c.now) {
			if m.Type != c.kind || m.Reason == "" || m.Reason == "former" {
				t.Errorf("%s has the reason %q", m.Type, m.Reason)
			}
		}
	}
}
