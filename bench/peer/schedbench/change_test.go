package schedbench

import (
	"testing"
	"time"

	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/scheduler"

	"berth/bench/peer/shape"
)

// The sizes of the changes: see bench/shape of berth's module.
const (
	updated = 10_000
	drains  = 100
	drained = 5000
	volumes = 1000
)

// benchChange measures a change of a store that prepare has filled, for each of the allocations that live
// after it.
func benchChange(
	b *testing.B, prepare func() *scheduler.Harness, change func(*scheduler.Harness), want int,
) {
	var clock, cpu time.Duration
	for b.Loop() {
		h := prepare()
		began := time.Now()
		cpuBegan := cpuTime()
		change(h)
		clock += time.Since(began)
		cpu += cpuTime() - cpuBegan
		if placed, _ := count(b, h); placed != want {
			b.Fatalf("%d allocations live, want %d", placed, want)
		}
	}
	units := float64(want * b.N)
	b.ReportMetric(float64(clock)/units, "ns/unit")
	b.ReportMetric(float64(cpu)/units, "cpu-ns/unit")
}

func service(count int) *structs.Job {
	return job(work{"service", structs.JobTypeService, 1, count}, 0)
}

// BenchmarkSchedUpdate replaces all allocations of a service.
func BenchmarkSchedUpdate(b *testing.B) {
	prepare := func() *scheduler.Harness {
		h := fleet(b, 5000)
		place(b, h, service(updated), 0)
		return h
	}
	change := func(h *scheduler.Harness) {
		j := service(updated)
		j.TaskGroups[0].Tasks[0].Config = map[string]any{"command": "/bin/false"}
		place(b, h, j, 1)
	}
	benchChange(b, prepare, change, updated)
}

// BenchmarkSchedDrain moves all allocations from the nodes that drain to others.
func BenchmarkSchedDrain(b *testing.B) {
	j := service(drained)
	moved := map[string]*structs.DesiredTransition{}
	prepare := func() *scheduler.Harness {
		h := fleet(b, drains)
		place(b, h, j, 0)
		register(b, h, drains, 1000, shape.BareNode)
		clear(moved)
		rows, err := h.State.Allocs(nil, false)
		check(b, err)
		for r := rows.Next(); r != nil; r = rows.Next() {
			yes := true
			moved[r.(*structs.Allocation).ID] = &structs.DesiredTransition{Migrate: &yes}
		}
		return h
	}
	change := func(h *scheduler.Harness) {
		for i := range drains {
			check(b, h.State.UpdateNodeDrain(structs.NodeUpdateDrainRequestType, h.NextIndex(), shape.NodeID(i),
				&structs.DrainStrategy{}, false, 0, nil, nil, ""))
		}
		check(b, h.State.UpdateAllocsDesiredTransitions(structs.AllocUpdateDesiredTransitionRequestType,
			h.NextIndex(), moved, nil))
		process(b, h, j, 1)
	}
	benchChange(b, prepare, change, drained)
}

// BenchmarkSchedVolumes places jobs with a volume each.
func BenchmarkSchedVolumes(b *testing.B) {
	prepare := func() *scheduler.Harness {
		h := scheduler.NewHarness(b)
		h.OptimizePlan(true)
		register(b, h, 0, 1000, func(i int) *structs.Node { return shape.Node(i, 0) })
		for i := range volumes {
			check(b, h.State.UpsertCSIVolume(h.NextIndex(), []*structs.CSIVolume{shape.Volume(i)}))
		}
		return h
	}
	change := func(h *scheduler.Harness) {
		for i := range volumes {
			j := job(work{"volume", structs.JobTypeService, volumes, 1}, i)
			j.TaskGroups[0].Volumes = map[string]*structs.VolumeRequest{"data": {
				Name:           "data",
				Type:           structs.VolumeTypeCSI,
				Source:         shape.VolID(i),
				AccessMode:     structs.CSIVolumeAccessModeSingleNodeWriter,
				AttachmentMode: structs.CSIVolumeAttachmentModeFilesystem,
			}}
			place(b, h, j, i)
		}
	}
	benchChange(b, prepare, change, volumes)
}
