package control

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/internal/codec"
	"berth/scheduler"
	"berth/state"
	"berth/structs"
)

// slowLog delays each plan, and records which are in flight together.
type slowLog struct {
	*testEnv
	takes time.Duration

	mu       sync.Mutex
	plans    map[string]*structs.Plan
	most     int
	total    int
	rejected int
	faults   []string
}

func (l *slowLog) Propose(ctx context.Context, entry []byte) (uint64, any, error) {
	if entry[0] != fsm.PlanApply.ID {
		return l.log.Propose(ctx, entry)
	}
	p := new(structs.Plan)
	if err := codec.Decode(entry[1:], p); err != nil {
		return 0, nil, err
	}
	l.begins(p)
	time.Sleep(l.takes)
	l.mu.Lock()
	delete(l.plans, p.Eval.ID)
	l.mu.Unlock()
	index, answer, err := l.log.Propose(ctx, entry)
	if e := l.eval(p.Eval.ID); e != nil && e.Status == structs.EvalPending {
		l.mu.Lock()
		l.rejected++
		l.mu.Unlock()
	}
	return index, answer, err
}

func (l *slowLog) inFlightCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.plans)
}

func (l *slowLog) begins(p *structs.Plan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tx := l.Store.Read()
	volumes := func(e *structs.Evaluation) bool {
		return usesVolumes(tx, state.Job(tx, e.Namespace, e.JobID))
	}
	for _, other := range l.plans {
		a, b := other.Eval, p.Eval
		if a.JobID == b.JobID &&
			(a.Type != structs.JobSystem || a.NodeID == "" || b.NodeID == "" ||
				a.NodeID == b.NodeID) {
			l.faults = append(l.faults, fmt.Sprintf("two plans of %s: of nodes %q and %q", a.JobID,
				a.NodeID, b.NodeID))
		}
		if volumes(a) && volumes(b) {
			l.faults = append(l.faults, fmt.Sprintf("plans of %s and %s, which use volumes", a.JobID, b.JobID))
		}
	}
	l.plans[p.Eval.ID] = p
	l.most, l.total = max(l.most, len(l.plans)), l.total+1
}

// withSlowLog runs a test with a log that takes a second for each plan.
func withSlowLog(t *testing.T, test func(t *testing.T, w *testEnv, l *slowLog)) {
	virtual(t, func(t *testing.T, w *testEnv) {
		l := &slowLog{
			testEnv: w,
			takes:   time.Second,
			plans:   map[string]*structs.Plan{},
		}
		w.Proposer = l
		test(t, w, l)
		for _, f := range l.faults {
			t.Error(f)
		}
	})
}

// until waits for a condition and returns the time that it took.
func (w *testEnv) until(what string, ok func(tx *state.ReadTx) bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	for !ok(w.Store.Read()) {
		after(100 * time.Millisecond)
		if time.Since(began) > time.Hour {
			w.t.Fatalf("condition not met: %s", what)
		}
	}
	return time.Since(began)
}

func nothingReady(tx *state.ReadTx) bool {
	for range state.ReadyEvals(tx) {
		return false
	}
	return true
}

// Many plans wait for the log once.
func TestSchedule_HasPlansOfDifferentJobsInFlight(t *testing.T) {
	withSlowLog(t, func(t *testing.T, w *testEnv, l *slowLog) {
		const jobs = 200
		for i := range 10 {
			w.addSizedNode(fmt.Sprint("n", i), 100, nil)
		}
		for i := range jobs {
			w.addJob(fmt.Sprint("j", i), 1, 100)
		}
		stop := w.runLoop("schedule")
		defer stop()
		took := w.until("all are placed", nothingReady)
		if n := len(w.runningAllocs()); n != jobs {
			t.Errorf("%d of %d jobs run", n, jobs)
		}
		t.Logf("%d plans in %s, at most %d in flight", l.total, took, l.most)
		if took > jobs/8*time.Second || l.most != mostInFlight {
			t.Errorf("%d plans of a second each in %s, at most %d in flight", l.total, took, l.most)
		}
		w.check()
	})
}

