package scheduler

import (
	"fmt"
	"testing"

	"berth/bench/shape"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/test/kit"
)

// benchChange measures a change of a store that prepare has filled, for each of the allocations that live
// after it.
func benchChange(b *testing.B, prepare, change func(s *schedStore), want int) {
	m := kit.BeginMeter(b)
	for b.Loop() {
		m.Pause()
		s := &schedStore{b: b, s: state.New()}
		prepare(s)
		m.Resume()
		change(s)
		m.Pause()
		if placed, _ := s.count(); placed != want {
			b.Fatalf("%d allocations live, want %d", placed, want)
		}
		m.Resume()
		m.Round()
	}
	m.End(want)
}

// schedService returns a service whose allocations are replaced all at once.
func schedService(count int) *structs.Job {
	j := schedJob(shape.SchedWork{Name: "service", Type: structs.JobService, Count: count}, 0)
	j.TaskGroups[0].Update = &structs.UpdateStrategy{}
	return j
}

// BenchmarkSchedUpdate replaces all allocations of a service.
func BenchmarkSchedUpdate(b *testing.B) {
	prepare := func(s *schedStore) {
		s.fill(0, 5000)
		s.place(schedService(shape.SchedUpdated), 0)
	}
	change := func(s *schedStore) {
		j := schedService(shape.SchedUpdated)
		j.TaskGroups[0].Tasks[0].Config = map[string]any{"command": "/bin/false"}
		s.place(j, 1)
	}
	benchChange(b, prepare, change, shape.SchedUpdated)
}

// BenchmarkSchedDrain moves all allocations from the nodes that drain to others.
func BenchmarkSchedDrain(b *testing.B) {
	var moved []string
	job := schedService(shape.SchedDrained)
	prepare := func(s *schedStore) {
		s.fill(0, shape.SchedDrains)
		s.place(job, 0)
		s.fill(shape.SchedDrains, 1000)
		moved = nil
		for a := range state.AllocsFrom(s.s.Read(), structs.AllNamespaces, "", state.Page{}) {
			moved = append(moved, a.ID)
		}
	}
	change := func(s *schedStore) {
		for i := range shape.SchedDrains {
			s.write(func(tx *state.WriteTx) error {
				return state.NodeDrain(tx, &structs.NodeDrainRequest{
					NodeID:    shape.UUID("node", i),
					DrainSpec: &structs.DrainSpec{},
				})
			})
		}
		e := schedEval(job, 1)
		s.write(func(tx *state.WriteTx) error {
			return state.AllocsMigrate(tx, &structs.AllocsMigrateRequest{AllocIDs: moved})
		})
		s.write(func(tx *state.WriteTx) error {
			return state.EvalUpdate(tx, &structs.EvalUpdateRequest{Evals: []*structs.Evaluation{e}})
		})
		s.complete(e)
	}
	benchChange(b, prepare, change, shape.SchedDrained)
}

// BenchmarkSchedVolumes places jobs with a volume each.
func BenchmarkSchedVolumes(b *testing.B) {
	work := shape.SchedWork{Name: "volume", Type: structs.JobService, Count: 1}
	prepare := func(s *schedStore) {
		const nodes = 1000
		s.fill(0, nodes)
		s.runPlugin(nodes)
		for i := range shape.SchedVolumes {
			v := shape.Volume(shape.VolumeID(i), i)
			s.write(func(tx *state.WriteTx) error {
				return csi.VolumePut(tx, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
			})
		}
	}
	change := func(s *schedStore) {
		for i := range shape.SchedVolumes {
			j := schedJob(work, i)
			j.TaskGroups[0].Volumes = map[string]*structs.VolumeRequest{"data": {
				Name:           "data",
				Type:           structs.VolumeTypeCSI,
				Source:         shape.VolumeID(i),
				AccessMode:     structs.CSISingleNodeWriter,
				AttachmentMode: structs.CSIFileSystem,
			}}
			s.place(j, i)
		}
	}
	benchChange(b, prepare, change, shape.SchedVolumes)
}

// runPlugin places the plugin on each of n nodes, and reports that it is healthy there.
func (s *schedStore) runPlugin(n int) {
	j := schedJob(shape.SchedWork{Name: "plugin", Type: structs.JobSystem, Count: 1}, 0)
	j.TaskGroups[0].Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{
		ID:   shape.Plugin,
		Type: structs.CSIPluginNode,
	}
	s.place(j, shape.SchedVolumes)
	runner := map[string]string{} // by node
	for a := range state.AllocsByJob(s.s.Read(), j.Namespace, j.ID) {
		runner[a.NodeID] = a.ID
	}
	for i := range n {
		half := shape.Instance(shape.Plugin, i, 0)
		half.AllocID = runner[half.NodeID]
		s.write(func(tx *state.WriteTx) error {
			return state.NodeUpdateCSI(tx, &structs.NodeUpdateCSIRequest{
				NodeID:  half.NodeID,
				Upserts: []*structs.CSIPluginInstance{half},
			})
		})
	}
}

// BenchmarkSchedSizes is BenchmarkSched on the largest fleet, which the peer's benchmark lacks.
func BenchmarkSchedSizes(b *testing.B) { eachSize(b, benchSched) }

// BenchmarkPlanApplySizes is BenchmarkPlanApply on the fleets of BenchmarkSchedSizes.
func BenchmarkPlanApplySizes(b *testing.B) { eachSize(b, benchPlanApply) }

// eachSize runs a benchmark for each work on a small fleet and on the largest.
func eachSize(b *testing.B, bench func(*testing.B, shape.SchedWork, int)) {
	for _, w := range shape.SchedWorks() {
		for _, n := range []int{1000, 100_000} {
			b.Run(fmt.Sprintf("%s/N=%d", w.Name, n), func(b *testing.B) { bench(b, w, n) })
		}
	}
}
