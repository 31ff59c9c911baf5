package garbage

import (
	"testing"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/test/oneserver"
)

// testEnv is a store with a log of one server.
type testEnv struct {
	t testing.TB
	*oneserver.Log
}

func newTestEnv(t testing.TB) *testEnv { return &testEnv{t, oneserver.NewLog()} }

func put[P any](w *testEnv, c fsm.Command[P], p *P) {
	w.t.Helper()
	oneserver.Put(w.t, w, c, p)
}

func now() structs.WriteOptions {
	return structs.WriteOptions{Now: time.Now().UnixNano()}
}

// addNode adds a node with an instance of the plugin pl.
func (w *testEnv) addNode(id string) {
	w.t.Helper()
	instance := &structs.CSIPluginInstance{
		Kind:   structs.CSIKindNode,
		NodeID: id,
		CSIInfo: structs.CSIInfo{
			PluginID: "pl",
			Provider: "pl.csi",
			Healthy:  true,
		},
	}
	instance.NodeInfo = &structs.CSINodeInfo{ID: "ext-" + id}
	put(w, fsm.NodeRegister, &structs.NodeRegisterRequest{
		CSI: []*structs.CSIPluginInstance{instance},
		Node: &structs.Node{
			ID:       id,
			SecretID: "s",
			Name:     id,
			Status:   structs.NodeReady,
			NodeResources: &structs.NodeResources{
				CPU:    structs.NodeCPUResources{CpuShares: 100000},
				Memory: structs.NodeMemoryResources{MemoryMB: 100000},
				Disk:   structs.NodeDiskResources{DiskMB: 100000},
			},
		},
	})
}

// addAlloc registers a job and places its allocation on the node.
func (w *testEnv) addAlloc(alloc, node string) {
	w.t.Helper()
	job := &structs.Job{ID: "job-" + alloc, TaskGroups: []*structs.TaskGroup{{Name: "g", Count: 1}}}
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{Job: job, WriteOptions: now()})
	put(w, fsm.PlanApply, &structs.Plan{
		WriteOptions:   now(),
		JobModifyIndex: state.Job(w.Store.Read(), "default", job.ID).JobModifyIndex,
		Eval: &structs.Evaluation{
			ID:     "e-" + alloc,
			JobID:  job.ID,
			Status: structs.EvalComplete,
		},
		Place: []*structs.Allocation{{
			ID:        alloc,
			JobID:     job.ID,
			TaskGroup: "g",
			NodeID:    node,
		}},
	})
}

// addClaim places an allocation on the node and has it claim a volume of its own.
func (w *testEnv) addClaim(volume, alloc, node string) {
	w.t.Helper()
	w.addAlloc(alloc, node)
	put(w, fsm.VolumePut, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{{
		ID: volume,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			PluginID:   "pl",
			Name:       "name-" + volume,
			ExternalID: "ext-" + volume,
			RequestedCapabilities: []*structs.CSIVolumeCapability{{
				AccessMode:     structs.CSIMultiNodeMultipleWriter,
				AttachmentMode: structs.CSIFileSystem,
			}},
		},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady},
	}}})
	put(w, fsm.VolumeClaim, &structs.CSIVolumeClaimRequest{
		NodeID: node,
		Claims: []*structs.CSIClaim{{
			VolumeID:       volume,
			AllocID:        alloc,
			Mode:           structs.ClaimWrite,
			AccessMode:     structs.CSIMultiNodeMultipleWriter,
			AttachmentMode: structs.CSIFileSystem,
		}},
	})
	if c := csi.Claim(w.Store.Read(), "default", volume, alloc); c.State != structs.ClaimGranted {
		w.t.Fatalf("the claim of %s waits: %s", alloc, csi.ClaimBlocked(w.Store.Read(), c))
	}
}

func (w *testEnv) endAlloc(id, node string) {
	w.t.Helper()
	put(w, fsm.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		NodeID:       node,
		WriteOptions: now(),
		Allocs:       []*structs.AllocClientUpdate{{ID: id, ClientStatus: structs.AllocComplete}},
	})
}

// check fails the test when the rows contradict each other.
func (w *testEnv) check() {
	w.t.Helper()
	if faults := state.Check(w.Store.Read()); len(faults) != 0 {
		w.t.Error(faults)
	}
}