// Plans conflict if they are of one job, or of jobs that use volumes.
func TestSchedule_ProposesConflictingPlansOneByOne(t *testing.T) {
	withSlowLog(t, func(t *testing.T, w *testEnv, l *slowLog) {
		stop := w.runLoop("schedule")
		defer stop()
		w.addVolume(aVolume("v", structs.VolumeReady))
		storage := func(j *structs.Job) {
			j.TaskGroups[0].Volumes = map[string]*structs.VolumeRequest{"v": {
				Name:           "v",
				Type:           structs.VolumeTypeCSI,
				Source:         "v",
				AccessMode:     structs.CSISingleNodeWriter,
				AttachmentMode: structs.CSIFileSystem,
			}}
		}
		system := func(j *structs.Job) { j.Type = structs.JobSystem }
		w.addJob("csi", 1, 10, system)
		for i := range 30 {
			w.addSizedNode(fmt.Sprint("n", i), 20, nil)
			w.addJob(fmt.Sprint("j", i%5), 1+i%4, 100)
			w.addJob(fmt.Sprint("s", i%5), 1+i%4, 100, storage)
			if i%7 == 0 {
				w.addJob("csi", 1, 10+i, system)
			}
			after(300 * time.Millisecond)
		}
		w.until("all is done", nothingReady)
		for i := range 5 {
			n, want := 0, state.Job(w.Store.Read(), "default", fmt.Sprint("j", i)).TaskGroups[0].Count
			for _, a := range w.runningAllocs() {
				if a.JobID == fmt.Sprint("j", i) {
					n++
				}
			}
			if n != want {
				t.Errorf("j%d: %d run, want %d", i, n, want)
			}
		}
		if l.most < 3 {
			t.Errorf("at most %d plans in flight: the test shows nothing", l.most)
		}
		w.checkIdle("after")
	})
}

// A plan of a service may place allocations of an earlier version, which has volumes.
func TestSchedule_ProposesPlansOfFormerUsersOfVolumesOneByOne(t *testing.T) {
	withSlowLog(t, func(t *testing.T, w *testEnv, l *slowLog) {
		w.addSizedNode("n", 20, nil)
		storage := func(j *structs.Job) {
			j.TaskGroups[0].Volumes = map[string]*structs.VolumeRequest{"v": {
				Name:           "v",
				Type:           structs.VolumeTypeCSI,
				Source:         "v",
				AccessMode:     structs.CSISingleNodeWriter,
				AttachmentMode: structs.CSIFileSystem,
			}}
		}
		w.addJob("former", 1, 100, storage)
		w.addJob("former", 1, 100)
		w.addJob("other", 1, 100, storage)
		stop := w.runLoop("schedule")
		defer stop()
		w.until("all is done", nothingReady)
		if l.most != 1 {
			t.Errorf("%d plans in flight, want one after the other", l.most)
		}
	})
}

// Plans for different nodes of one system job would each place the last allocation that a limit allows.
func TestSchedule_KeepsALimitOverTheNodesOfASystemJob(t *testing.T) {
	withSlowLog(t, func(t *testing.T, w *testEnv, _ *slowLog) {
		stop := w.runLoop("schedule")
		defer stop()
		w.addJob("log", 1, 10, func(j *structs.Job) {
			j.Type = structs.JobSystem
			j.Constraints = append(j.Constraints, &structs.Constraint{
				LTarget: "${node.datacenter}",
				RTarget: "3",
				Operand: structs.ConstraintDistinctProperty,
			})
		})
		w.addSizedNode("a", 20, nil)
		w.addSizedNode("b", 20, nil)
		w.until("two allocations are placed", nothingReady)
		for i := range 6 { // each plan prefers the node that came last
			w.addSizedNode(fmt.Sprint("n", 6-i), 20, nil)
			after(300 * time.Millisecond)
		}
		w.until("all is done", nothingReady)
		if n := len(w.runningAllocs()); n != 3 {
			t.Errorf("%d allocations run, want 3", n)
		}
	})
}

