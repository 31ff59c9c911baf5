package node_test

import (
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/internal/agenttest"
	"berth/rpc"
	"berth/state"
	"berth/structs"
)

func TestHeartbeat_InventoryIsBounded(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.Raft.MarkRestored(s.T, 1)
	long := heldClaim(strings.Repeat("v", structs.MaxName+1), "a1")
	path := heldClaim("v", "a1")
	path.ExternalVolumeID = strings.Repeat("x", structs.MaxCSIID+1)
	many := make([]structs.CSIHeldClaim, structs.MaxNodeVolumes+1)
	for want, reported := range map[string]*structs.NodeInventory{
		`node "n1": 10001 volumes in Held; at most 10000 are allowed`: {Held: many},
		`10001 volumes in Left; at most 10000`:                        {Left: many},
		"Held: VolumeID has 256 bytes; at most 255":                   {Held: []structs.CSIHeldClaim{long}},
		"Left: ExternalVolumeID has 1025 bytes":                       {Left: []structs.CSIHeldClaim{path}},
	} {
		req := agenttest.Request(&structs.NodeHeartbeatRequest{
			NodeID:    "n1",
			SecretID:  endpointstest.SecretOf("n1"),
			Inventory: reported,
		})
		_, err := rpc.Call(t.Context(), s.RPC, structs.NodeHeartbeat, req)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s\n got %v", want, err)
		}
	}
	if n := state.Node(s.Store.Read(), "n1"); !n.Unaccounted {
		t.Error("a rejected report counts")
	}
}

func TestUpdateAlloc_TextsAreCut(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	long := strings.Repeat("x", 1<<20)
	reported := &structs.AllocClientUpdate{
		ID:                "a1",
		ClientStatus:      structs.AllocRunning,
		ClientDescription: long,
		TaskStates:        map[string]*structs.TaskState{"t": {State: structs.TaskRunning}, long: {}},
	}
	for code := range 2 * structs.MaxTaskEvents {
		reported.TaskStates["t"].Events = append(reported.TaskStates["t"].Events, &structs.TaskEvent{
			Type:           structs.TaskEventTerminated,
			ExitCode:       code,
			Message:        long,
			DisplayMessage: long,
			Details:        map[string]string{"k": long},
		})
	}
	request := &structs.AllocsClientUpdateRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Allocs:   []*structs.AllocClientUpdate{reported},
	}
	endpointstest.Must(s, structs.NodeUpdateAllocs, request)
	a := state.Alloc(s.Store.Read(), "a1")
	if a.ClientStatus != structs.AllocRunning || len(a.ClientDescription) > structs.MaxText+3 ||
		len(a.TaskStates) != 1 {
		t.Fatalf("%s, a description of %d bytes, %d tasks", a.ClientStatus, len(a.ClientDescription),
			len(a.TaskStates))
	}
	events := a.TaskStates["t"].Events
	if len(events) != structs.MaxTaskEvents || events[0].ExitCode != structs.MaxTaskEvents {
		t.Fatalf("%d events, the first with code %d; want the newest", len(events), events[0].ExitCode)
	}
	if e := events[0]; len(e.Message)+len(e.DisplayMessage) > 2*structs.MaxText+6 || len(e.Details) != 0 {
		t.Errorf("texts of %d and %d bytes, %d details", len(e.Message), len(e.DisplayMessage), len(e.Details))
	}
	if len(reported.TaskStates["t"].Events) != 2*structs.MaxTaskEvents ||
		len(reported.ClientDescription) != len(long) {
		t.Error("the request itself was changed")
	}
	written := s.Raft.Len()
	endpointstest.Must(s, structs.NodeUpdateAllocs, request)
	if n := s.Raft.Len(); n != written {
		t.Errorf("a repeated report writes %d entries, want 0", n-written)
	}
}

