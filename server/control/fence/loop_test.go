package fence

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/fsm"
	"berth/server/control/loop"
	"berth/server/fencing"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/oneserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testCluster is a log with the state of the servers: n1 is down and has the volumes "fenced" and "held", for
// which jobs wait at n2.
type testCluster struct {
	t *testing.T
	*oneserver.Log
}

func propose[P any](c *testCluster, command fsm.Command[P], p *P) {
	c.t.Helper()
	oneserver.Put(c.t, c, command, p)
	for _, fault := range state.Check(c.Store.Read()) {
		c.t.Error(fault)
	}
}

func newCluster(t *testing.T) *testCluster {
	c := &testCluster{t, oneserver.NewLog()}
	propose(c, fsm.LeaseBoundSet, &cluster.LeaseBoundRequest{Longest: time.Second})
	for i := range 3 {
		c.register(fmt.Sprint("n", i+1))
	}
	for _, v := range []string{"fenced", "held"} {
		row := &structs.CSIVolume{
			ID: v, Namespace: structs.DefaultNamespace,
			CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p", ExternalID: "ext-" + v},
		}
		if v == "fenced" {
			row.OnNodeLoss = structs.LossFence
		}
		propose(c, fsm.VolumePut, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{row}})
		c.use(v, "n1")
		c.use(v, "n2")
	}
	c.down("n1")
	return c
}

func (c *testCluster) register(id string) {
	c.t.Helper()
	propose(c, fsm.NodeRegister, &structs.NodeRegisterRequest{
		Node: &structs.Node{ID: id, Name: id, SecretID: id, Status: structs.NodeReady},
		CSI: []*structs.CSIPluginInstance{{
			Kind:    structs.CSIKindNode,
			CSIInfo: structs.CSIInfo{PluginID: "p", Healthy: true, NodeInfo: &structs.CSINodeInfo{ID: "x-" + id}},
		}},
	})
}

func (c *testCluster) down(id string) {
	c.t.Helper()
	p := &structs.NodeStatusUpdate{NodeIDs: []string{id}, Status: structs.NodeDown}
	p.Now = time.Now().UnixNano()
	propose(c, fsm.NodeStatus, p)
}

// use places an allocation that uses a volume, and claims the volume for it.
func (c *testCluster) use(volume, node string) {
	c.t.Helper()
	job := &structs.Job{
		ID:         volume + "-" + node,
		Namespace:  structs.DefaultNamespace,
		Type:       structs.JobService,
		Priority:   50,
		TaskGroups: []*structs.TaskGroup{{Name: "g", Count: 1, Tasks: []*structs.Task{{Name: "t", Driver: "exec"}}}},
	}
	propose(c, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
	row := state.Job(c.Store.Read(), job.Namespace, job.ID)
	propose(c, fsm.PlanApply, &structs.Plan{
		JobModifyIndex: row.JobModifyIndex,
		Eval: &structs.Evaluation{
			ID: "eval-" + job.ID, Namespace: job.Namespace, JobID: job.ID, Type: job.Type, Status: structs.EvalComplete,
		},
		Place: []*structs.Allocation{{
			ID: job.ID, Namespace: job.Namespace, JobID: job.ID, JobVersion: row.Version, TaskGroup: "g",
			Name: structs.AllocName(job.ID, "g", 0), NodeID: node,
		}},
	})
	propose(c, fsm.VolumeClaim, &structs.CSIVolumeClaimRequest{Claims: []*structs.CSIClaim{{
		Namespace:      structs.DefaultNamespace,
		VolumeID:       volume,
		AllocID:        job.ID,
		Mode:           structs.ClaimWrite,
		AccessMode:     structs.CSISingleNodeWriter,
		AttachmentMode: structs.CSIFileSystem,
	}}})
}

// holds returns the volumes that a node holds.
func (c *testCluster) holds(node string) string {
	var held []string
	for _, l := range state.LostClaims(c.Store.Read(), node) {
		held = append(held, l.VolumeID)
	}
	slices.Sort(held)
	return strings.Join(held, " ")
}

// runs returns the runs for n1: device, attempt, state and cause.
func (c *testCluster) runs() (all []string) {
	for _, r := range state.FenceRuns(c.Store.Read(), "n1") {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %d %s %s", r.Device, r.Attempt, r.State, r.Cause)))
	}
	return all
}

func (c *testCluster) wantRuns(want ...string) {
	c.t.Helper()
	if got := c.runs(); !slices.Equal(got, want) {
		c.t.Errorf("the runs are %q, want %q", got, want)
	}
}

// lead runs the loop of a leader. stop ends the leadership, as a crash does.
func (c *testCluster) lead(devices ...*Device) (stop func()) {
	return c.leadParallel(1, devices...)
}

// leadParallel runs the loop of a leader that fences a number of nodes at once.
func (c *testCluster) leadParallel(most int, devices ...*Device) (stop func()) {
	loop := &Loop{
		Common: loop.Common{
			Store:    c.Store,
			Proposer: c,
			Logger:   hclog.NewNullLogger(),
		},
		Now:         time.Now,
		Devices:     devices,
		MaxParallel: most,
	}
	return run(loop.Run)
}

// run runs a loop of a leader until stop.
func run(loop func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		loop(ctx)
	}()
	synctest.Wait()
	return func() {
		cancel()
		<-ended
	}
}

