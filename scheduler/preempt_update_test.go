package scheduler

import (
	"testing"
	"time"

	"berth/structs"
)

// Successors that displace others count for the pace of an update like all others.
func TestPreemption_KeepsThePaceOfAnUpdate(t *testing.T) {
	paced := func(j *structs.Job) {
		j.Update = &structs.UpdateStrategy{MaxParallel: 1, Stagger: time.Minute}
	}
	for _, kind := range []string{structs.JobSystem, structs.JobService} {
		t.Run(kind, func(t *testing.T) {
			w := newFixture(t)
			w.preempting()
			w.nodes("n1", "n2", "n3")
			high := func(mhz int) *structs.Job {
				return aJob("high", kind, priority(70), cpu(mhz), func(j *structs.Job) {
					if kind == structs.JobService {
						j.TaskGroups[0].Count = 3
						distinctHosts(j)
					}
				}, paced)
			}
			w.job(high(100))
			w.run("high")
			w.job(aJob("low", structs.JobSystem, priority(20), cpu(850)))
			w.run("low")
			w.clock = w.clock.Add(time.Hour)
			w.job(high(800))
			p := w.process(w.eval("high"))
			w.apply(p)
			w.wantNewest("high", 1)
			if got := w.evicted(); got != "low" {
				t.Errorf("displaced %q: %s", got, describe(p))
			}
			w.apply(w.process(w.eval("high")))
			w.wantNewest("high", 1)
			if kind == structs.JobService {
				return
			}
			batches := w.nextBatches()
			if len(batches) != 1 || batches[0].WaitUntil != w.clock.Add(time.Minute).UnixNano() {
				t.Fatalf("the evaluations that follow: %+v", batches)
			}
			w.clock = w.clock.Add(time.Minute)
			w.apply(w.process(batches[0]))
			w.wantNewest("high", 2)
		})
	}
}

func distinctHosts(j *structs.Job) {
	constraints(&structs.Constraint{Operand: structs.ConstraintDistinctHosts})(j)
}

// A plan stops an allocation of the job itself, and displaces one. Two placements share the capacity of both:
// each names those whose capacity it has, also as the log counts it.
func TestPreemption_SharesTheCapacityOfVictims(t *testing.T) {
	w := newFixture(t)
	w.preempting()
	w.nodes("n1")
	w.job(aJob("high", structs.JobService, priority(50), cpu(300)))
	w.run("high")
	w.job(aJob("low", structs.JobService, priority(20), cpu(700)))
	w.run("low")
	w.job(aJob("high", structs.JobService, priority(50), cpu(500), count(2), func(j *structs.Job) {
		j.TaskGroups[0].Name = "other" // the old group ends
	}))
	w.apply(w.process(w.eval("high")))
	w.wantPlaced("high", "0@n1 1@n1")
}
