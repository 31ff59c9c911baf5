package scheduler

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/state/statetest"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/cluster"
)

// TestBlockedEval_MissesNoUnblock makes random changes to a small cluster. Its evaluations are planned one
// after the other, each with a state that is older than the one to which its plan is applied. At the end no
// blocked evaluation would find capacity, and no new evaluation of a job would change anything.
func TestBlockedEval_MissesNoUnblock(t *testing.T) {
	for seed := range uint64(seeds()) {
		c := &randomCluster{
			fixture: newFixture(t),
			r:       rand.New(rand.NewPCG(seed, 1)),
			givenUp: map[string]bool{},
		}
		if seed%3 == 2 {
			c.preempting()
		}
		c.many = c.r.IntN(3) == 0
		if c.r.IntN(4) == 0 {
			c.fleet()
		}
		for i := range 1 + c.r.IntN(4) {
			c.aNode(fmt.Sprint("n", i))
		}
		for step := range 60 {
			c.step()
			if step%15 == 14 {
				c.settle(fmt.Sprintf("seed %d, step %d", seed, step))
			}
		}
		if t.Failed() {
			t.Log(strings.Join(c.history, "\n"))
			return
		}
	}
}

// seeds returns the number of clusters, SEEDS if that is set.
func seeds() int {
	n, err := strconv.Atoi(os.Getenv("SEEDS"))
	if err != nil {
		return 100
	}
	return n
}

// randomCluster is a cluster with random changes.
type randomCluster struct {
	*fixture
	r       *rand.Rand
	many    bool            // jobs
	plans   []*structs.Plan // in flight
	givenUp map[string]bool
	history []string
}

func (c *randomCluster) logf(format string, args ...any) {
	c.history = append(c.history, fmt.Sprintf("%d: ", c.index)+fmt.Sprintf(format, args...))
}

func (c *randomCluster) pick(of ...string) string {
	return of[c.r.IntN(len(of))]
}

// try applies an entry that may be rejected.
func try[P any](c *randomCluster, name string, fn func(*state.WriteTx, *P) error, p *P) {
	c.t.Helper()
	c.index++
	err := c.s.Write(c.index, func(tx *state.WriteTx) error {
		return fn(tx, p)
	})
	c.logf("%s %v", name, err)
	if faults := state.Check(c.s.Read()); len(faults) > 0 {
		c.t.Fatalf("after %s: %s\n%s", name, strings.Join(faults, "\n"), strings.Join(c.history, "\n"))
	}
}

func (c *randomCluster) step() {
	c.clock = c.clock.Add(time.Second)
	if c.r.IntN(3) == 0 {
		c.schedule()
		return
	}
	c.changeAnything()
}

// fleet adds nodes without free capacity.
func (c *randomCluster) fleet() {
	for i := range 100 {
		n := aNode(fmt.Sprintf("f%02d", i))
		n.NodeResources.CPU.CpuShares = 0
		c.index++
		if err := c.s.Write(c.index, func(tx *state.WriteTx) error {
			return state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: n, WriteOptions: c.now()})
		}); err != nil {
			c.t.Fatal(err)
		}
	}
	c.logf("100 nodes without capacity")
}

// schedule carries out one of the plans that are made, or makes one.
func (c *randomCluster) schedule() {
	if len(c.plans) == 0 || len(c.plans) < 4 && c.r.IntN(2) == 0 {
		if c.makePlan() {
			return
		}
	}
	if len(c.plans) == 0 {
		return
	}
	at := c.r.IntN(len(c.plans))
	p := c.plans[at]
	c.plans = slices.Delete(c.plans, at, at+1)
	if c.r.IntN(12) == 0 {
		c.giveUp(p.Eval)
		return
	}
	p.WriteOptions = c.now()
	blocked := ""
	if p.Blocked != nil {
		blocked = fmt.Sprint(p.Blocked.ID[:4], p.Blocked.BlockedOn)
	}
	try(c, fmt.Sprintf("plan of %s of %s %s node %q: %d placed, %d stopped; %s, %s %v", p.Eval.ID[:4],
		p.Eval.JobID, p.Eval.TriggeredBy,
		p.Eval.NodeID, len(p.Place), len(p.Stop), blocked, p.Eval.Status, p.Eval.BlockedOn), state.PlanApply, p)
	if e := state.Eval(c.s.Read(), p.Eval.ID); e != nil {
		c.logf("  is %s: %s", e.Status, e.StatusDescription)
	}
}

