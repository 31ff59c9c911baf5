// Package schedbench measures the peer's scheduler with its state store: the work of BenchmarkSched in
// berth's package scheduler.
package schedbench

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/scheduler"

	"berth/bench/peer/shape"
)

// work is the jobs of one benchmark: see bench/shape of berth's module.
type work struct {
	name  string
	typ   string
	jobs  int
	count int
}

var works = []work{
	{"service", structs.JobTypeService, 1, 10_000},
	{"services", structs.JobTypeService, 1000, 10},
	{"system", structs.JobTypeSystem, 1, 1},
	{"batch", structs.JobTypeBatch, 1, 5000},
}

func BenchmarkSched(b *testing.B) {
	for _, w := range works {
		for _, n := range []int{1000, 5000, 10_000} {
			b.Run(fmt.Sprintf("%s/N=%d", w.name, n), func(b *testing.B) { benchSched(b, w, n) })
		}
	}
}

// cpuTime returns the CPU time of the process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchSched(b *testing.B, w work, n int) {
	var clock, cpu time.Duration
	placed := 0
	used := 0
	for b.Loop() {
		h := fleet(b, n)
		jobs := make([]*structs.Job, w.jobs)
		for i := range jobs {
			jobs[i] = job(w, i)
		}
		began := time.Now()
		cpuBegan := cpuTime()
		for i, j := range jobs {
			place(b, h, j, i)
		}
		clock += time.Since(began)
		cpu += cpuTime() - cpuBegan
		placed, used = count(b, h)
	}
	want := w.jobs * w.count
	if w.typ == structs.JobTypeSystem {
		want = n
	}
	if placed != want {
		b.Fatalf("%d allocations are placed, want %d", placed, want)
	}
	units := float64(placed * b.N)
	b.ReportMetric(float64(clock)/units, "ns/unit")
	b.ReportMetric(float64(cpu)/units, "cpu-ns/unit")
	b.ReportMetric(float64(used), "nodes")
}

// fleet returns a store with nodes of three sizes.
func fleet(b *testing.B, n int) *scheduler.Harness {
	h := scheduler.NewHarness(b)
	h.OptimizePlan(true) // as the server does
	register(b, h, 0, n, shape.BareNode)
	return h
}

// register registers nodes.
func register(b *testing.B, h *scheduler.Harness, from, to int, nodeOf func(int) *structs.Node) {
	for i := from; i < to; i++ {
		node := nodeOf(i)
		size := 1 << (i % 3)
		node.NodeResources.Cpu.CpuShares = int64(4000 * size)
		node.NodeResources.Memory.MemoryMB = int64(8192 * size)
		node.NodeResources.Disk.DiskMB = 100 << 10
		check(b, h.State.UpsertNode(structs.NodeRegisterRequestType, h.NextIndex(), node))
	}
}

func job(w work, i int) *structs.Job {
	j := &structs.Job{
		Region:      "global",
		Namespace:   structs.DefaultNamespace,
		ID:          fmt.Sprintf("%s-%d", w.name, i),
		Name:        fmt.Sprintf("%s-%d", w.name, i),
		Type:        w.typ,
		Priority:    50,
		Datacenters: []string{"*"},
		NodePool:    structs.NodePoolDefault,
		TaskGroups: []*structs.TaskGroup{{
			Name:          "web",
			Count:         w.count,
			EphemeralDisk: &structs.EphemeralDisk{SizeMB: 100},
			Tasks: []*structs.Task{{
				Name:   "server",
				Driver: "exec",
				Config: map[string]any{"command": "/bin/true"},
				Resources: &structs.Resources{
					CPU:      100 + 50*(i%8),
					MemoryMB: 128 + 64*(i%6),
				},
				LogConfig: structs.DefaultLogConfig(),
			}},
		}},
	}
	j.Canonicalize()
	return j
}

// place registers a job and processes its evaluation.
func place(b *testing.B, h *scheduler.Harness, j *structs.Job, i int) {
	check(b, h.State.UpsertJob(structs.JobRegisterRequestType, h.NextIndex(), nil, j))
	process(b, h, j, i)
}

// process processes an evaluation of a job.
func process(b *testing.B, h *scheduler.Harness, j *structs.Job, i int) {
	e := &structs.Evaluation{
		ID:          shape.UUID("eval", i),
		Namespace:   j.Namespace,
		Priority:    j.Priority,
		Type:        j.Type,
		TriggeredBy: structs.EvalTriggerJobRegister,
		JobID:       j.ID,
		Status:      structs.EvalStatusPending,
	}
	check(b, h.State.UpsertEvals(structs.EvalUpdateRequestType, h.NextIndex(), []*structs.Evaluation{e}))
	s, err := scheduler.NewScheduler(j.Type, hclog.NewNullLogger(), nil, h.Snapshot(), h)
	check(b, err)
	check(b, s.Process(e))
}

func count(b *testing.B, h *scheduler.Harness) (placed, used int) {
	rows, err := h.State.Allocs(nil, false)
	check(b, err)
	nodes := map[string]bool{}
	for r := rows.Next(); r != nil; r = rows.Next() {
		if r.(*structs.Allocation).TerminalStatus() {
			continue
		}
		placed++
		nodes[r.(*structs.Allocation).NodeID] = true
	}
	return placed, len(nodes)
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
