package clitest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/nodecalls"
)

func (w *Cluster) answerCluster() {
	c := w.Caller
	w.answerServices()
	w.answerNodes()
	apitest.Answer(c, cluster.NodeForeignList, cluster.NodeForeignListResponse{})
	apitest.Answer(c, structs.NodeDeregister, structs.Empty{})
	apitest.Answer(c, structs.NodeEligibility, structs.Empty{})
	apitest.On(c, cluster.NodeExtendLease, func(
		_ context.Context, req *cluster.NodeExtendLeaseRequest,
	) (*cluster.NodeExtendLeaseResponse, error) {
		return &cluster.NodeExtendLeaseResponse{DownAfter: req.For + 10*time.Second}, nil
	})
	apitest.Answer(c, structs.NodeDrainStatus, structs.NodeDrainStatusResponse{NodeID: "n1"})
	w.answerLost()
	w.answerDefinitions()
	apitest.Answer(c, cluster.StatusLeader, cluster.StatusLeaderResponse{Leader: "10.0.0.1:4747"})
	apitest.Answer(c, cluster.OperatorRemove, structs.Empty{})
	apitest.Answer(c, cluster.OperatorTransfer, structs.Empty{})
	apitest.Answer(c, cluster.SystemGC, structs.Empty{})
	w.answerSchedulerConfig()
	w.answerAutopilot()
	apitest.Answer(c, cluster.OperatorRaft, cluster.RaftConfigurationResponse{Servers: []*cluster.RaftServer{
		{
			ID:           "s1",
			Node:         "s1.global",
			Address:      "10.0.0.1:4747",
			Leader:       true,
			Voter:        true,
			RaftProtocol: "3",
			Status:       "alive",
		},
		{
			ID:           "s2",
			Node:         "s2.global",
			Address:      "10.0.0.2:4747",
			Voter:        true,
			RaftProtocol: "3",
		},
	}})
}

// nodeOne returns the first node with its details.
func nodeOne() structs.Node {
	drivers := map[string]*structs.DriverInfo{
		"exec":     {Detected: true, Healthy: true},
		"raw_exec": {HealthDescription: "not enabled"},
	}
	return structs.Node{
		ID:                    Node1,
		Name:                  "one",
		Datacenter:            "dc1",
		HTTPAddr:              "127.0.0.1:1",
		Status:                "ready",
		SchedulingEligibility: "eligible",
		Drivers:               drivers,
		Attributes:            map[string]string{"kernel.name": "linux"},
		Events: []*structs.NodeEvent{
			{
				Message:   "Node registered",
				Subsystem: "Cluster",
				Timestamp: Today.Add(-26 * time.Hour),
			},
			{
				Message:   "device 1 of acme/gpu/x1 is unhealthy: too hot",
				Subsystem: "Device",
				Details:   map[string]string{"device": "acme/gpu/x1/1"},
				Timestamp: Today.Add(-time.Hour),
			},
		},
		NodeResources: &structs.NodeResources{
			CPU:    structs.NodeCPUResources{CpuShares: 4000},
			Memory: structs.NodeMemoryResources{MemoryMB: 2048},
			Disk:   structs.NodeDiskResources{DiskMB: 100},
			Devices: []*structs.NodeDeviceResource{{
				Vendor: "acme",
				Type:   "gpu",
				Name:   "x1",
				Instances: []*structs.NodeDevice{
					{ID: "0", Healthy: true},
					{ID: "1", HealthDescription: "too hot"},
				},
				Attributes: map[string]*structs.DeviceAttribute{"memory": structs.ParseDeviceAttribute("11 GiB")},
			}},
			NodeNetworks: []*structs.NodeNetworkResource{{
				Mode:   structs.NetworkModeHost,
				Device: "eth0",
				Addresses: []*structs.NodeNetworkAddress{
					{Family: structs.FamilyIPv4, Alias: "default", Address: "10.0.0.1"},
					{Family: structs.FamilyIPv6, Alias: "public", Address: "fd00::1", ReservedPorts: "22"},
				},
			}},
		},
		ReservedResources: &structs.NodeReservedResources{
			Networks: &structs.NodeReservedNetworks{ReservedHostPorts: "4646"},
		},
	}
}

// statsOfDevice are the statistics of one device of the first node.
func statsOfDevice(id string) []*nodecalls.DeviceGroupStats {
	return []*nodecalls.DeviceGroupStats{{
		Vendor: "acme",
		Type:   "gpu",
		Name:   "x1",
		InstanceStats: map[string]*nodecalls.DeviceStats{id: {
			Summary: &nodecalls.StatValue{
				IntNumeratorVal:   new(int64(3)),
				IntDenominatorVal: new(int64(8)),
				Unit:              "GiB",
			},
			Timestamp: Today.Add(-5 * time.Second),
		}},
	}}
}