func power(name string, a *agent) *Device {
	return &Device{Name: name, Scope: fencing.ScopePower, Agent: a}
}

// after lets virtual time pass and everything that is due happen.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func virtual(t *testing.T, test func(t *testing.T, c *testCluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		test(t, c)
		for _, fault := range state.Check(c.Store.Read()) {
			t.Error(fault)
		}
	})
}

// agent is a scriptable agent.
type agent struct {
	others bool // it fences none of the nodes
	covers string
	fence  func(ctx context.Context, n *state.FenceTarget) fencing.Result

	mu   sync.Mutex
	runs int
}

func (a *agent) Matches(*state.FenceTarget) string {
	if a.others {
		return "it is another one"
	}
	return ""
}

func (a *agent) Covers(_, _, volume string) bool { return volume == a.covers }

func (a *agent) Fence(ctx context.Context, n *state.FenceTarget) fencing.Result {
	a.mu.Lock()
	a.runs++
	a.mu.Unlock()
	return a.fence(ctx, n)
}

func (a *agent) Monitor(context.Context, *state.FenceTarget) fencing.Result { return fencing.Result{} }

func succeeds(context.Context, *state.FenceTarget) fencing.Result {
	return fencing.Result{Action: "status", ExitCode: 2, Output: "OFF", Proved: true}
}

func fails(context.Context, *state.FenceTarget) fencing.Result {
	return fencing.Result{Action: "off", ExitCode: 1, Output: "no route", Reason: "the agent failed"}
}

func hangs(ctx context.Context, _ *state.FenceTarget) fencing.Result {
	<-ctx.Done()
	return fencing.Result{Action: "off", ExitCode: -1, Proved: true} // nobody believes it
}

func TestLoop_ReleasesAfterTheProof(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		proof := make(chan struct{})
		a := &agent{fence: func(ctx context.Context, n *state.FenceTarget) fencing.Result {
			<-proof
			return succeeds(ctx, n)
		}}
		stop := c.lead(power("ipmi", a))
		defer stop()
		after(time.Minute)
		c.wantRuns("ipmi 1 running")
		if got := c.holds("n1"); got != "fenced held" {
			t.Errorf("n1 holds %q before the proof", got)
		}
		close(proof)
		synctest.Wait()
		c.wantRuns("ipmi 1 proved")
		if got := c.holds("n1") + ", " + c.holds("n2"); got != ", fenced held" {
			t.Errorf("after the proof n1 and n2 hold %q", got)
		}
		after(time.Hour)
		if a.runs != 1 {
			t.Errorf("%d runs, and nobody waits", a.runs)
		}
	})
}