// No plan gets more capacity than a node has.
func TestSchedule_RepeatsPlansThatDoNotFitAnyMore(t *testing.T) {
	withSlowLog(t, func(t *testing.T, w *testEnv, l *slowLog) {
		for i := range 4 {
			w.addSizedNode(fmt.Sprint("n", i), 5, nil)
		}
		for i := range 40 {
			w.addJob(fmt.Sprint("j", i), 1, 100)
		}
		stop := w.runLoop("schedule")
		defer stop()
		w.until("all is done", nothingReady)
		if n := len(w.runningAllocs()); n != 20 {
			t.Errorf("%d allocations run, want 20", n)
		}
		if l.rejected == 0 {
			t.Error("no plan was rejected: the test shows nothing")
		}
		t.Logf("%d plans, %d rejected", l.total, l.rejected)
		if waiting := w.checkIdle("after"); waiting != 20 {
			t.Errorf("%d evaluations wait", waiting)
		}
	})
}

func TestSchedule_StopWaitsForPlansInFlight(t *testing.T) {
	withSlowLog(t, func(t *testing.T, w *testEnv, l *slowLog) {
		w.addSizedNode("n", 100, nil)
		for i := range 50 {
			w.addJob(fmt.Sprint("j", i), 1, 100)
		}
		stop := w.schedule(scheduler.Process)
		synctest.Wait()
		if n := l.inFlightCount(); n != mostInFlight {
			t.Errorf("%d plans in flight", n)
		}
		stop()
		if n := l.inFlightCount(); n != 0 {
			t.Errorf("%d evaluations remain", n)
		}
		stop = w.schedule(scheduler.Process)
		w.until("all is done", nothingReady)
		stop()
		if n := len(w.runningAllocs()); n != 50 {
			t.Errorf("%d allocations run", n)
		}
	})
}

// A plan for more nodes than one log entry may have is several entries. Once the evaluation has changed, the
// rest of the plan is left out, and the evaluation is planned again.
func TestSchedule_ProposesTheRestOfAPlan(t *testing.T) {
	for name, change := range map[string]string{"": "", "after a change": structs.EvalChanged} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				planned := 0
				stop := w.schedule(func(
					tx *state.ReadTx, e *structs.Evaluation, now time.Time,
				) (*structs.Plan, error) {
					planned++
					p, err := completes(tx, e, now)
					if planned > 1 {
						return p, err
					}
					first := p.Eval.Copy()
					first.Status = structs.EvalPending
					first.Again = cmp.Or(change, structs.EvalMore)
					second := p.Eval.Copy()
					second.StatusDescription = "the rest"
					return &structs.Plan{Eval: first, Rest: []*structs.Plan{{Eval: second}}}, err
				})
				defer stop()
				w.addEval(&structs.Evaluation{ID: "e1", Status: structs.EvalPending})
				after(time.Minute)
				e := w.eval("e1")
				rest := e.StatusDescription == "the rest"
				if e.Status != structs.EvalComplete || rest != (change == "") || (planned > 1) != (change != "") {
					t.Errorf("the evaluation is %s (%s) after %d plans", e.Status, e.StatusDescription, planned)
				}
			})
		})
	}
}

// leadershipContext counts the contexts that have to end with it.
type leadershipContext struct {
	context.Context
	end      chan struct{}
	children int
}

func (c *leadershipContext) Done() <-chan struct{} { return c.end }

// AfterFunc is called by package context for each child.
func (c *leadershipContext) AfterFunc(func()) (stop func() bool) {
	c.children++
	drop := sync.OnceFunc(func() { c.children-- })
	return func() bool { drop(); return true }
}

// A leadership may last for months, and the loop waits many times a second.
func TestAwaitChange_LeavesNothingInTheContextOfTheLeadership(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		ctx := &leadershipContext{Context: context.Background(), end: make(chan struct{})}
		s := &scheduling{scheduleLoop: scheduleLoop{Deps: w.Deps}, inFlight: &inFlight{}}
		for range 3 {
			s.awaitChange(ctx, w.Store.ReadWatched(), time.Now().Add(time.Second))
		}
		if ctx.children > 0 {
			t.Errorf("3 waits have left %d contexts", ctx.children)
		}
	})
}
