// Package shape builds the fixed objects every benchmark uses. The same field
// values should be used when measuring another store, so that the work is the
// same. Everything is deterministic.
package shape

import (
	"crypto/sha1"
	"fmt"
	"time"

	"github.com/hashicorp/nomad/nomad/structs"
)

const (
	PluginID        = "ebs0"
	PluginProvider  = "ebs.csi.example.test"
	PluginVersion   = "v1.30.0"
	MultiReaderVol  = "vol-shared"
	NS              = "default"
	JobID           = "bench-job"
	TaskGroup       = "web"
	VolumeIDFormat  = "vol-%08d"
	NodeNameFormat  = "node-%06d"
	ExtNodeIDFormat = "i-%017d"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// UUID is a deterministic, uniformly spread UUID-shaped string.
func UUID(kind string, i int) string {
	h := sha1.Sum([]byte(fmt.Sprintf("%s/%d", kind, i)))
	return fmt.Sprintf("%x-%x-%x-%x-%x",
		h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

func NodeID(i int) string  { return UUID("node", i) }
func AllocID(i int) string { return UUID("alloc", i) }
func VolID(i int) string   { return fmt.Sprintf(VolumeIDFormat, i) }

// Info is the node-plugin fingerprint of node i. rev changes the update time,
// which is the "trivial change".
func Info(i, rev int) *structs.CSIInfo {
	return &structs.CSIInfo{
		PluginID:           PluginID,
		AllocID:            UUID("plugalloc", i),
		Healthy:            true,
		HealthDescription:  "healthy",
		UpdateTime:         t0.Add(time.Duration(rev) * time.Second),
		Provider:           PluginProvider,
		ProviderVersion:    PluginVersion,
		RequiresTopologies: true,
		NodeInfo: &structs.CSINodeInfo{
			ID:         fmt.Sprintf(ExtNodeIDFormat, i),
			MaxVolumes: 128,
			AccessibleTopology: &structs.CSITopology{Segments: map[string]string{
				"zone": fmt.Sprintf("zone-%d", i%3),
				"rack": fmt.Sprintf("rack-%d", i%64),
			}},
			RequiresNodeStageVolume: true,
			SupportsStats:           true,
			SupportsExpand:          true,
		},
	}
}

// Node is a lean node: 8 attributes, one driver, one CSI node plugin.
func Node(i, rev int) *structs.Node {
	n := BareNode(i)
	n.CSINodePlugins = map[string]*structs.CSIInfo{PluginID: Info(i, rev)}
	return n
}

// BareNode is Node without a CSI plugin.
func BareNode(i int) *structs.Node {
	n := &structs.Node{
		ID:         NodeID(i),
		SecretID:   UUID("secret", i),
		Datacenter: "dc1",
		Name:       fmt.Sprintf(NodeNameFormat, i),
		HTTPAddr:   fmt.Sprintf("10.%d.%d.%d:4646", (i>>16)&255, (i>>8)&255, i&255),
		NodePool:   "default",
		Attributes: map[string]string{
			"kernel.name":      "linux",
			"arch":             "amd64",
			"os.name":          "debian",
			"os.version":       "13",
			"nomad.version":    "1.6.1",
			"driver.exec":      "1",
			"unique.hostname":  fmt.Sprintf(NodeNameFormat, i),
			"platform.aws.az":  fmt.Sprintf("zone-%d", i%3),
			"cpu.totalcompute": "4000",
		},
		Drivers: map[string]*structs.DriverInfo{
			"exec": {
				Detected:   true,
				Healthy:    true,
				UpdateTime: t0,
			},
		},
		NodeResources:         resources(),
		ReservedResources:     &structs.NodeReservedResources{},
		NodeClass:             "storage",
		SchedulingEligibility: structs.NodeSchedulingEligible,
		Status:                structs.NodeStatusReady,
		StatusUpdatedAt:       t0.Unix(),
	}
	if err := n.ComputeClass(); err != nil {
		panic(err)
	}
	return n
}

// Volume i: registered, unclaimed, capabilities for multi-reader and single-writer.
func Volume(i int) *structs.CSIVolume { return VolumeNamed(VolID(i), i) }

func VolumeNamed(id string, i int) *structs.CSIVolume {
	v := structs.NewCSIVolume(id, 0)
	v.Name = id
	v.ExternalID = "ext-" + UUID("vol", i)
	v.Namespace = NS
	v.PluginID = PluginID
	v.Provider = PluginProvider
	v.ProviderVersion = PluginVersion
	v.Capacity = 10 << 30
	v.RequestedCapacityMin = 10 << 30
	v.RequestedCapacityMax = 20 << 30
	v.RequestedCapabilities = []*structs.CSIVolumeCapability{
		{AccessMode: structs.CSIVolumeAccessModeMultiNodeReader,
			AttachmentMode: structs.CSIVolumeAttachmentModeFilesystem},
		{AccessMode: structs.CSIVolumeAccessModeSingleNodeWriter,
			AttachmentMode: structs.CSIVolumeAttachmentModeFilesystem},
	}
	v.Topologies = []*structs.CSITopology{{
		Segments: map[string]string{
			"zone": fmt.Sprintf("zone-%d", i%3),
			"rack": fmt.Sprintf("rack-%d", i%64),
		},
	}}
	v.MountOptions = &structs.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime"}}
	v.Parameters = map[string]string{"type": "gp3", "encrypted": "true"}
	v.Context = map[string]string{"partition": "", "fsid": "0"}
	return v
}

// Claim of volume by alloc a. Volume's node of alloc a is a % nodes.
func Claim(a, nodes int, mode structs.CSIVolumeClaimMode) *structs.CSIVolumeClaim {
	n := a % nodes
	am := structs.CSIVolumeAccessModeMultiNodeReader
	if mode == structs.CSIVolumeClaimWrite {
		am = structs.CSIVolumeAccessModeSingleNodeWriter
	}
	return &structs.CSIVolumeClaim{
		AllocationID:   AllocID(a),
		NodeID:         NodeID(n),
		ExternalNodeID: fmt.Sprintf(ExtNodeIDFormat, n),
		Mode:           mode,
		AccessMode:     am,
		AttachmentMode: structs.CSIVolumeAttachmentModeFilesystem,
		State:          structs.CSIVolumeClaimStateTaken,
	}
}

// AddClaim writes a claim straight into a volume object (for set-up only).
func AddClaim(v *structs.CSIVolume, c *structs.CSIVolumeClaim) {
	if c.Mode == structs.CSIVolumeClaimWrite {
		v.WriteAllocs[c.AllocationID] = nil
		v.WriteClaims[c.AllocationID] = c
	} else {
		v.ReadAllocs[c.AllocationID] = nil
		v.ReadClaims[c.AllocationID] = c
	}
	v.AccessMode = c.AccessMode
	v.AttachmentMode = c.AttachmentMode
}

// Alloc a, running on node a % nodes; job is shared by all.
func Alloc(a, nodes int, job *structs.Job) *structs.Allocation {
	return &structs.Allocation{
		ID:            AllocID(a),
		EvalID:        UUID("eval", 0),
		NodeID:        NodeID(a % nodes),
		NodeName:      fmt.Sprintf(NodeNameFormat, a%nodes),
		Namespace:     NS,
		JobID:         JobID,
		Job:           job,
		TaskGroup:     TaskGroup,
		Name:          fmt.Sprintf("%s.%s[%d]", JobID, TaskGroup, a),
		DesiredStatus: structs.AllocDesiredStatusRun,
		ClientStatus:  structs.AllocClientStatusRunning,
		AllocatedResources: &structs.AllocatedResources{
			Tasks: map[string]*structs.AllocatedTaskResources{
				TaskGroup: {
					Cpu:    structs.AllocatedCpuResources{CpuShares: 1},
					Memory: structs.AllocatedMemoryResources{MemoryMB: 1},
				},
			},
		},
	}
}

// Job is small: one group, one task.
func Job(count int) *structs.Job {
	j := &structs.Job{
		Region:      "global",
		ID:          JobID,
		Name:        JobID,
		Namespace:   NS,
		NodePool:    "default",
		Type:        structs.JobTypeBatch,
		Priority:    50,
		Datacenters: []string{"*"},
		Status:      structs.JobStatusRunning,
		TaskGroups: []*structs.TaskGroup{{
			Name:          TaskGroup,
			Count:         count,
			EphemeralDisk: &structs.EphemeralDisk{SizeMB: 10},
			RestartPolicy: structs.NewRestartPolicy(structs.JobTypeBatch),
			Tasks: []*structs.Task{{
				Name:      TaskGroup,
				Driver:    "exec",
				Config:    map[string]any{"command": "/bin/true"},
				Resources: &structs.Resources{CPU: 1, MemoryMB: 10},
				LogConfig: &structs.LogConfig{MaxFiles: 1, MaxFileSizeMB: 1},
			}},
		}},
	}
	return j
}

// Plugin is the plugin object N registered nodes lead to.
func Plugin(n int) *structs.CSIPlugin {
	p := structs.NewCSIPlugin(PluginID, 1)
	p.Provider = PluginProvider
	p.Version = PluginVersion
	for i := 0; i < n; i++ {
		p.Nodes[NodeID(i)] = Info(i, 0)
	}
	p.NodesHealthy = n
	p.NodesExpected = n
	return p
}