// statsOne is the use of the first node's machine.
func statsOne() *nodecalls.HostStats {
	return &nodecalls.HostStats{
		Timestamp:        clusterNow.Add(30 * time.Hour).UnixNano(),
		CPU:              []*nodecalls.HostCPUStats{{CPU: "cpu0", Total: 50}, {CPU: "cpu1", Total: 25}},
		CPUTicksConsumed: 1500,
		Memory:           &nodecalls.HostMemoryStats{Used: 512 << 20, Total: 2048 << 20},
		DiskStats: []*nodecalls.HostDiskStats{{
			Device:      "/dev/vda",
			Mountpoint:  "/",
			Used:        30 << 20,
			Size:        100 << 20,
			UsedPercent: 30,
		}},
		AllocDirStats: &nodecalls.HostDiskStats{
			Mountpoint:  "/var/lib/berth/alloc",
			Used:        10 << 20,
			Size:        50 << 20,
			UsedPercent: 20,
		},
		DeviceStats: statsOfDevice("0"),
		Uptime:      3 * 24 * 3600,
	}
}

// usageOne is the use of the first allocation, which has a task that runs and one that cannot be measured.
func usageOne() *nodecalls.AllocResourceUsage {
	all := nodecalls.NewAllocResourceUsage()
	server := &nodecalls.TaskResourceUsage{ResourceUsage: nodecalls.NewResourceUsage()}
	server.ResourceUsage.CpuStats.SetPercent(12.5, 2000)
	server.ResourceUsage.MemoryStats.SetValues(64<<20, 0, 0)
	server.ResourceUsage.DeviceStats = statsOfDevice("1")
	all.AddTask("server", server)
	all.Unmeasured["sidecar"] = "driver docker did not answer within 5s"
	return all
}

func (w *Cluster) answerNodes() {
	c := w.Caller
	row := nodeOne() // drains change it
	apitest.On(c, structs.NodeDrain, func(_ context.Context, r *structs.NodeDrainRequest) (
		*structs.Empty, error,
	) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.Drains = append(w.Drains, r)
		row.DrainStrategy = nil
		switch {
		case r.DrainSpec != nil:
			row.DrainStrategy = &structs.DrainStrategy{DrainSpec: *r.DrainSpec}
			row.SchedulingEligibility = structs.NodeIneligible
		case r.MarkEligible:
			row.SchedulingEligibility = structs.NodeEligible
		}
		return &structs.Empty{}, nil
	})
	apitest.On(c, structs.NodeList, func(_ context.Context, r *structs.QueryRequest) (
		*structs.NodeListResponse, error,
	) {
		all := []*structs.NodeListStub{
			{
				ID:                    Node1,
				Name:                  "one",
				Datacenter:            "dc1",
				Address:               "10.0.0.1",
				SchedulingEligibility: "eligible",
				Status:                "ready",
			},
			{
				ID:                    Node2,
				Name:                  "two",
				Datacenter:            "dc1",
				NodeClass:             "big",
				Address:               "10.0.0.2",
				SchedulingEligibility: "ineligible",
				Status:                "down",
			},
		}
		return &structs.NodeListResponse{Nodes: slices.DeleteFunc(all, func(n *structs.NodeListStub) bool {
			return !strings.HasPrefix(n.ID, r.Prefix) ||
				r.Filter != "" &&
					r.Filter != fmt.Sprintf("Name == %q", n.Name)
		})}, nil
	})
	apitest.On(c, structs.NodeGet, func(_ context.Context, r *structs.NodeGetRequest) (
		*structs.NodeGetResponse, error,
	) {
		if r.NodeID != Node1 {
			return nil, NotFound("node", r.NodeID)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return &structs.NodeGetResponse{
			Node: &structs.NodeDetail{
				Node:           row,
				CSINodePlugins: map[string]*structs.CSIInfo{"hostpath": nodeInstance()},
			},
		}, nil
	})
	apitest.On(c, structs.NodeAllocs, func(_ context.Context, r *structs.NodeGetRequest) (
		*structs.AllocsResponse, error,
	) {
		return &structs.AllocsResponse{Allocs: slices.DeleteFunc(w.allocs(),
			func(a *structs.Allocation) bool { return a.NodeID != r.NodeID })}, nil
	})
}

func nodeInstance() *structs.CSIInfo {
	return &structs.CSIInfo{
		PluginID:   "hostpath",
		AllocID:    Alloc1,
		Healthy:    true,
		UpdateTime: nanosBefore(2 * time.Minute),
		NodeInfo: &structs.CSINodeInfo{
			MaxVolumes:              100,
			RequiresNodeStageVolume: true,
			AccessibleTopology:      &structs.CSITopology{Segments: map[string]string{"topology.berth/node": "one"}},
		},
	}
}

// NotFound returns the error for something that does not exist.
func NotFound(noun, id string) error {
	return structs.Errorf(structs.KindNotFound, "no %s %q", noun, id)
}
