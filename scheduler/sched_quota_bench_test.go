package scheduler

import (
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"berth/bench/shape"
	"berth/state"
	"berth/state/namespace"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/quota"
)

// quotaNodes is the number of nodes in BenchmarkSchedQuota.
const quotaNodes = 1000

// BenchmarkSchedQuota compares the placement of jobs in a namespace with a quota of many bounds to that in
// one without a quota: from the entry of the job to that of its last plan. Both take turns in each round. A
// figure is the ratio of the cheapest rounds, because other users of a machine only slow it down: the speed
// beside that without a quota, by the clock and by the time of the processor.
func BenchmarkSchedQuota(b *testing.B) {
	for _, work := range shape.SchedWorks() {
		b.Run(work.Name, func(b *testing.B) {
			var without, with quotaSide
			for round := 0; b.Loop(); round++ {
				turns := []*quotaSide{&without, &with}
				if round%2 == 1 {
					slices.Reverse(turns)
				}
				for _, side := range turns {
					side.place(b, work, side == &with)
				}
			}

			b.ReportMetric(0, "ns/op")
			each := float64(1000 * work.Allocations(quotaNodes))
			b.ReportMetric(float64(slices.Min(without.wall))/each, "off-µs")
			b.ReportMetric(float64(slices.Min(without.wall))/float64(slices.Min(with.wall)), "quota-speed")
			b.ReportMetric(float64(slices.Min(without.cpu))/float64(slices.Min(with.cpu)), "quota-cpu-speed")
		})
	}
}

// quotaSide has the times of the rounds of one side.
type quotaSide struct{ wall, cpu []time.Duration }

// place measures how long a new store takes to place the jobs of a work.
func (q *quotaSide) place(b *testing.B, work shape.SchedWork, bounded bool) {
	s := &schedStore{b: b, s: state.New()}
	s.fill(0, quotaNodes)
	if bounded {
		s.nameQuota()
	}

	runtime.GC() // the garbage of another round does not belong to this one
	start := time.Now()
	before := cpuTime()
	for i := range work.Jobs {
		s.place(schedJob(work, i), i)
	}
	q.cpu = append(q.cpu, cpuTime()-before)
	q.wall = append(q.wall, time.Since(start))

	placed, _ := s.count()
	if want := work.Allocations(quotaNodes); placed != want {
		b.Fatalf("%d allocations are placed, want %d", placed, want)
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it cannot fail
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// nameQuota gives the default namespace a quota that has place for everything.
func (s *schedStore) nameQuota() {
	const most = 1 << 30
	spec := &quota.Spec{Name: "team", Limits: []*quota.Limit{{
		Region: structs.DefaultRegion,
		RegionLimit: &quota.Bounds{
			CPU:         most,
			MemoryMB:    most,
			MemoryMaxMB: most,
			Allocations: most,
			Devices:     []*quota.DeviceBound{{Name: "gpu", Count: most}},
			Storage:     &quota.StorageBound{Volumes: most},
		},
	}}}
	s.write(func(tx *state.WriteTx) error { return namespace.QuotaPut(tx, &quota.SpecPutRequest{Quota: spec}) })
	s.write(func(tx *state.WriteTx) error {
		return namespace.Apply(tx, &cluster.NamespaceApplyRequest{
			Definition: &cluster.Namespace{Name: structs.DefaultNamespace, Quota: spec.Name},
		})
	})
}