// giveUp marks an evaluation failed, as the leader does when its plan fails too often.
func (c *randomCluster) giveUp(e *structs.Evaluation) {
	now := state.Eval(c.s.Read(), e.ID)
	if now == nil {
		return
	}
	e = now.Copy()
	e.Status = structs.EvalFailed
	c.givenUp[e.JobID] = true
	try(c, "give up "+e.ID[:4]+" of "+e.JobID, state.EvalUpdate,
		&structs.EvalUpdateRequest{Evals: []*structs.Evaluation{e}, WriteOptions: c.now()})
}

// makePlan makes a plan of a due evaluation that may be in flight beside the others: one per job, except for
// different nodes of a per-node job, and one for all jobs with volumes.
func (c *randomCluster) makePlan() bool {
	tx := c.s.Read()
	due := slices.Collect(state.ReadyEvals(tx))
	for e := range state.LaterEvals(tx) {
		if e.WaitUntil > c.clock.UnixNano() {
			break
		}
		due = append(due, e)
	}
	for _, e := range due {
		if !slices.ContainsFunc(c.plans, func(p *structs.Plan) bool {
			return c.conflict(p.Eval, e)
		}) {
			c.plans = append(c.plans, c.process(e))
			c.logf("made for %s of %s", e.ID[:4], e.JobID)
			return true
		}
	}
	return false
}

func (c *randomCluster) conflict(a, b *structs.Evaluation) bool {
	uses := func(id string) bool {
		j := state.Job(c.s.Read(), "default", id)
		return j != nil && len(j.TaskGroups[0].Volumes) > 0
	}
	if a.JobID != b.JobID {
		return uses(a.JobID) && uses(b.JobID)
	}
	j := state.Job(c.s.Read(), "default", a.JobID)
	return a.NodeID == b.NodeID || a.NodeID == "" || b.NodeID == "" ||
		j == nil || j.Stop || !j.PerNode() ||
		uses(a.JobID)
}

// settle runs the scheduler until it has no work. It retries the evaluations that were planned for an older
// server.
func (c *randomCluster) settle(when string) {
	c.clock = c.clock.Add(retryDelay)
	for n := 0; ; n++ {
		before := len(c.history)
		c.schedule()
		if len(c.plans) == 0 &&
			unblock.Due(c.s.Read()) &&
			c.r.IntN(2) == 0 || len(c.history) == before &&
			unblock.Due(c.s.Read()) {
			try(c, "unblock", state.EvalUpdate, &structs.EvalUpdateRequest{
				Wake:         1 + c.r.IntN(4),
				WriteOptions: c.now(),
			})
		}
		if len(c.history) == before {
			break
		}
		if n > 3000 {
			newest := c.history[len(c.history)-60:]
			c.t.Fatalf("%s: the scheduler does not finish:\n%s", when, strings.Join(newest, "\n"))
		}
	}
	tx := c.s.Read()
	for e := range statetest.EvalsByStatus(tx, structs.EvalBlocked) {
		if p := c.process(e); len(p.Place) > 0 && !c.givenUp[e.JobID] {
			c.t.Errorf("%s: %s of %s waits for %v although capacity is free: %s", when, e.ID[:4], e.JobID,
				e.BlockedOn, describe(p))
		}
	}
	for j := range state.JobsFrom(tx, structs.AllNamespaces, "", state.Page{}) {
		e := c.eval(j.ID)
		e.Type, e.Namespace = j.Type, j.Namespace
		if p := c.process(e); len(p.Place)+len(p.Stop)+len(p.Update)+len(p.Followups) > 0 && !c.givenUp[j.ID] {
			c.t.Errorf("%s: job %s needs a plan: %s", when, j.ID, describe(p))
		}
	}
}

func (c *randomCluster) aNode(id string) {
	n, k := half("hostpath", structs.CSIKindNode), half("hostpath", structs.CSIKindController)
	n.NodeInfo.ID, n.NodeInfo.MaxVolumes = "ext-"+id, int64(c.r.IntN(3))
	k.ControllerInfo.SupportsAttachDetach = c.r.IntN(2) == 0
	n.Healthy, k.Healthy = c.r.IntN(4) > 0, c.r.IntN(4) > 0
	n.RequiresControllerPlugin = c.r.IntN(3) == 0
	other := half("other", structs.CSIKindNode)
	other.NodeInfo.ID = "ext-" + id
	node := aNode(id)
	node.NodeResources.CPU.CpuShares = int64(100 * c.r.IntN(8))
	node.Meta["rack"] = c.pick("r1", "r2")
	node.Datacenter = c.pick("dc1", "dc1", "dc2")
	all := []*structs.CSIPluginInstance{n, k, other}
	try(c, fmt.Sprintf("register %s %d", id, node.NodeResources.CPU.CpuShares), state.NodeRegister,
		&structs.NodeRegisterRequest{
			Node:         node,
			CSI:          all[:c.r.IntN(4)],
			WriteOptions: c.now(),
		})
}

