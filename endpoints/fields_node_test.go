package endpoints_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/internal/agenttest"
	"berth/rpc"
	"berth/state"
	"berth/structs"
)

func filledNode() *structs.Node {
	meta := func() map[string]string { return map[string]string{"k": "v"} }
	return &structs.Node{
		ID:         "n1",
		SecretID:   "s",
		Name:       "n",
		Status:     structs.NodeReady,
		Attributes: meta(),
		Meta:       meta(),
		NodeResources: &structs.NodeResources{
			CPU: structs.NodeCPUResources{ReservableCpuCores: []uint16{1}},
			Devices: []*structs.NodeDeviceResource{{
				Vendor:    "acme",
				Type:      "gpu",
				Name:      "x1",
				Instances: []*structs.NodeDevice{{ID: "0", Locality: &structs.NodeDeviceLocality{}}},
				Attributes: map[string]*structs.DeviceAttribute{"a": {
					Int:    new(int64(1)),
					Float:  new(1.0),
					String: new("s"),
					Bool:   new(true),
				}},
			}},
			NodeNetworks: []*structs.NodeNetworkResource{{
				Mode: structs.NetworkModeHost,
				Addresses: []*structs.NodeNetworkAddress{{
					Family:  structs.FamilyIPv4,
					Alias:   structs.DefaultHostNetwork,
					Address: "10.0.0.1",
				}},
			}},
			MinDynamicPort: 1000,
			MaxDynamicPort: 2000,
		},
		ReservedResources: &structs.NodeReservedResources{Networks: &structs.NodeReservedNetworks{}},
		Drivers:           map[string]*structs.DriverInfo{"exec": {Attributes: meta()}},
		HostVolumes:       map[string]*structs.HostVolume{"data": {Path: "/srv"}},
		DrainStrategy:     &structs.DrainStrategy{},
		LastDrain:         &structs.DrainMetadata{Meta: meta()},
		Leftovers:         []structs.NodeLeftover{{}},
		Events:            []*structs.NodeEvent{{Details: meta()}},
	}
}

func TestRegisterNode_RejectsOrDropsHostileFields(t *testing.T) {
	t.Parallel()
	own := []string{".TLSEnabled = the other", ".NodeResources.CPU.TotalCpuCores = 2^16-1",
		".NodeResources.CPU.ReservableCpuCores[0] = 2^16-1",
		".HostVolumes[].ReadOnly = the other",
		".Drivers[].Detected = the other", ".Drivers[].Healthy = the other",
		".NodeResources.Devices[0].Instances[0].Healthy = the other",
		".NodeResources.Devices[0].Attributes[].Bool = the other",
		".NodeResources.Devices[0].Attributes[].Int = -5",
		".NodeResources.Devices[0].Attributes[].Int = 2^63-1"}
	put := func(s *endpointstest.Server, n *structs.Node) (any, error) {
		req := agenttest.Request(&structs.NodeRegisterRequest{Node: n})
		_, err := rpc.Call(t.Context(), s.RPC, structs.NodeRegister, req)
		return state.Node(s.Store.Read(), "n1"), err
	}
	for _, path := range storedHostileFields(t, filledNode(), nil, put) {
		// A node's texts are those of its host.
		noText := strings.HasSuffix(path, " = NUL") || strings.HasSuffix(path, " = bad UTF-8")
		if !noText && !slices.Contains(own, path) {
			t.Errorf("Node%s is stored", path)
		}
	}
}

func TestUpdateAlloc_KeepsTheTasksOfItsGroup(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	reported := &structs.AllocClientUpdate{
		ID:           "a1",
		ClientStatus: structs.AllocRunning,
		TaskStates:   map[string]*structs.TaskState{},
	}
	reported.TaskStates["t"] = &structs.TaskState{State: structs.TaskRunning}
	for n := range structs.MaxListed {
		reported.TaskStates["a"+strconv.Itoa(n)] = &structs.TaskState{State: structs.TaskRunning}
	}
	request := &structs.AllocsClientUpdateRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Allocs:   []*structs.AllocClientUpdate{reported},
	}
	endpointstest.Must(s, structs.NodeUpdateAllocs, request)
	written := s.Raft.Len()
	if a := state.Alloc(s.Store.Read(), "a1"); len(a.TaskStates) != 1 || a.TaskStates["t"] == nil {
		t.Errorf("%d tasks are stored", len(a.TaskStates))
	}
	endpointstest.Must(s, structs.NodeUpdateAllocs, request)
	if s.Raft.Len() != written || len(reported.TaskStates) != structs.MaxListed+1 {
		t.Error("a repeated report was written, or the request itself was changed")
	}
}

// filledNetwork is a network with all settings that a job may have.
func filledNetwork() *structs.NetworkResource {
	return &structs.NetworkResource{
		Mode:     structs.NetworkModeBridge,
		Hostname: "h",
		DNS: &structs.DNSConfig{
			Servers:  []string{"10.0.0.1"},
			Searches: []string{"a.b"},
			Options:  []string{"ndots:2"},
		},
		ReservedPorts: []structs.Port{{Label: "a", Value: 80}},
		DynamicPorts:  []structs.Port{{Label: "b"}},
	}
}
