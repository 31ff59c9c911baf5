package volumes

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"berth/fsm"
	"berth/state"
	"berth/state/csi/drifts"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// driftWorld is a log of one server, with the nodes n0, n1, ... whose plugin "p" answers from a list. The
// plugin knows each node by its ID with "ext-" before it.
type driftWorld struct {
	t       *testing.T
	store   *state.Store
	fsm     *fsm.FSM
	mu      sync.Mutex
	index   uint64
	entries int
	lists   []*nodecalls.ClientCSIListRequest
	asked   []string // IDs of volumes that ControllerGetVolume was asked for
	stop    func()

	list func(req *nodecalls.ClientCSIListRequest) (*nodecalls.ClientCSIListResponse, error)
	get  func(id string) error
}

// newDriftWorld has a controller on each node, which is in a zone of its own if zones is set.
func newDriftWorld(t *testing.T, nodes int, zones bool) *driftWorld {
	store := state.New()
	w := &driftWorld{t: t, store: store, fsm: fsm.New(store), index: 100}
	w.pages(nil)
	for i := range nodes {
		zone := ""
		if zones {
			zone = fmt.Sprint("z", i)
		}
		w.addNode(fmt.Sprint("n", i), zone, &structs.CSIControllerInfo{
			SupportsListVolumes: true, SupportsAttachDetach: true,
		})
	}
	w.stop = func() {}
	return w
}

func (w *driftWorld) addNode(id, zone string, has *structs.CSIControllerInfo) {
	info := structs.CSIInfo{PluginID: "p", Provider: "p.csi", Healthy: true, RequiresControllerPlugin: true}
	half := &structs.CSIPluginInstance{Kind: structs.CSIKindNode, NodeID: id, CSIInfo: info}
	half.NodeInfo = &structs.CSINodeInfo{ID: "ext-" + id}
	if zone != "" {
		half.NodeInfo.AccessibleTopology = inZone(zone)
	}
	controller := &structs.CSIPluginInstance{Kind: structs.CSIKindController, NodeID: id, CSIInfo: info}
	controller.ControllerInfo = has
	put(w, fsm.NodeRegister, &structs.NodeRegisterRequest{
		Node: &structs.Node{ID: id, SecretID: "s", Name: id, Status: structs.NodeReady},
		CSI:  []*structs.CSIPluginInstance{controller, half},
	})
}

func inZone(zone string) *structs.CSITopology {
	return &structs.CSITopology{Segments: map[string]string{"zone": zone}}
}

// Propose implements fsm.Proposer.
func (w *driftWorld) Propose(_ context.Context, entry []byte) (uint64, any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.index++
	w.entries++
	return w.index, w.fsm.Apply(&raft.Log{Index: w.index, Type: raft.LogCommand, Data: entry}), nil
}

// Call implements nodeconn.Caller.
func (w *driftWorld) Call(_ context.Context, node, _ string, req, resp any) error {
	switch r := req.(type) {
	case *nodecalls.ClientCSIListRequest:
		copied := *r
		copied.Provider = node // the test reads the called node here
		w.mu.Lock()
		w.lists = append(w.lists, &copied)
		list := w.list
		w.mu.Unlock()
		page, err := list(&copied)
		if page != nil {
			*resp.(*nodecalls.ClientCSIListResponse) = *page
		}
		return err
	case *nodecalls.ClientCSIGetVolumeRequest:
		w.mu.Lock()
		w.asked = append(w.asked, r.ExternalID)
		get := w.get
		w.mu.Unlock()
		return get(r.ExternalID)
	}
	w.t.Errorf("call of %T", req)
	return nil
}

func put[P any](w *driftWorld, c fsm.Command[P], p *P) {
	w.t.Helper()
	_, err := fsm.Propose(context.Background(), w, c, p)
	if err != nil {
		w.t.Fatal(err)
	}
}

