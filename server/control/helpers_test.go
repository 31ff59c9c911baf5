package control

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/fsm"
	"berth/internal/boottime"
	"berth/server/control/garbage"
	"berth/server/control/loop"
	"berth/server/leases"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/test/oneserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testEnv is a store with a log of one server and nodes that answer as the test demands.
type testEnv struct {
	Deps
	t       testing.TB
	log     *oneserver.Log
	offline bool // the plugin's controllers expand offline

	mu      sync.Mutex
	calls   []nodeCall
	running map[string]int // by volume or plugin
	most    map[string]int
	answer  func(c nodeCall) (answer any, err error)
}

// nodeCall is one call to a node.
type nodeCall struct {
	node, method string
	req          any
}

func newTestEnv(t testing.TB) *testEnv {
	w := &testEnv{
		t:       t,
		log:     oneserver.NewLog(),
		running: map[string]int{},
		most:    map[string]int{},
	}
	config := DefaultConfig()
	config.Leases.TTL = 10 * time.Second
	config.Leases.Grace = 10 * time.Second
	config.GCInterval = 5 * time.Minute
	config.GCKeep = garbage.Thresholds{
		Eval: time.Hour,
		Job:  4 * time.Hour,
		Node: 24 * time.Hour,
	}
	w.Deps = Deps{
		Common: loop.Common{
			Store:    w.log.Store,
			Proposer: w.log,
			Nodes:    w,
			Logger:   hclog.NewNullLogger(),
		},
		Config: config,
		Term:   1,
	}
	w.Leases = leases.New(w.Config.Leases, boottime.Monotonic())
	return w
}

func (w *testEnv) Call(ctx context.Context, node, method string, req, resp any) error {
	c := nodeCall{node, method, req}
	keys := keysOf(req)
	w.mu.Lock()
	w.calls = append(w.calls, c)
	for _, k := range keys {
		w.running[k]++
		w.most[k] = max(w.most[k], w.running[k])
	}
	answer := w.answer
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, k := range keys {
			w.running[k]--
		}
	}()
	if answer == nil {
		return nil
	}
	got, err := answer(c)
	if err != nil || got == nil {
		return err
	}
	reflect.ValueOf(resp).Elem().Set(reflect.ValueOf(got).Elem())
	return ctx.Err()
}

// keysOf names the volume and the plugin that a call is about.
func keysOf(req any) (keys []string) {
	v := reflect.ValueOf(req).Elem()
	for _, name := range []string{"PluginID", "ExternalID", "Name"} {
		if f := v.FieldByName(name); f.IsValid() && f.String() != "" {
			keys = append(keys, name+" "+f.String())
		}
	}
	return keys
}

func (w *testEnv) called(method string) (out []nodeCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if c.method == method {
			out = append(out, c)
		}
	}
	return out
}

func (w *testEnv) setAnswer(fn func(c nodeCall) (any, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = fn
}

func put[P any](w *testEnv, c fsm.Command[P], p *P) {
	w.t.Helper()
	oneserver.Put(w.t, w.log, c, p)
}

// runLoop runs a loop until stop, which waits for its end.
func (w *testEnv) runLoop(name string) (stop func()) {
	w.t.Helper()
	all := Loops(w.Deps)
	i := slices.IndexFunc(all, func(l Loop) bool {
		return l.Name == name
	})
	if i < 0 {
		w.t.Fatalf("no loop %s", name)
	}
	return start(all[i].Run)
}

func start(run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); run(ctx) }()
	return func() { cancel(); <-ended }
}

// virtual runs a test in virtual time.
func virtual(t *testing.T, test func(t *testing.T, w *testEnv)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, newTestEnv(t))
	})
}

// after lets virtual time pass and everything that is due happen.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *testEnv) addNode(id string, controller bool) {
	w.t.Helper()
	info := structs.CSIInfo{
		PluginID:                 "pl",
		Provider:                 "pl.csi",
		Healthy:                  true,
		RequiresControllerPlugin: true,
	}
	instances := []*structs.CSIPluginInstance{{
		Kind:    structs.CSIKindNode,
		NodeID:  id,
		CSIInfo: info,
	}}
	instances[0].NodeInfo = &structs.CSINodeInfo{ID: "ext-" + id}
	if controller {
		c := &structs.CSIPluginInstance{
			Kind:    structs.CSIKindController,
			NodeID:  id,
			CSIInfo: info,
		}
		c.ControllerInfo = &structs.CSIControllerInfo{
			SupportsCreateDelete: true,
			SupportsAttachDetach: true,
			SupportsExpand:       true,

			SupportsCreateDeleteSnapshot: true,
		}
		c.ExpandsOffline = w.offline
		instances = append(instances, c)
	}
	put(w, fsm.NodeRegister, &structs.NodeRegisterRequest{
		CSI: instances,
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

// addClaim places an allocation on the node and has it claim the volume.
func (w *testEnv) addClaim(volume, alloc, node string) {
	w.t.Helper()
	w.addAlloc(alloc, node)
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

func (w *testEnv) addAlloc(alloc, node string, tasks ...*structs.Task) {
	w.t.Helper()
	group := &structs.TaskGroup{Name: "g", Count: 1, Tasks: tasks}
	job := &structs.Job{ID: "job-" + alloc, TaskGroups: []*structs.TaskGroup{group}}
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{Job: job, WriteOptions: now()})
	stored := state.Job(w.Store.Read(), "default", job.ID)
	put(w, fsm.PlanApply, &structs.Plan{
		WriteOptions:   now(),
		JobModifyIndex: stored.JobModifyIndex,
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

func (w *testEnv) endAlloc(id, node string) {
	w.t.Helper()
	put(w, fsm.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		NodeID:       node,
		WriteOptions: structs.WriteOptions{Now: time.Now().UnixNano()},
		Allocs:       []*structs.AllocClientUpdate{{ID: id, ClientStatus: structs.AllocComplete}},
	})
}

func aVolume(id, state string) *structs.CSIVolume {
	v := &structs.CSIVolume{
		ID: id,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			PluginID: "pl",
			Name:     "name-" + id,
			Secrets:  structs.Secrets{"k": "v"},
			RequestedCapabilities: []*structs.CSIVolumeCapability{{
				AccessMode:     structs.CSIMultiNodeMultipleWriter,
				AttachmentMode: structs.CSIFileSystem,
			}},
		},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{State: state},
	}
	if state == structs.VolumeReady {
		v.ExternalID = "ext-" + id
	}
	return v
}

func (w *testEnv) addVolume(v *structs.CSIVolume) {
	w.t.Helper()
	put(w, fsm.VolumePut, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
}

func (w *testEnv) volume(id string) *structs.CSIVolume {
	return csi.Volume(w.Store.Read(), "default", id)
}

func (w *testEnv) attachment(volume, node string) *structs.CSIAttachment {
	return csi.Attachment(w.Store.Read(), "default", volume, node)
}

// check fails the test when the rows contradict each other.
func (w *testEnv) check() {
	w.t.Helper()
	if faults := state.Check(w.Store.Read()); len(faults) != 0 {
		w.t.Error(faults)
	}
}

func now() structs.WriteOptions {
	return structs.WriteOptions{Now: time.Now().UnixNano()}
}

func unavailable() error { return structs.Unavailablef("try again") }

func (w *testEnv) claim(volume, alloc string) *structs.CSIClaim {
	return csi.Claim(w.Store.Read(), "default", volume, alloc)
}