func (c *randomCluster) aJob(id string) {
	kind := c.pick(structs.JobService, structs.JobService, structs.JobBatch, structs.JobSystem)
	edits := []func(*structs.Job){cpu(100 * (1 + c.r.IntN(3)))}
	if kind != structs.JobSystem {
		edits = append(edits, count(c.r.IntN(4)))
	}
	if c.r.IntN(4) == 0 {
		edits = append(edits, constraints(&structs.Constraint{
			LTarget: "${meta.rack}",
			RTarget: "r1",
			Operand: "=",
		}))
	}
	if c.r.IntN(6) == 0 {
		edits = append(edits, constraints(&structs.Constraint{Operand: structs.ConstraintDistinctHosts}))
	}
	for range c.r.IntN(3) {
		edits = append(edits, volume(c.pick("a", "b", "c"), structs.CSIAccessModes[c.r.IntN(5)], c.r.IntN(5) == 0))
	}
	edits = append(edits, func(j *structs.Job) {
		j.Priority = 30 + 10*c.r.IntN(4)
		j.Datacenters = []string{c.pick("dc1", "*")}
		if c.r.IntN(3) == 0 {
			g := *j.TaskGroups[0]
			g.Name = "h"
			j.TaskGroups = append(j.TaskGroups, &g)
		}
	})
	j := aJob(id, kind, edits...)
	delete(c.givenUp, id)
	try(c, fmt.Sprintf("job %s %s", id, kind), state.JobRegister, &structs.JobRegisterRequest{
		Job:          j,
		WriteOptions: c.now(),
		Eval:         &structs.Evaluation{ID: structs.NewID(), TriggeredBy: structs.TriggerJobRegister},
	})
}