func TestLoop_FencesOnlyForSomebodyThatWaits(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		propose(c, fsm.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{
			{Namespace: structs.DefaultNamespace, VolumeID: "fenced", AllocID: "fenced-n2"},
		}})
		a := &agent{fence: succeeds}
		stop := c.lead(power("ipmi", a))
		defer stop()
		after(time.Hour)
		c.wantRuns() // although a job waits for the volume that holds
		c.use("fenced", "n2")
		after(2 * interval)
		c.wantRuns("ipmi 1 proved")
	})
}

func TestLoop_RetriesWithAGrowingDelay(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		a := &agent{fence: fails}
		b := &agent{fence: fails}
		other := &agent{others: true, fence: succeeds}
		start := time.Now()
		stop := c.lead(power("a", a), power("other", other), power("b", b))
		defer stop()
		after(29 * time.Second)
		c.wantRuns("a 1 failed agent", "b 1 failed agent")
		if run := state.FenceRuns(c.Store.Read(), "n1")[0]; run.Output != "no route" ||
			run.Reason != "the agent failed" || run.ExitCode != 1 || run.NextTry != 0 {
			t.Errorf("the run is recorded as %+v", run)
		}
		var begun []time.Duration
		for range 7 {
			runs := state.FenceRuns(c.Store.Read(), "n1")
			next := time.Unix(0, runs[len(runs)-1].NextTry)
			begun = append(begun, next.Sub(start).Round(10*time.Second))
			after(time.Until(next) + 2*interval)
			start = next
		}
		if got := fmt.Sprint(begun); got != "[30s 1m0s 2m0s 4m0s 8m0s 10m0s 10m0s]" {
			t.Errorf("the delays are %s", got)
		}
		if a.runs != 8 || b.runs != 8 || other.runs != 0 {
			t.Errorf("the devices ran %d, %d and %d times", a.runs, b.runs, other.runs)
		}
	})
}

func TestLoop_RecordsThatNoDeviceMatches(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		elsewhere := &Device{Name: "san", Scope: fencing.ScopeStorage, Agent: &agent{covers: "held"}}
		stop := c.lead(power("ipmi", &agent{others: true}), elsewhere)
		defer stop()
		after(29 * time.Second)
		c.wantRuns("1 failed no-device")
		after(5 * time.Second)
		c.wantRuns("1 failed no-device", "2 failed no-device")
	})
}

// An agent ends with the leadership. The next leader says so and tries the device again.
func TestLoop_ARunEndsWithItsLeader(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		stop := c.lead(power("ipmi", &agent{fence: hangs}))
		after(time.Minute)
		stop()
		c.wantRuns("ipmi 1 running")
		if got := c.holds("n1"); got != "fenced held" {
			t.Errorf("n1 holds %q", got)
		}
		stop = c.lead(power("ipmi", &agent{fence: succeeds}))
		defer stop()
		after(2 * interval)
		c.wantRuns("ipmi 1 failed leader-ended", "ipmi 1 proved")
		if got := c.holds("n1"); got != "" {
			t.Errorf("n1 holds %q", got)
		}
	})
}

// An operator orders the fence of another node. Nobody sees two runs at a time.
func TestLoop_ALeftRunEndsBeforeAnother(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		stop := c.lead(power("ipmi", &agent{fence: hangs}))
		after(time.Minute)
		stop()
		c.down("n3")
		propose(c, fsm.FenceOrdered, &cluster.NodeFenceRequest{NodeID: "n3", By: "ann"})
		stop = c.lead(power("ipmi", &agent{fence: hangs}))
		defer stop()
		after(2 * interval)
		c.wantRuns("ipmi 1 failed leader-ended")
		if runs := state.FenceRuns(c.Store.Read(), "n3"); len(runs) != 1 {
			t.Errorf("%d runs for n3, want one", len(runs))
		}
	})
}

func TestLoop_ARegistrationDuringTheRunVoidsTheProof(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		stop := c.lead(power("ipmi", &agent{fence: func(ctx context.Context, n *state.FenceTarget) fencing.Result {
			c.register("n1")
			return succeeds(ctx, n)
		}}))
		defer stop()
		after(time.Hour)
		c.wantRuns("ipmi 1 void")
		if got := c.holds("n1"); got != "fenced held" {
			t.Errorf("n1 holds %q", got)
		}
	})
}

