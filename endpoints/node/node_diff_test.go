package node_test

import (
	"fmt"
	"slices"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// nodeRow returns the row of a node.
func nodeRow(s *endpointstest.Server, id string) *structs.Node {
	return state.Node(s.Store.Read(), id)
}

// instanceIndexes returns the indexes of a node's instances.
func instanceIndexes(s *endpointstest.Server, id string) (out []uint64) {
	for i := range csi.InstancesByNode(s.Store.Read(), id) {
		out = append(out, i.ModifyIndex)
	}
	return out
}

func TestNodeRegister_WithoutChangesWritesNothing(t *testing.T) {
	s := endpointstest.New(t)
	first := endpointstest.Must(s, structs.NodeRegister, endpointstest.Registration("n1"))
	endpointstest.Must(s, structs.NodeEligibility, &structs.NodeEligibilityRequest{
		NodeID:      "n1",
		Eligibility: structs.NodeIneligible,
	})
	entries := s.Raft.Len()
	before := fmt.Sprint(instanceIndexes(s, "n1"))
	for range 3 {
		again := endpointstest.Must(s, structs.NodeRegister, endpointstest.Registration("n1"))
		if again.HeartbeatTTL == 0 || len(again.Servers) == 0 || again.Index < first.Index {
			t.Errorf("answered %+v", again)
		}
	}
	endpointstest.Must(s, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Upserts:  endpointstest.Registration("n1").CSI[:1],
		Removes:  []structs.CSIInstanceKey{{PluginID: "other", Kind: structs.CSIKindNode}},
	})
	endpointstest.Must(s, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Upserts:  endpointstest.Registration("n1").CSI,
		Full:     true,
	})
	if n := s.Raft.Len() - entries; n != 0 {
		t.Errorf("reports without changes made %d log entries", n)
	}
	if len(s.Leases.Renewed) != 4 {
		t.Errorf("the lease was renewed %d times, want 4", len(s.Leases.Renewed))
	}
	// A registration without a log entry would have changed only the time of the driver.
	endpointstest.MustPropose(s, fsm.NodeRegister, endpointstest.Registration("n1"))
	if after := fmt.Sprint(instanceIndexes(s, "n1")); after != before {
		t.Errorf("in the log it changes instances: %s, before %s", after, before)
	}
	if n := state.Node(s.Store.Read(), "n1"); n.SchedulingEligibility != structs.NodeIneligible {
		t.Errorf("the servers' part of the row changed: %+v", n)
	}
}

// TestNodeRegister_UnsureIsWritten: the outcome of a request in flight is unknown, and a later registration
// has to come after it.
func TestNodeRegister_UnsureIsWritten(t *testing.T) {
	s := endpointstest.New(t)
	endpointstest.Must(s, structs.NodeRegister, endpointstest.Registration("n1"))
	row := nodeRow(s, "n1")
	before := instanceIndexes(s, "n1")
	entries := s.Raft.Len()
	again := endpointstest.Registration("n1")
	again.Node.Datacenter = row.Datacenter
	again.Node.NodePool = row.NodePool
	again.Unsure = true
	again.Node.Drivers["exec"].UpdateTime = row.Drivers["exec"].UpdateTime
	endpointstest.Must(s, structs.NodeRegister, again)
	endpointstest.Must(s, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Upserts:  again.CSI,
		Full:     true,
		Unsure:   true,
	})
	if n := s.Raft.Len() - entries; n != 2 {
		t.Errorf("%d log entries, want 2", n)
	}
	if nodeRow(s, "n1") != row || !slices.Equal(instanceIndexes(s, "n1"), before) {
		t.Error("unchanged rows were written")
	}
}

func TestNodeRegister_WritesEachChange(t *testing.T) {
	for name, edit := range map[string]func(s *endpointstest.Server, r *structs.NodeRegisterRequest){
		"an attribute": func(_ *endpointstest.Server, r *structs.NodeRegisterRequest) {
			r.Node.Attributes["kernel.name"] = "plan9"
		},
		"no attributes": func(_ *endpointstest.Server, r *structs.NodeRegisterRequest) { r.Node.Attributes = nil },
		"a driver": func(_ *endpointstest.Server, r *structs.NodeRegisterRequest) {
			r.Node.Drivers["exec"].Healthy = false
		},
		"resources": func(_ *endpointstest.Server, r *structs.NodeRegisterRequest) {
			r.Node.NodeResources.CPU.CpuShares++
		},
		"its address":      func(_ *endpointstest.Server, r *structs.NodeRegisterRequest) { r.Node.HTTPAddr = "10.0.0.9:4646" },
		"an instance less": func(_ *endpointstest.Server, r *structs.NodeRegisterRequest) { r.CSI = r.CSI[:1] },
		"an instance more": func(_ *endpointstest.Server, r *structs.NodeRegisterRequest) {
			r.CSI = append(r.CSI, &structs.CSIPluginInstance{
				Kind:    structs.CSIKindNode,
				NodeID:  "n1",
				CSIInfo: structs.CSIInfo{PluginID: "p2"},
			})
		},
		"another instance": func(_ *endpointstest.Server, r *structs.NodeRegisterRequest) { r.CSI[0].PluginID = "p2" },
		"health":           func(_ *endpointstest.Server, r *structs.NodeRegisterRequest) { r.CSI[1].Healthy = false },
		"a limit":          func(_ *endpointstest.Server, r *structs.NodeRegisterRequest) { r.CSI[1].NodeInfo.MaxVolumes = 11 },
		"it was down": func(s *endpointstest.Server, _ *structs.NodeRegisterRequest) {
			endpointstest.MustPropose(s, fsm.NodeStatus, &structs.NodeStatusUpdate{
				NodeIDs: []string{"n1"},
				Status:  structs.NodeDown,
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := endpointstest.New(t)
			endpointstest.Must(s, structs.NodeRegister, endpointstest.Registration("n1"))
			r := endpointstest.Registration("n1")
			edit(s, r)
			before := s.Raft.Len()
			endpointstest.Must(s, structs.NodeRegister, r)
			if n := s.Raft.Len() - before; n != 1 {
				t.Errorf("%d log entries, want 1", n)
			}
			if n := state.Node(s.Store.Read(), "n1"); n.Status != structs.NodeReady {
				t.Errorf("the node is %s", n.Status)
			}
			before = s.Raft.Len()
			endpointstest.Must(s, structs.NodeRegister, r)
			if n := s.Raft.Len() - before; n != 0 {
				t.Errorf("a repeated registration made %d log entries", n)
			}
		})
	}
}

func TestNodeUpdateCSI_OfDownNodeCountsOnReturn(t *testing.T) {
	s := endpointstest.New(t)
	endpointstest.Must(s, structs.NodeRegister, endpointstest.Registration("n1"))
	endpointstest.MustPropose(s, fsm.NodeStatus,
		&structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: structs.NodeDown})
	endpointstest.Must(s, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Upserts:  endpointstest.Registration("n1").CSI,
		Full:     true,
	})
	endpointstest.Must(s, structs.NodeHeartbeat, &structs.NodeHeartbeatRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Status:   structs.NodeReady,
	})
	if i := csi.Instance(s.Store.Read(), "pl", structs.CSIKindNode, "n1"); !i.Healthy {
		t.Errorf("after the node came back its instance is %+v", i)
	}
}

