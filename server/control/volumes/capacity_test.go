package volumes_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/server/control/loop"
	"berth/server/control/volumes"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
	"berth/test/oneserver"
)

// capacityWorld is a log of one server, with nodes in zones whose plugin answers.
type capacityWorld struct {
	t *testing.T
	*oneserver.Log
	asked  []string // classes and places
	answer func(zone string) (available int64, err error)
}

func newWorld(t *testing.T, zones int) *capacityWorld {
	w := &capacityWorld{
		t:      t,
		Log:    oneserver.NewLog(),
		answer: func(string) (int64, error) { return 1 << 40, nil },
	}
	for i := range zones {
		w.addNode(fmt.Sprintf("n%03d", i), fmt.Sprintf("z%03d", i))
	}
	w.addClass("fast", storage.BindFirstConsumer)
	return w
}

// Call implements nodeconn.Caller.
func (w *capacityWorld) Call(_ context.Context, _, _ string, req, resp any) error {
	r := req.(*nodecalls.ClientCSICapacityRequest)
	zone := r.Topology.Segments["zone"]
	w.asked = append(w.asked, r.Parameters["type"]+" "+zone)
	left, err := w.answer(zone)
	resp.(*nodecalls.ClientCSICapacityResponse).Available = left
	return err
}

func (w *capacityWorld) addClass(name, binding string) {
	oneserver.Put(w.t, w, fsm.VolumeClassPut, &storage.ClassPutRequest{Class: &storage.VolumeClass{
		Name:       name,
		PluginID:   "p",
		Binding:    binding,
		Parameters: map[string]string{"type": name},
	}})
}

func (w *capacityWorld) addNode(id, zone string) {
	info := structs.CSIInfo{PluginID: "p", Provider: "p.csi", Healthy: true}
	node := &structs.CSIPluginInstance{Kind: structs.CSIKindNode, NodeID: id, CSIInfo: info}
	node.NodeInfo = &structs.CSINodeInfo{ID: id, AccessibleTopology: inZone(zone)}
	controller := &structs.CSIPluginInstance{Kind: structs.CSIKindController, NodeID: id, CSIInfo: info}
	controller.ControllerInfo = &structs.CSIControllerInfo{SupportsGetCapacity: true}
	oneserver.Put(w.t, w, fsm.NodeRegister, &structs.NodeRegisterRequest{
		Node: &structs.Node{ID: id, SecretID: "s", Name: id, Status: structs.NodeReady},
		CSI:  []*structs.CSIPluginInstance{node, controller},
	})
}

func inZone(zone string) *structs.CSITopology {
	return &structs.CSITopology{Segments: map[string]string{"zone": zone}}
}

// rounds runs the loop for some rounds, in virtual time, and counts their entries.
func (w *capacityWorld) rounds(n int) (entries int) {
	before := w.Len()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		loop := volumes.CapacityLoop{Common: loop.Common{
			Store: w.Store, Proposer: w, Nodes: w, Logger: hclog.NewNullLogger(),
		}}
		loop.Run(ctx)
	}()
	time.Sleep(time.Duration(n)*volumes.CapacityInterval - volumes.CapacityInterval/2)
	synctest.Wait()
	cancel()
	<-ended
	return w.Len() - before
}

func (w *capacityWorld) row(zone string) *storage.Exhaustion {
	return csi.Exhausted(w.Store.Read(), "p", "fast", inZone(zone))
}

func TestLoop_RecordsWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.addClass("now", storage.BindImmediate)
		if n := w.rounds(3); n != 1 {
			t.Errorf("%d entries, want one: nothing has changed", n)
		}
		want := slices.Repeat([]string{"fast z000", "fast z001"}, 3)
		if !slices.Equal(w.asked, want) {
			t.Errorf("asked for %q, want %q", w.asked, want)
		}
		w.answer = func(string) (int64, error) { return 0, nil }
		if n := w.rounds(2); n != 1 || w.row("z001").Left != 0 {
			t.Errorf("%d entries, %+v", n, w.row("z001"))
		}
	})
}

// TestLoop_StaysWithinItsBudget has more places than calls of a round, and one that had no space.
func TestLoop_StaysWithinItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, volumes.MaxCalls+2)
		w.rounds(1)
		if len(w.asked) != volumes.MaxCalls {
			t.Errorf("%d calls in a round, want %d", len(w.asked), volumes.MaxCalls)
		}

		w.asked = nil
		oneserver.Put(w.t, w, fsm.VolumeOutcome, w.exhausted("z065"))
		w.rounds(2)
		first, later := w.asked[:volumes.MaxCalls], w.asked[volumes.MaxCalls:]
		if first[0] != "fast z065" || !slices.Contains(later, "fast z064") {
			t.Errorf("asked for %q first, then for %q", first[0], later)
		}
	})
}

// exhausted makes a volume of a job in a zone, and returns the answer that there is no space for it.
func (w *capacityWorld) exhausted(zone string) *structs.CSIVolumeOutcome {
	now := structs.WriteOptions{Now: time.Now().UnixNano()}
	asked := []*structs.CSIVolume{{
		ID: "v",
		CSIVolumeSpec: structs.CSIVolumeSpec{
			Class:               "fast",
			PluginID:            "p",
			Parameters:          map[string]string{"type": "fast"},
			RequestedTopologies: &structs.CSITopologyRequest{Required: []*structs.CSITopology{inZone(zone)}},
		},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{
			JobID: "j",
			State: structs.VolumeCreating,
		},
	}}
	oneserver.Put(w.t, w, fsm.VolumePut, &structs.CSIVolumeRegisterRequest{Volumes: asked, WriteOptions: now})
	return &structs.CSIVolumeOutcome{
		ID:           "v",
		Op:           "create",
		Final:        true,
		Err:          &structs.OperationError{Code: structs.CSICodeExhausted, Kind: structs.KindPrecondition},
		WriteOptions: now,
	}
}

// TestLoop_CallsASilentPluginOnce has a plugin that does not answer, and one that rejects a place.
func TestLoop_CallsASilentPluginOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.answer = func(string) (int64, error) { return 0, structs.Timeoutf("no answer") }
		if n := w.rounds(1); n != 0 || len(w.asked) != 1 {
			t.Errorf("%d entries, asked for %q", n, w.asked)
		}
		w.answer = func(zone string) (int64, error) {
			if zone == "z000" {
				return 0, structs.Invalidf("not there")
			}
			return 5, nil
		}
		w.rounds(1)
		if w.row("z000") != nil || w.row("z002") == nil {
			t.Errorf("got %+v and %+v", w.row("z000"), w.row("z002"))
		}
	})
}
