// Package shape makes the rows of the benchmarks: a fleet, a plugin, volumes, allocations and claims,
// the same in every run. They equal the rows of bench/peer/shape, field by field where both sides have the
// field, so that the rows of the tables are comparable. The product does not use it.
package shape

import (
	"crypto/sha1"
	"fmt"
	"time"

	"berth/internal/agenttest"
	"berth/structs"
)

// The names of the one plugin, job and shared volume.
const (
	Plugin       = "ebs0"
	JobID        = "bench-job"
	SharedVolume = "vol-shared"
	group        = "web"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// UUID spreads evenly and is the same in every run.
func UUID(kind string, i int) string {
	name := fmt.Appendf(nil, "%s/%d", kind, i)
	h := sha1.Sum(name)
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// Node returns a small node: nine attributes, one driver.
func Node(i int) *structs.Node {
	name := fmt.Sprintf("node-%06d", i)
	return &structs.Node{
		ID:         UUID("node", i),
		SecretID:   UUID("secret", i),
		BootID:     agenttest.Proof().BootID,
		Datacenter: "dc1",
		Name:       name,
		HTTPAddr:   fmt.Sprintf("10.%d.%d.%d:4646", (i>>16)&255, (i>>8)&255, i&255),
		NodePool:   structs.DefaultNodePool,
		Attributes: map[string]string{
			"kernel.name":      "linux",
			"arch":             "amd64",
			"os.name":          "debian",
			"os.version":       "13",
			"berth.version":    "1.0.0",
			"driver.exec":      "1",
			"unique.hostname":  name,
			"platform.aws.az":  fmt.Sprintf("zone-%d", i%3),
			"cpu.totalcompute": "4000",
		},
		Drivers: map[string]*structs.DriverInfo{
			"exec": {Detected: true, Healthy: true, UpdateTime: epoch},
		},
		NodeResources: &structs.NodeResources{
			CPU:    structs.NodeCPUResources{CpuShares: 4000000},
			Memory: structs.NodeMemoryResources{MemoryMB: 8 << 20},
			Disk:   structs.NodeDiskResources{DiskMB: 100 << 20},
		},
		ReservedResources:     &structs.NodeReservedResources{},
		NodeClass:             "storage",
		ComputedClass:         "v1:0123456789abcdef",
		SchedulingEligibility: structs.NodeEligible,
		Status:                structs.NodeReady,
		StatusUpdatedAt:       epoch.Unix(),
	}
}

// Instance returns the report of node i on its half of the plugin. Reports of different rev are stored; a
// report that differs only in its time would not be.
func Instance(plugin string, i, rev int) *structs.CSIPluginInstance {
	at := epoch.Add(time.Duration(rev) * time.Second)
	info := structs.CSIInfo{
		PluginID:           plugin,
		AllocID:            UUID("plugalloc", i),
		Healthy:            true,
		HealthDescription:  fmt.Sprintf("healthy %d", rev),
		UpdateTime:         at.UnixNano(),
		Provider:           "ebs.csi.example.test",
		ProviderVersion:    "v1.30.0",
		RequiresTopologies: true,
		NodeInfo: &structs.CSINodeInfo{
			ID:                      fmt.Sprintf("i-%017d", i),
			MaxVolumes:              128,
			AccessibleTopology:      &structs.CSITopology{Segments: topology(i)},
			RequiresNodeStageVolume: true,
			SupportsStats:           true,
			SupportsExpand:          true,
		},
	}

	return &structs.CSIPluginInstance{
		Kind:    structs.CSIKindNode,
		NodeID:  UUID("node", i),
		CSIInfo: info,
	}
}

func topology(i int) map[string]string {
	return map[string]string{
		"zone": fmt.Sprintf("zone-%d", i%3),
		"rack": fmt.Sprintf("rack-%d", i%64),
	}
}

// Register returns the registration of node i, with its half of each of the plugins.
func Register(i, rev int, plugins ...string) *structs.NodeRegisterRequest {
	p := &structs.NodeRegisterRequest{Node: Node(i)}
	p.Now = int64(rev + 1)
	for _, id := range plugins {
		half := Instance(id, i, rev)
		p.CSI = append(p.CSI, half)
	}
	return p
}

// VolumeID is the ID of volume i.
func VolumeID(i int) string {
	return fmt.Sprintf("vol-%08d", i)
}

// Volume returns a volume that many nodes can read or one can write.
func Volume(id string, i int) *structs.CSIVolume {
	return &structs.CSIVolume{
		ID: id, Namespace: structs.DefaultNamespace,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			Name:                 id,
			ExternalID:           "ext-" + UUID("vol", i),
			PluginID:             Plugin,
			RequestedCapacityMin: 10 << 30,
			RequestedCapacityMax: 20 << 30,
			RequestedCapabilities: []*structs.CSIVolumeCapability{
				{AccessMode: structs.CSIMultiNodeReader, AttachmentMode: structs.CSIFileSystem},
				{AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem},
			},
			MountOptions: &structs.CSIMountOptions{
				FSType:     "ext4",
				MountFlags: []string{"noatime"},
			},
			Parameters: map[string]string{"type": "gp3", "encrypted": "true"},
			Context:    map[string]string{"partition": "", "fsid": "0"},
		},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{
			State:      structs.VolumeReady,
			Capacity:   10 << 30,
			Topologies: []*structs.CSITopology{{Segments: topology(i)}},
		},
	}
}

// Claim returns the claim of allocation a, which runs on node a % nodes.
func Claim(volume string, a int, mode string) *structs.CSIClaim {
	c := &structs.CSIClaim{
		Namespace:      structs.DefaultNamespace,
		VolumeID:       volume,
		AllocID:        UUID("alloc", a),
		Mode:           mode,
		AccessMode:     structs.CSIMultiNodeReader,
		AttachmentMode: structs.CSIFileSystem,
	}

	if mode == structs.ClaimWrite {
		c.AccessMode = structs.CSISingleNodeWriter
	}

	return c
}

// Alloc returns allocation a of the job, which runs on node a % nodes.
func Alloc(a, nodes int) *structs.Allocation {
	return &structs.Allocation{
		ID:            UUID("alloc", a),
		Namespace:     structs.DefaultNamespace,
		EvalID:        UUID("eval", 0),
		Name:          fmt.Sprintf("%s.%s[%d]", JobID, group, a),
		NodeID:        UUID("node", a%nodes),
		NodeName:      fmt.Sprintf("node-%06d", a%nodes),
		JobID:         JobID,
		TaskGroup:     group,
		Resources:     &structs.Resources{CPU: 1, MemoryMB: 1},
		DesiredStatus: structs.AllocDesiredRun,
		ClientStatus:  structs.AllocRunning,
	}
}

// Job returns a job of count copies that need next to nothing.
func Job(count int) *structs.Job {
	task := &structs.Task{
		Name:      group,
		Driver:    "exec",
		Config:    map[string]any{"command": "/bin/true"},
		Resources: &structs.Resources{CPU: 1, MemoryMB: 10},
	}

	return &structs.Job{
		ID:          JobID,
		Name:        JobID,
		Namespace:   structs.DefaultNamespace,
		Type:        structs.JobBatch,
		Priority:    50,
		Datacenters: []string{"*"},
		TaskGroups: []*structs.TaskGroup{{
			Name:  group,
			Count: count,
			Tasks: []*structs.Task{task},
		}},
	}
}