// addVolume registers a ready volume, which is its ID with "x-" before it to the plugin.
func (w *driftWorld) addVolume(id string, zones ...string) {
	v := &structs.CSIVolume{
		ID: id, PluginID: "p", ExternalID: "x-" + id, State: structs.VolumeReady,
		RequestedCapabilities: []*structs.CSIVolumeCapability{{
			AccessMode: structs.CSIMultiNodeMultipleWriter, AttachmentMode: structs.CSIFileSystem,
		}},
	}
	for _, z := range zones {
		v.Topologies = append(v.Topologies, inZone(z))
	}
	put(w, fsm.VolumePut, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
}

// attach gives a volume a claim of an allocation on a node, with an attachment that is attached.
func (w *driftWorld) attach(volume, node string) {
	w.claim(volume, node)
	put(w, fsm.AttachmentOutcome, &structs.CSIAttachmentOutcome{VolumeID: volume, NodeID: node, Op: "attach"})
}

func (w *driftWorld) claim(volume, node string) {
	alloc := "a-" + volume + "-" + node
	job := &structs.Job{ID: "j-" + alloc, TaskGroups: []*structs.TaskGroup{{Name: "g", Count: 1}}}
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
	put(w, fsm.PlanApply, &structs.Plan{
		JobModifyIndex: state.Job(w.store.Read(), "default", job.ID).JobModifyIndex,
		Eval:           &structs.Evaluation{ID: "e-" + alloc, JobID: job.ID, Status: structs.EvalComplete},
		Place:          []*structs.Allocation{{ID: alloc, JobID: job.ID, TaskGroup: "g", NodeID: node}},
	})
	put(w, fsm.VolumeClaim, &structs.CSIVolumeClaimRequest{NodeID: node, Claims: []*structs.CSIClaim{{
		VolumeID: volume, AllocID: alloc, Mode: structs.ClaimWrite,
		AccessMode: structs.CSIMultiNodeMultipleWriter, AttachmentMode: structs.CSIFileSystem,
	}}})
}

// listed is a volume at the plugin, attached to nodes by the plugin's IDs.
func listed(id string, nodes ...string) *structs.CSIVolumeExternalStub {
	return &structs.CSIVolumeExternalStub{
		ExternalID: "x-" + id, PublishedNodesKnown: true, PublishedExternalNodeIDs: nodes,
	}
}

// pages makes the plugin answer with a page of these volumes each. The token of a page is its number.
func (w *driftWorld) pages(all ...[]*structs.CSIVolumeExternalStub) {
	w.list = func(req *nodecalls.ClientCSIListRequest) (*nodecalls.ClientCSIListResponse, error) {
		i := 0
		_, _ = fmt.Sscan(req.StartingToken, &i)
		page := &nodecalls.ClientCSIListResponse{Volumes: all[i]}
		if i+1 < len(all) {
			page.NextToken = fmt.Sprint(i + 1)
		}
		return page, nil
	}
}

// run starts the loop. The first list follows after driftAfter, and the test goes on just before it.
func (w *driftWorld) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		DriftLoop{Store: w.store, Proposer: w, Nodes: w, Logger: hclog.NewNullLogger()}.Run(ctx)
	}()
	w.stop = func() {
		cancel()
		<-ended
	}
	w.sleep(driftAfter - time.Second)
}

// sleep lets virtual time pass. The loop sees all that the test has set before.
func (w *driftWorld) sleep(d time.Duration) {
	w.mu.Lock()
	w.mu.Unlock() //nolint:staticcheck // it orders the writes of the test before the reads of the loop
	time.Sleep(d)
	synctest.Wait()
}

// next waits for the next list and returns the number of its entries.
func (w *driftWorld) next() (entries int) {
	before := w.entries
	w.sleep(storage.DefaultDriftInterval)
	return w.entries - before
}

// want compares the recorded differences, as texts "kind volume node".
func (w *driftWorld) want(when string, want ...string) {
	w.t.Helper()
	var got []string
	for d := range drifts.OfPlugin(w.store.Read(), "p") {
		got = append(got, fmt.Sprintf("%s %s %s", d.Kind, d.VolumeID, d.ExternalNodeID))
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: differences %q, want %q", when, got, want)
	}
}

func (w *driftWorld) settings(d storage.PluginDrift) {
	put(w, fsm.PluginConfigSet, &storage.PluginSettingsRequest{ID: "p", PluginDrift: d})
}

func (w *driftWorld) summary() *storage.DriftSummary { return drifts.Summary(w.store.Read(), "p") }

// virtualDrift runs a test in virtual time.
func virtualDrift(t *testing.T, test func(t *testing.T, w *driftWorld)) {
	synctest.Test(t, func(t *testing.T) {
		w := newDriftWorld(t, 1, false)
		defer func() { w.stop() }()
		test(t, w)
	})
}