func TestUpdateAlloc_StatesAreKnown(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	s.AddAlloc("a2", "n1")
	report := func(updates ...*structs.AllocClientUpdate) error {
		_, err := rpc.Call(t.Context(), s.RPC, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
			NodeID:   "n1",
			SecretID: endpointstest.SecretOf("n1"),
			Allocs:   updates,
		})
		return err
	}
	task := func(state *structs.TaskState) *structs.AllocClientUpdate {
		return &structs.AllocClientUpdate{
			ID:           "a1",
			ClientStatus: structs.AllocRunning,
			TaskStates:   map[string]*structs.TaskState{"t": state},
		}
	}
	for want, reported := range map[string]*structs.AllocClientUpdate{
		`allocation "a1": ClientStatus "happy" must be one of pending, running, complete, failed, lost`: {
			ID:           "a1",
			ClientStatus: "happy",
		},
		`allocation "a1": task "t": State "happy" must be one of pending, running, dead`: task(
			&structs.TaskState{State: "happy"}),
		`allocation "a1": task "t": State "" must be`: task(nil),
	} {
		before := s.Raft.Len()
		err := report(reported)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s\n got %v", want, err)
		}
		if n := s.Raft.Len() - before; n != 0 {
			t.Errorf("%s: %d log entries", want, n)
		}
	}
	other := &structs.AllocClientUpdate{ID: "a2", ClientStatus: structs.AllocFailed}
	if err := report(task(nil), other); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("got %v", err)
	}
	for alloc, want := range map[string]string{"a1": structs.AllocPending, "a2": structs.AllocFailed} {
		if a := state.Alloc(s.Store.Read(), alloc); a.ClientStatus != want || a.TaskStates != nil {
			t.Errorf("%s is %s, its tasks %v", alloc, a.ClientStatus, a.TaskStates)
		}
	}
	for _, status := range []string{"", structs.AllocRunning, structs.AllocComplete} {
		err := report(&structs.AllocClientUpdate{
			ID:           "a1",
			ClientStatus: status,
			TaskStates:   map[string]*structs.TaskState{"t": {State: structs.TaskDead}},
		})
		if err != nil {
			t.Errorf("%q: %v", status, err)
		}
	}
}

func TestUpdateCSI_InstancesAreBounded(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	instance := func(edit func(*structs.CSIInfo)) []*structs.CSIPluginInstance {
		i := &structs.CSIPluginInstance{
			Kind:    structs.CSIKindNode,
			NodeID:  "n1",
			CSIInfo: structs.CSIInfo{PluginID: "p", NodeInfo: &structs.CSINodeInfo{ID: "x"}},
		}
		edit(&i.CSIInfo)
		return []*structs.CSIPluginInstance{i}
	}
	long := strings.Repeat("x", 1<<20)
	many := make([]*structs.CSIPluginInstance, structs.MaxNodePlugins+1)
	for i := range many {
		many[i] = instance(func(*structs.CSIInfo) {})[0]
	}
	for want, instances := range map[string][]*structs.CSIPluginInstance{
		"1001 plugin instances; at most 1000": many,
		"HealthDescription has 1048576 bytes": instance(func(i *structs.CSIInfo) {
			i.HealthDescription = long
		}),
		`plugin "p": Provider has 1048576 bytes`: instance(func(i *structs.CSIInfo) {
			i.Provider = long
		}),
		"NodeInfo.ID has 1048576 bytes; at most 256": instance(func(i *structs.CSIInfo) { i.NodeInfo.ID = long }),
		"AccessibleTopology has 1048577 bytes; CSI allows": instance(func(i *structs.CSIInfo) {
			i.NodeInfo.AccessibleTopology = &structs.CSITopology{Segments: map[string]string{"k": long}}
		}),
	} {
		_, err := rpc.Call(t.Context(), s.RPC, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
			NodeID:   "n1",
			SecretID: endpointstest.SecretOf("n1"),
			Upserts:  instances,
		})
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s\n got %.300v", want, err)
		}
	}
}
