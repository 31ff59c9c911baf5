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

	"berth/fsm"
	"berth/server/control/loop"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// driftWorld has the nodes n0, n1, ... whose plugin answers from a list.
type driftWorld struct {
	world
	mu    sync.Mutex
	lists []*nodecalls.ClientCSIListRequest
	asked []string // IDs of volumes that ControllerGetVolume was asked for
	stop  func()

	list func(req *nodecalls.ClientCSIListRequest) (*nodecalls.ClientCSIListResponse, error)
	get  func(id string) error
}

// newDriftWorld has a controller on each node, which is in a zone of its own if zones is set.
func newDriftWorld(t *testing.T, nodes int, zones bool) *driftWorld {
	w := &driftWorld{world: newWorld(t)}
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

// attach gives a volume a claim of an allocation on a node, with an attachment that is attached.
func (w *driftWorld) attach(volume, node string) {
	w.claim(volume, node)
	outcome := &structs.CSIAttachmentOutcome{VolumeID: volume, NodeID: node, Op: "attach"}
	put(w.world, fsm.AttachmentOutcome, outcome)
}

func (w *driftWorld) claim(volume, node string) {
	alloc := "a-" + volume + "-" + node
	job := &structs.Job{ID: "j-" + alloc, TaskGroups: []*structs.TaskGroup{{Name: "g", Count: 1}}}
	put(w.world, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
	put(w.world, fsm.PlanApply, &structs.Plan{
		JobModifyIndex: state.Job(w.Store.Read(), "default", job.ID).JobModifyIndex,
		Eval:           &structs.Evaluation{ID: "e-" + alloc, JobID: job.ID, Status: structs.EvalComplete},
		Place:          []*structs.Allocation{{ID: alloc, JobID: job.ID, TaskGroup: "g", NodeID: node}},
	})
	put(w.world, fsm.VolumeClaim, &structs.CSIVolumeClaimRequest{NodeID: node, Claims: []*structs.CSIClaim{{
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
		DriftLoop{Common: loop.Common{
			Store: w.Store, Proposer: w, Nodes: w, Logger: hclog.NewNullLogger(),
		}}.Run(ctx)
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
	before := w.Len()
	w.sleep(storage.DefaultDriftInterval)
	return w.Len() - before
}

// want compares the recorded differences, as texts "kind volume node".
func (w *driftWorld) want(when string, want ...string) {
	w.t.Helper()
	var got []string
	for d := range csi.DriftsOfPlugin(w.Store.Read(), "p") {
		got = append(got, fmt.Sprintf("%s %s %s", d.Kind, d.VolumeID, d.ExternalNodeID))
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: differences %q, want %q", when, got, want)
	}
}

func (w *driftWorld) settings(d storage.PluginDrift) {
	put(w.world, fsm.PluginConfigSet, &storage.PluginSettingsRequest{ID: "p", PluginDrift: d})
}

func (w *driftWorld) summary() *storage.DriftSummary { return csi.DriftSummary(w.Store.Read(), "p") }

// virtualDrift runs a test in virtual time.
func virtualDrift(t *testing.T, test func(t *testing.T, w *driftWorld)) {
	synctest.Test(t, func(t *testing.T) {
		w := newDriftWorld(t, 1, false)
		defer func() { w.stop() }()
		test(t, w)
	})
}
