package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/test/invariant"
)

// describe writes the rows that matter to a reader of a fault.
func (w *world) describe() string {
	v := invariant.NewView(w.store.Read())
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(v.Nodes)) {
		n := v.Nodes[id]
		fmt.Fprintf(&b, "node %s: %s, %s, drain %v, %s, pool %s, rack %s, has %+v\n", id, n.Status,
			n.SchedulingEligibility, n.Drain, n.Datacenter, n.NodePool, n.Meta["rack"], n.Available())
	}
	for _, j := range v.Jobs {
		if !j.StartsOthers() {
			w.describeJob(&b, v, j)
		}
	}
	for _, c := range v.Claims {
		fmt.Fprintf(&b, "claim of %s: %s for %s on %s %s\n", c.VolumeID, c.State, structs.ShortID(c.AllocID), c.NodeID,
			csi.ClaimBlocked(v.Tx, c))
	}
	for _, n := range w.nodes {
		for a := range csi.AttachmentsByNode(v.Tx, n.id) {
			fmt.Fprintf(&b, "volume %s is %s to %s: %+v\n", a.VolumeID, a.State, a.NodeID, a.LastError)
		}
	}
	for _, left := range w.storage.left() {
		fmt.Fprintln(&b, left)
	}
	return b.String()
}

func (w *world) describeJob(b *strings.Builder, v *invariant.View, j *structs.Job) {
	key := structs.JobKey{Namespace: j.Namespace, ID: j.ID}
	fmt.Fprintf(b, "%s job %s, version %d, %s, stop %v, priority %d\n",
		j.Type, j.ID, j.Version, j.Status, j.Stop, j.Priority)
	for _, g := range j.TaskGroups {
		t := g.Tasks[0]
		fmt.Fprintf(b, "  group %s: count %d, asks %+v, %v, update %+v\n", g.Name, g.Count, g.Ask(), t.Env, g.Update)
		for _, r := range g.Volumes {
			fmt.Fprintf(b, "    volume %s, %s, per_alloc %v\n", r.Source, r.AccessMode, r.PerAlloc)
		}
	}
	if d := v.Deployments[key]; d != nil {
		fmt.Fprintf(b, "  deployment of version %d: %s, %s\n", d.JobVersion, d.Status, d.StatusDescription)
		for name, s := range d.TaskGroups {
			fmt.Fprintf(b, "    %s: %+v\n", name, *s)
		}
	}
	for e := range state.EvalsByJob(v.Tx, j.Namespace, j.ID) {
		if e.Terminal() {
			fmt.Fprintf(b, "  evaluation %s at %d: %s, by %s, %s\n", structs.ShortID(e.ID), e.ModifyIndex, e.Status,
				e.TriggeredBy, e.StatusDescription)
		}
	}
	for _, e := range v.Open[key] {
		fmt.Fprintf(b, "  evaluation %s: %s, by %s, %s, on %v\n", structs.ShortID(e.ID), e.Status, e.TriggeredBy,
			e.StatusDescription, e.BlockedOn)
		for name, m := range e.FailedTGAllocs {
			for _, r := range m.Rejections {
				fmt.Fprintf(b, "    %s: %s: %s (%d)\n", name, r.Filter, r.Reason, r.Nodes)
			}
		}
	}
	for _, a := range v.ByJob[key] {
		health := ""
		if s := a.DeploymentStatus; s != nil {
			health = fmt.Sprintf(", canary %v, healthy %v, unhealthy %v", s.Canary, s.IsHealthy(), s.IsUnhealthy())
		}
		fmt.Fprintf(b, "  %s %s on %s, version %d, deployment %.4s, %s %s (%s), awaits %.8s, next %.8s%s\n",
			structs.ShortID(a.ID), a.Name, a.NodeID, a.JobVersion, a.DeploymentID, a.DesiredStatus, a.ClientStatus,
			a.DesiredDescription, slices.Collect(a.Awaits()), a.NextAllocation, health)
	}
}

// recordChanges records the evaluations and allocations of a job that an entry has changed.
func (w *world) recordChanges(index uint64, job string) {
	if job == "" {
		return
	}
	tx := w.store.Read()
	for e := range state.EvalsByJob(tx, namespaceOf(job), job) {
		if e.ModifyIndex == index {
			w.record("entry %d: evaluation %s is %s, by %s, of node %q, due at %.1f: %s %v", index,
				structs.ShortID(e.ID), e.Status, e.TriggeredBy, e.NodeID,
				time.Unix(0, e.WaitUntil).Sub(w.began).Seconds(), e.StatusDescription, e.BlockedOn)
		}
	}
	for a := range state.AllocsByJob(tx, namespaceOf(job), job) {
		if a.ModifyIndex == index {
			w.record("entry %d: allocation %s %s on %s, version %d, is %s, %s", index, structs.ShortID(a.ID),
				a.Name, a.NodeID, a.JobVersion, a.DesiredStatus, a.ClientStatus)
		}
	}
}