func TestNodeUpdateAllocs_WithoutChangesWritesNothing(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	say := func(status, event string) int {
		before := s.Raft.Len()
		endpointstest.Must(s, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
			NodeID:   "n1",
			SecretID: endpointstest.SecretOf("n1"),
			Allocs: []*structs.AllocClientUpdate{
				{
					ID:           "a1",
					ClientStatus: status,
					TaskStates:   map[string]*structs.TaskState{"t": {State: event}},
				}},
		})
		return s.Raft.Len() - before
	}
	for i, c := range []struct {
		status, event string
		entries       int
	}{
		{structs.AllocRunning, "running", 1},
		{structs.AllocRunning, "running", 0},
		{structs.AllocRunning, "dead", 1},
		{structs.AllocFailed, "dead", 1},
		{structs.AllocFailed, "dead", 0},
	} {
		if n := say(c.status, c.event); n != c.entries {
			t.Errorf("%d: %d log entries for %s, %s; want %d", i, n, c.status, c.event, c.entries)
		}
	}
}

// reportHealth reports that allocation a1 of n1 runs, and its health.
func reportHealth(s *endpointstest.Server, healthy bool) {
	s.T.Helper()
	endpointstest.Must(s, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Allocs: []*structs.AllocClientUpdate{{
			ID:               "a1",
			ClientStatus:     structs.AllocRunning,
			DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: &healthy},
		}},
	})
}

// An unhealthy allocation in no deployment may recover while nothing else of it changes.
func TestNodeUpdateAllocs_RecordsARecovery(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	var written []bool
	for _, healthy := range []bool{false, false, true, true, false} {
		before := s.Store.Index()
		reportHealth(s, healthy)
		written = append(written, s.Store.Index() != before)
	}
	if want := []bool{true, false, true, false, false}; !slices.Equal(written, want) {
		t.Errorf("the reports are written: %v, want %v", written, want)
	}
	if a := state.Alloc(s.Store.Read(), "a1"); !a.DeploymentStatus.IsHealthy() {
		t.Errorf("the health is %+v", a.DeploymentStatus)
	}
}

// registerNodes registers a number of nodes.
func registerNodes(s *endpointstest.Server, n int) {
	for i := range n {
		endpointstest.Must(s, structs.NodeRegister, endpointstest.Registration(fmt.Sprintf("f%05d", i)))
	}
}

// TestNodeRegister_OfRestartedFleetWritesNothing: the cost of a node does not grow with the fleet, and no log
// entry is written.
func TestNodeRegister_OfRestartedFleetWritesNothing(t *testing.T) {
	cost := map[int][2]float64{}
	sizes := []int{50, 1000}
	for _, size := range sizes {
		s := endpointstest.New(t)
		registerNodes(s, size)
		before := s.Raft.Len()
		registerNodes(s, size)
		if n := s.Raft.Len() - before; n != 0 {
			t.Errorf("%d log entries when %d nodes start again", n, size)
		}
		next := size
		cost[size] = [2]float64{
			testing.AllocsPerRun(20, func() {
				endpointstest.Must(s, structs.NodeRegister,
					endpointstest.Registration("f00007"))
			}),
			testing.AllocsPerRun(20, func() {
				next++
				endpointstest.Must(s, structs.NodeRegister, endpointstest.Registration(fmt.Sprintf("f%05d", next)))
			}),
		}
	}
	small := cost[sizes[0]]
	large := cost[sizes[1]]
	for i, what := range []string{"registers again", "is new"} {
		if large[i] > 1.5*small[i] {
			t.Errorf("a node that %s: %.0f allocations of memory among %d, %.0f among %d", what, small[i], sizes[0],
				large[i], sizes[1])
		}
	}
}
