package scheduler

import (
	"fmt"
	"testing"
	"time"

	"berth/state"
	"berth/structs"
)

// delayOf returns the time after which the only evaluation for later of a plan is due.
func (x *exchange) delayOf(p *structs.Plan) time.Duration {
	x.t.Helper()
	if len(p.Followups) != 1 || p.Followups[0].TriggeredBy != structs.TriggerScheduled {
		x.t.Fatalf("want one evaluation for later: %s", describe(p))
	}
	return time.Unix(0, p.Followups[0].WaitUntil).Sub(x.clock)
}

// Nothing tells when the updates of others come to a stand, so one that waits for them is tried again after
// about a minute, and again if it still waits then.
func TestUpdate_IsTriedAgainWhileItWaitsForOthers(t *testing.T) {
	for name, begin := range map[string]func(x *exchange){
		"for a job that is about to be evaluated": func(x *exchange) {
			x.submit(x.onBoth("b", 2), structs.NewID())
			x.job(x.onBoth("a", 1))
		},
		"for an exchange that is under way": func(x *exchange) {
			x.register(x.onBoth("a", 1))
			x.register(x.onBoth("b", 0))
			x.wantPlaced("b", "1@n1")
			for e := range state.ReadyEvals(x.s.Read()) {
				if e.JobID == "b" {
					x.applyLate(x.process(e)) // it is blocked again
				}
			}
		},
		"for another place of its own": func(x *exchange) {
			x.registerAtOnce(x.onBoth("b", 0), x.onBoth("a", 1))
			x.wantPlaced("a", "1@n2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := crossed(t)
			begin(x)
			live := x.placed("a")
			first := x.process(x.eval("a"))
			delay := x.delayOf(first)
			if delay < retryDelay || delay > retryDelay+17*time.Second {
				t.Errorf("the update is tried again after %v", delay)
			}
			x.applyLate(first)
			if p := x.process(x.eval("a")); len(p.Followups) > 0 {
				t.Errorf("another plan adds one more: %s", describe(p))
			}
			x.clock = x.clock.Add(delay)
			again := x.process(state.Eval(x.s.Read(), first.Followups[0].ID))
			if got := x.delayOf(again); got != delay {
				t.Errorf("it is tried the second time after %v, want %v", got, delay)
			}
			x.wantPlaced("a", live)
		})
	}
}

// An evaluation that the job has for another time does not replace the retry.
func TestUpdate_IsTriedAgainBeforeALaterEvaluation(t *testing.T) {
	x := crossed(t)
	later := x.eval("a")
	later.WaitUntil = x.clock.Add(time.Hour).UnixNano()
	do(x.fixture, state.EvalUpdate, &structs.EvalUpdateRequest{
		Evals:        []*structs.Evaluation{later},
		WriteOptions: x.now(),
	})
	x.submit(x.onBoth("b", 2), structs.NewID())
	x.job(x.onBoth("a", 1))
	if delay := x.delayOf(x.process(x.eval("a"))); delay > 2*retryDelay {
		t.Errorf("the update is tried again after %v", delay)
	}
}

// Updates of different jobs are tried again at different times, so that they do not wait for each other's
// evaluations. The time of a job is the same for all its evaluations: a later one needs no retry of its own.
func TestUpdate_IsTriedAgainApartFromOthers(t *testing.T) {
	x := crossed(t)
	x.registerAtOnce(x.onBoth("b", 0), x.onBoth("a", 1))
	delays := map[time.Duration]bool{}
	for _, id := range []string{"a", "b"} {
		delay := x.delayOf(x.process(x.eval(id)))
		if other := x.delayOf(x.process(x.eval(id))); other != delay {
			t.Errorf("job %s is tried again after %v, and after %v", id, delay, other)
		}
		delays[delay] = true
	}
	if len(delays) != 2 {
		t.Errorf("both jobs are tried again after %v", delays)
	}
}

// Another job is about to be evaluated, and keeps its ports. An update that needs one of them waits for
// capacity alone.
func TestUpdate_IsNotTriedAgainIfOthersDoNotHelp(t *testing.T) {
	x := crossed(t)
	j := x.onBoth("b", 1)
	resourcesOf(j.TaskGroups[0]).CPU = 50
	x.submit(j, structs.NewID())
	x.job(x.onBoth("a", 1))
	p := x.process(x.eval("a"))
	if len(p.Followups) > 0 || len(blockedOn(p)) == 0 {
		t.Errorf("it is tried again, or not blocked: %s", describe(p))
	}
}

// Two updates stop an allocation each, and their plans are always made on one state: each waits for the
// evaluation of the other. Only their retries come at different times.
func TestUpdate_GoesOnAfterOthersThatWaitedForIt(t *testing.T) {
	x := crossed(t)
	x.atOnce = true
	x.registerAtOnce(x.onBoth("b", 0), x.onBoth("a", 1))
	x.settleAt(1)
	x.wantNewest("a", 2)
	x.wantNewest("b", 2)
}

// Two jobs that want each other's ports wait for the room of a third one, too. It ends, and both are
// evaluated on one state: neither plan knows that the other one still has no place. One is tried again.
func TestUpdate_GoesOnAfterOthersThatWaitedWithIt(t *testing.T) {
	x := newExchange(t, "port")
	x.atOnce = true
	large := func(id string, port int) *structs.Job {
		return x.edited(id, structs.JobService, 1, func(g *structs.TaskGroup, _ int) {
			exclusive["port"](g, port)
			resourcesOf(g).CPU = 450
		})
	}
	for i, id := range []string{"a", "b"} {
		x.register(x.version(id, structs.JobService, i))
	}
	x.register(large("c", 2))
	x.settle()
	for i, id := range []string{"a", "b"} {
		x.register(large(id, 1-i))
		x.settle()
		x.wantNewest(id, 0)
	}
	x.stopJob("c")
	x.settle()
	x.checkNewest("a", "b")
}

// Another job is at its pace, and about to be evaluated. An allocation does not stop for one of it that may
// have to stay.
func TestUpdate_IsTriedAgainBesideAnotherAtItsPace(t *testing.T) {
	for _, wave := range []bool{false, true} {
		t.Run(fmt.Sprint("wave ", wave), func(t *testing.T) {
			x := newExchange(t, "port")
			x.late = true
			x.addNode("n2")
			onN2 := func(port int) *structs.Job {
				j := atPace(x.version("a", structs.JobService, port), 1, 1)
				constraints(&structs.Constraint{LTarget: "${node.unique.id}", RTarget: "n2", Operand: "="})(j)
				return j
			}
			x.register(onN2(0))
			x.register(x.onBoth("b", 1))
			x.settle()
			x.register(x.onBoth("b", 0))
			x.runAgents()
			x.scheduleAll()
			x.wantNewest("b", 1)
			e := x.eval("b")
			if wave {
				e.WaitUntil = x.clock.UnixNano() // its time has come
			}
			do(x.fixture, state.EvalUpdate, &structs.EvalUpdateRequest{
				Evals:        []*structs.Evaluation{e},
				WriteOptions: x.now(),
			})
			x.job(onN2(1))
			p := x.process(x.eval("a"))
			if len(p.Stop) > 0 {
				t.Errorf("it stops: %s", describe(p))
			}
			x.delayOf(p)
		})
	}
}