func TestLoop_RecordsAProofWhenTheLogIsBack(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		a := &agent{fence: succeeds}
		c.Fail(structs.Unavailablef("no quorum"), fsm.FenceEnd.CommandInfo)
		stop := c.lead(power("ipmi", a))
		defer stop()
		after(time.Minute)
		c.wantRuns("ipmi 1 running")
		c.Fail(nil, fsm.FenceEnd.CommandInfo)
		after(time.Minute)
		c.wantRuns("ipmi 1 proved")
		if a.runs != 1 {
			t.Errorf("the agent ran %d times", a.runs)
		}
	})
}

func TestLoop_RunsNothingWithoutARecord(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		a := &agent{fence: succeeds}
		c.Fail(structs.Unavailablef("no quorum"), fsm.FenceBegin.CommandInfo)
		stop := c.lead(power("ipmi", a))
		defer stop()
		after(time.Minute)
		if a.runs != 0 {
			t.Errorf("the agent ran %d times without a row", a.runs)
		}
	})
}

// The servers stop when many nodes are lost together. An operator may order each run.
func TestLoop_StopsForAnOperator(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		c.down("n2")
		c.down("n3")
		a := &agent{fence: succeeds}
		stop := c.lead(power("ipmi", a))
		defer stop()
		after(24 * time.Hour)
		c.wantRuns()
		propose(c, fsm.FenceOrdered, &cluster.NodeFenceRequest{NodeID: "n1", By: "ann"})
		after(2 * interval)
		c.wantRuns("ipmi 1 proved")
		if got := c.holds("n1"); got != "" || a.runs != 1 {
			t.Errorf("n1 holds %q after %d runs", got, a.runs)
		}
		if state.FenceOrder(c.Store.Read(), "n1") != nil {
			t.Error("the order is left")
		}
	})
}

func TestLoop_FencesAsManyNodesAtOnceAsItMay(t *testing.T) {
	for parallel, want := range map[int]int32{0: 1, 1: 1, 2: 2, 3: 3, 9: 3} {
		virtual(t, func(t *testing.T, c *testCluster) {
			for i := range 9 {
				c.register(fmt.Sprint("up", i))
			}
			c.use("fenced", "up1")
			c.down("n2") // they wait for the volume and hold none
			c.down("n3")
			var now, most atomic.Int32
			slow := &agent{fence: func(ctx context.Context, n *state.FenceTarget) fencing.Result {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				time.Sleep(time.Second)
				return succeeds(ctx, n)
			}}
			for _, id := range []string{"n2", "n3"} {
				propose(c, fsm.FenceOrdered, &cluster.NodeFenceRequest{NodeID: id, By: "ann"})
			}
			stop := c.leadParallel(parallel, power("ipmi", slow))
			defer stop()
			after(time.Minute)
			if most.Load() != want {
				t.Errorf("%d at once: %d agents ran at once, want %d", parallel, most.Load(), want)
			}
			for _, id := range []string{"n1", "n2", "n3"} {
				runs := state.FenceRuns(c.Store.Read(), id)
				if len(runs) == 0 || runs[0].State != cluster.FenceProved {
					t.Errorf("%d at once: the runs of %s are %+v", parallel, id, runs)
				}
			}
		})
	}
}

func TestLoop_StorageProofReleasesWhatItCovers(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		san := &Device{Name: "san", Scope: fencing.ScopeStorage, Agent: &agent{covers: "fenced", fence: succeeds}}
		ipmi := &agent{fence: fails}
		stop := c.lead(san, power("ipmi", ipmi))
		defer stop()
		after(2 * interval)
		c.wantRuns("san 1 proved")
		if got := c.holds("n1"); got != "held" || ipmi.runs != 0 {
			t.Errorf("n1 holds %q, and ipmi ran %d times", got, ipmi.runs)
		}
		propose(c, fsm.FenceOrdered, &cluster.NodeFenceRequest{NodeID: "n1", By: "ann"})
		after(2 * interval)
		c.wantRuns("san 1 proved", "ipmi 2 failed agent")
	})
}
