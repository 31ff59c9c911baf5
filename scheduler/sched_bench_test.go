package scheduler

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"berth/bench/shape"
	"berth/scheduler/place"
	"berth/state"
	"berth/structs"
	"berth/structs/defaults"
	"berth/test/kit"
)

var (
	schedNodes  = flag.Int("sched-nodes", 0, "BenchmarkSched: only fleets of this size; 0 for all")
	schedSample = flag.Int("sched-sample", place.Enough, "BenchmarkSched: feasible nodes of a sample")
)

// BenchmarkSched places the same jobs on the same fleets as the benchmark of this name in
// bench/peer/schedbench, applies all plans, and counts the nodes in use.
func BenchmarkSched(b *testing.B) { eachSched(b, benchSched) }

// eachSched runs a benchmark for each work on each fleet.
func eachSched(b *testing.B, bench func(*testing.B, shape.SchedWork, int)) {
	for _, w := range shape.SchedWorks() {
		for _, n := range shape.SchedFleets {
			if *schedNodes != 0 && *schedNodes != n {
				continue
			}
			b.Run(fmt.Sprintf("%s/N=%d", w.Name, n), func(b *testing.B) { bench(b, w, n) })
		}
	}
}

func benchSched(b *testing.B, work shape.SchedWork, n int) {
	m := kit.BeginMeter(b)
	placed := 0
	used := 0
	for b.Loop() {
		m.Pause()
		s := schedStore{b: b, s: state.New()}
		s.fill(0, n)
		m.Resume()
		for i := range work.Jobs {
			s.place(schedJob(work, i), i)
		}
		m.Pause()
		placed, used = s.count()
		m.Resume()
		m.Round()
	}
	if want := work.Allocations(n); placed != want {
		b.Fatalf("%d allocations are placed, want %d", placed, want)
	}
	m.End(placed)
	b.ReportMetric(float64(used), "nodes")
}

// schedStore is a store that takes the entries of one benchmark.
type schedStore struct {
	b     *testing.B
	s     *state.Store
	index uint64
}

func (s *schedStore) write(fn func(tx *state.WriteTx) error) {
	s.index++
	if err := s.s.Write(s.index, fn); err != nil {
		s.b.Fatal(err)
	}
}

// fill registers nodes in one transaction.
func (s *schedStore) fill(from, to int) {
	batch := s.s.Begin()
	for i := from; i < to; i++ {
		node := shape.Node(i)
		cpu, memory, disk := shape.SchedCapacity(i)
		node.NodeResources = &structs.NodeResources{
			CPU:    structs.NodeCPUResources{CpuShares: int64(cpu)},
			Memory: structs.NodeMemoryResources{MemoryMB: int64(memory)},
			Disk:   structs.NodeDiskResources{DiskMB: int64(disk)},
		}
		s.index++
		err := batch.Apply(s.index, func(tx *state.WriteTx) error {
			r := shape.Register(i, 0)
			r.Node = node
			return state.NodeRegister(tx, r)
		})
		if err != nil {
			s.b.Fatal(err)
		}
	}
	batch.Commit()
}

func schedJob(w shape.SchedWork, i int) *structs.Job {
	cpu, memory := shape.SchedAsk(i)
	j := &structs.Job{
		ID:   fmt.Sprintf("%s-%d", w.Name, i),
		Type: w.Type,
		TaskGroups: []*structs.TaskGroup{{
			Name:          "web",
			Count:         w.Count,
			EphemeralDisk: &structs.EphemeralDisk{SizeMB: shape.SchedDisk},
			Tasks: []*structs.Task{{
				Name:      "server",
				Driver:    "exec",
				Config:    map[string]any{"command": "/bin/true"},
				Resources: &structs.Resources{CPU: cpu, MemoryMB: memory},
			}},
		}},
	}
	defaults.Canonicalize(j)
	return j
}

// place registers a job and applies plans until its evaluation is complete.
func (s *schedStore) place(j *structs.Job, i int) {
	e := schedEval(j, i)
	s.write(func(tx *state.WriteTx) error {
		return state.JobRegister(tx, &structs.JobRegisterRequest{Job: j, Eval: e})
	})
	s.complete(e)
}

func schedEval(j *structs.Job, i int) *structs.Evaluation {
	return &structs.Evaluation{
		ID:          shape.UUID("eval", i),
		Namespace:   j.Namespace,
		JobID:       j.ID,
		Type:        j.Type,
		Priority:    j.Priority,
		TriggeredBy: structs.TriggerJobRegister,
		Status:      structs.EvalPending,
	}
}

// complete applies plans until an evaluation is complete.
func (s *schedStore) complete(e *structs.Evaluation) {
	for e.Status == structs.EvalPending {
		tx := s.s.Read()
		plan, err := process(tx, state.Eval(tx, e.ID), time.Unix(1, 0), options{enough: *schedSample})
		if err != nil {
			s.b.Fatal(err)
		}
		e = s.apply(plan)
	}
}

// apply applies a plan and its rest, and returns the evaluation.
func (s *schedStore) apply(plan *structs.Plan) *structs.Evaluation {
	for _, part := range append([]*structs.Plan{plan}, plan.Rest...) {
		part.Eval.ModifyIndex = state.Eval(s.s.Read(), part.Eval.ID).ModifyIndex
		s.write(func(tx *state.WriteTx) error { return state.PlanApply(tx, part) })
	}
	return state.Eval(s.s.Read(), plan.Eval.ID)
}

// count counts the live allocations but those of plugins, and their nodes.
func (s *schedStore) count() (placed, used int) {
	nodes := map[string]bool{}
	for a := range state.AllocsFrom(s.s.Read(), structs.AllNamespaces, "", state.Page{}) {
		if a.Terminal() || len(a.CSIPlugins) > 0 {
			continue
		}
		placed++
		nodes[a.NodeID] = true
	}
	return placed, len(nodes)
}