// changeAnything makes one change that is not a plan.
func (c *randomCluster) changeAnything() {
	id, tx := fmt.Sprint("n", c.r.IntN(4)), c.s.Read()
	volume := c.pick("a", "b", "c", "a[0]", "a[1]", "b[0]")
	var live, ended []*structs.Allocation
	for a := range state.AllocsFrom(tx, structs.AllNamespaces, "", state.Page{}) {
		if !a.ClientTerminal() {
			live = append(live, a)
		} else {
			ended = append(ended, a)
		}
	}
	names := 5
	if c.many {
		names = 25
	}
	job := fmt.Sprint("j", c.r.IntN(names))
	switch c.r.IntN(21) {
	case 0, 1, 2:
		c.aJob(job)
	case 3:
		c.aNode(id)
	case 4:
		try(c, "status", state.NodeStatus, &structs.NodeStatusUpdate{
			NodeIDs:      []string{id},
			Status:       c.pick(structs.NodeReady, structs.NodeDown),
			WriteOptions: c.now(),
		})
	case 5:
		if state.Node(tx, id) != nil {
			try(c, "eligibility", state.NodeEligibility, &structs.NodeEligibilityRequest{
				NodeID:       id,
				Eligibility:  c.pick(structs.NodeEligible, structs.NodeIneligible),
				WriteOptions: c.now(),
			})
		}
	case 6, 7, 8:
		if len(live) > 0 {
			a := live[c.r.IntN(len(live))]
			status := c.pick(structs.AllocRunning, structs.AllocFailed, structs.AllocComplete)
			try(c, "alloc of "+a.JobID+" on "+a.NodeID+" "+status, state.AllocsClientUpdate,
				&structs.AllocsClientUpdateRequest{
					NodeID:       a.NodeID,
					WriteOptions: c.now(),
					Allocs:       []*structs.AllocClientUpdate{{ID: a.ID, ClientStatus: status}},
				})
		}
	case 9, 10:
		mode := structs.CSIAccessModes
		v := &structs.CSIVolume{
			ID: volume, Namespace: "default",
			CSIVolumeSpec: structs.CSIVolumeSpec{
				PluginID:   c.pick("hostpath", "hostpath", "other"),
				ExternalID: "x-" + volume + "-" + fmt.Sprint(c.index),
			},
		}
		if old := csi.Volume(tx, "default", volume); old != nil {
			v.ExternalID, v.PluginID = old.ExternalID, old.PluginID
		}
		for _, m := range mode {
			if c.r.IntN(4) > 0 {
				v.RequestedCapabilities = append(v.RequestedCapabilities, &structs.CSIVolumeCapability{
					AccessMode:     m,
					AttachmentMode: structs.CSIFileSystem,
				})
			}
		}
		try(c, "volume "+volume, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
			WriteOptions: c.now(),
			Volumes:      []*structs.CSIVolume{v},
		})
	case 11, 12:
		for _, a := range live {
			c.claimAll(a)
		}
	case 13, 14, 15:
		var keys []structs.CSIClaimKey
		for cl := range statetest.EndedClaims(tx) {
			if n := state.Node(tx, cl.NodeID); n != nil && n.Status == structs.NodeReady {
				keys = append(keys, cl.Key())
			}
		}
		if len(keys) > 0 {
			c.r.Shuffle(len(keys), func(i, j int) {
				keys[i], keys[j] = keys[j], keys[i]
			})
			keys = keys[:1+c.r.IntN(len(keys))]
			try(c, fmt.Sprint("release ", keys), state.VolumeUnpublish,
				&structs.CSIVolumeUnpublishRequest{Claims: keys, WriteOptions: c.now()})
		}
	case 16:
		for a := range csi.UnsettledAttachments(tx) {
			op := map[string]string{
				structs.AttachmentAttaching: "attach",
				structs.AttachmentDetaching: "detach",
			}[a.State]
			try(c, op+" "+a.VolumeID+" "+a.NodeID, csi.AttachmentOutcome,
				&structs.CSIAttachmentOutcome{
					VolumeID:     a.VolumeID,
					NodeID:       a.NodeID,
					Op:           op,
					WriteOptions: c.now(),
				})
		}
	case 17:
		try(c, "deregister volume "+volume, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
			ID:           volume,
			Force:        c.r.IntN(2) == 0,
			WriteOptions: c.now(),
		})
	case 18:
		switch c.r.IntN(3) {
		case 0:
			try(c, "deregister "+job, state.JobDeregister, &structs.JobDeregisterRequest{
				JobID:        job,
				Purge:        c.r.IntN(3) == 0,
				WriteOptions: c.now(),
				Eval:         &structs.Evaluation{ID: structs.NewID()},
			})
		case 1:
			if len(live) > 0 {
				a := live[c.r.IntN(len(live))]
				try(c, "stop of "+a.JobID, state.AllocStop, &structs.AllocStopRequest{
					AllocID:      a.ID,
					WriteOptions: c.now(),
					Eval: &structs.Evaluation{
						ID:          structs.NewID(),
						TriggeredBy: structs.TriggerAllocStop,
					},
				})
			}
		default:
			c.clock = c.clock.Add(time.Minute)
		}
	case 19:
		if c.r.IntN(3) > 0 {
			return
		}
		var b bytes.Buffer
		s := state.New()
		if err := c.s.Save(&b); err != nil {
			c.t.Fatal(err)
		}
		if err := s.Load(&b); err != nil {
			c.t.Fatal(err)
		}
		c.s = s
		c.logf("restored")
	case 20:
		config := cluster.DefaultSchedulerConfiguration()
		config.PreemptionConfig = cluster.PreemptionConfig{
			SystemSchedulerEnabled:  c.r.IntN(2) == 0,
			BatchSchedulerEnabled:   c.r.IntN(2) == 0,
			ServiceSchedulerEnabled: c.r.IntN(2) == 0,
		}
		try(c, fmt.Sprintf("preemption %+v", config.PreemptionConfig), state.SchedulerConfigSet,
			&cluster.SchedulerConfigRequest{Config: config, WriteOptions: c.now()})
	}
}

func (c *randomCluster) claimAll(a *structs.Allocation) {
	j := state.JobVersion(c.s.Read(), a.Namespace, a.JobID, a.JobVersion)
	g := j.Group(a.TaskGroup)
	if a.Terminal() || g == nil {
		return
	}
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		cl := g.Volumes[alias].Claim(a.Namespace, a.Index(), a.ID)
		cl.AllocID = a.ID
		try(c, "claim "+cl.VolumeID+" for "+a.JobID, csi.VolumeClaim,
			&structs.CSIVolumeClaimRequest{
				NodeID:       a.NodeID,
				Claims:       []*structs.CSIClaim{cl},
				WriteOptions: c.now(),
			})
	}
}
