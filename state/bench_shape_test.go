package state

import (
	"crypto/sha1"
	"fmt"
	"testing"
	"time"

	"berth/structs"
)

// The shapes here are those of bench/peer/shape, field by field where both sides have the field: the same
// fleet, plugin, volumes and claims, so that a row of one table can stand beside a row of the other.

const (
	benchPlugin = "ebs0"
	benchJob    = "bench-job"
	benchShared = "vol-shared"
	benchGroup  = "web"
)

var benchEpoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// benchUUID spreads evenly and is the same in every run.
func benchUUID(kind string, i int) string {
	h := sha1.Sum(fmt.Appendf(nil, "%s/%d", kind, i))
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

func benchNode(i int) *structs.Node {
	return &structs.Node{
		ID: benchUUID("node", i), SecretID: benchUUID("secret", i), Datacenter: "dc1", Name: fmt.Sprintf("node-%06d", i),
		HTTPAddr: fmt.Sprintf("10.%d.%d.%d:4646", (i>>16)&255, (i>>8)&255, i&255), NodePool: structs.DefaultNodePool,
		Attributes: map[string]string{
			"kernel.name": "linux", "arch": "amd64", "os.name": "debian", "os.version": "13", "berth.version": "1.0.0", "driver.exec": "1",
			"unique.hostname": fmt.Sprintf("node-%06d", i), "platform.aws.az": fmt.Sprintf("zone-%d", i%3), "cpu.totalcompute": "4000",
		},
		Drivers: map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true, UpdateTime: benchEpoch}},
		NodeResources: &structs.NodeResources{CPU: structs.NodeCPUResources{CpuShares: 4000000},
			Memory: structs.NodeMemoryResources{MemoryMB: 8 << 20}, Disk: structs.NodeDiskResources{DiskMB: 100 << 20}},
		ReservedResources: &structs.NodeReservedResources{}, NodeClass: "storage", ComputedClass: "v1:0123456789abcdef",
		SchedulingEligibility: structs.NodeEligible, Status: structs.NodeReady, StatusUpdatedAt: benchEpoch.Unix(),
	}
}

// benchInstance is what node i says of its half of the plugin. A change of rev is one that is stored: what
// differs in the time of the report alone is no news.
func benchInstance(plugin string, i, rev int) *structs.CSIPluginInstance {
	return &structs.CSIPluginInstance{Kind: structs.CSIKindNode, NodeID: benchUUID("node", i), CSIInfo: structs.CSIInfo{
		PluginID: plugin, AllocID: benchUUID("plugalloc", i), Healthy: true, HealthDescription: fmt.Sprintf("healthy %d", rev),
		UpdateTime: benchEpoch.Add(time.Duration(rev) * time.Second).UnixNano(),
		Provider:   "ebs.csi.example.test", ProviderVersion: "v1.30.0", RequiresTopologies: true,
		NodeInfo: &structs.CSINodeInfo{ID: fmt.Sprintf("i-%017d", i), MaxVolumes: 128,
			AccessibleTopology:      &structs.CSITopology{Segments: benchTopology(i)},
			RequiresNodeStageVolume: true, SupportsStats: true, SupportsExpand: true},
	}}
}

func benchTopology(i int) map[string]string {
	return map[string]string{"zone": fmt.Sprintf("zone-%d", i%3), "rack": fmt.Sprintf("rack-%d", i%64)}
}

func benchRegister(i, rev int, plugins ...string) *structs.NodeRegisterRequest {
	p := &structs.NodeRegisterRequest{Node: benchNode(i), WriteOptions: structs.WriteOptions{Now: int64(rev + 1)}}
	for _, id := range plugins {
		p.CSI = append(p.CSI, benchInstance(id, i, rev))
	}
	return p
}

func benchVolumeID(i int) string { return fmt.Sprintf("vol-%08d", i) }

func benchVolume(id string, i int) *structs.CSIVolume {
	return &structs.CSIVolume{ID: id, Name: id, ExternalID: "ext-" + benchUUID("vol", i), Namespace: structs.DefaultNamespace, PluginID: benchPlugin,
		State: structs.VolumeReady, Capacity: 10 << 30, RequestedCapacityMin: 10 << 30, RequestedCapacityMax: 20 << 30,
		RequestedCapabilities: []*structs.CSIVolumeCapability{
			{AccessMode: structs.CSIMultiNodeReader, AttachmentMode: structs.CSIFileSystem},
			{AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem}},
		Topologies:   []*structs.CSITopology{{Segments: benchTopology(i)}},
		MountOptions: &structs.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime"}},
		Parameters:   map[string]string{"type": "gp3", "encrypted": "true"}, Context: map[string]string{"partition": "", "fsid": "0"}}
}

// benchClaim is the claim of allocation a, which runs on node a % nodes.
func benchClaim(volume string, a int, mode string) *structs.CSIClaim {
	c := &structs.CSIClaim{Namespace: structs.DefaultNamespace, VolumeID: volume, AllocID: benchUUID("alloc", a), Mode: mode,
		AccessMode: structs.CSIMultiNodeReader, AttachmentMode: structs.CSIFileSystem}
	if mode == structs.ClaimWrite {
		c.AccessMode = structs.CSISingleNodeWriter
	}
	return c
}

func benchAlloc(a, nodes int) *structs.Allocation {
	return &structs.Allocation{ID: benchUUID("alloc", a), Namespace: structs.DefaultNamespace, EvalID: benchUUID("eval", 0),
		Name: fmt.Sprintf("%s.%s[%d]", benchJob, benchGroup, a), NodeID: benchUUID("node", a%nodes), NodeName: fmt.Sprintf("node-%06d", a%nodes),
		JobID: benchJob, TaskGroup: benchGroup, Resources: &structs.Resources{CPU: 1, MemoryMB: 1},
		DesiredStatus: structs.AllocDesiredRun, ClientStatus: structs.AllocRunning}
}

// benchFill says what a store holds when a measurement begins.
type benchFill struct {
	nodes, volumes, claimsEach int
	shared                     int // claims of the shared volume; -1: there is no shared volume
	allocs                     int
	pluginAllocs               bool // one allocation for each node's half of the plugin
	plugins                    []string
}

// benchStore is a filled store and the index of its last entry.
type benchStore struct {
	tb    testing.TB
	s     *Store
	index uint64
}

func (f benchFill) store(tb testing.TB) *benchStore {
	b := &benchStore{tb: tb, s: New(), index: 10}
	if f.plugins == nil {
		f.plugins = []string{benchPlugin}
	}
	b.many(f.nodes, func(tx *Write, i int) error { return NodeRegister(tx, benchRegister(i, 0, f.plugins...)) })
	b.many(1, func(tx *Write, _ int) error {
		return JobRegister(tx, &structs.JobRegisterRequest{Job: &structs.Job{ID: benchJob, Name: benchJob, Type: structs.JobBatch, Priority: 50,
			Datacenters: []string{"*"}, TaskGroups: []*structs.TaskGroup{{Name: benchGroup, Count: f.allocs, Tasks: []*structs.Task{{
				Name: benchGroup, Driver: "exec", Resources: &structs.Resources{CPU: 1, MemoryMB: 10}}}}}}})
	})
	b.many(f.allocs, func(tx *Write, i int) error { allocs.put(tx, benchAlloc(i, f.nodes)); return nil })
	if f.pluginAllocs {
		b.many(f.nodes, func(tx *Write, i int) error {
			a := benchAlloc(i, f.nodes)
			a.ID, a.CSIPlugins = benchUUID("plugalloc", i), []string{benchPlugin}
			allocs.put(tx, a)
			return nil
		})
	}
	b.many(f.volumes, func(tx *Write, i int) error { return b.putVolume(tx, benchVolumeID(i), i) })
	b.many(f.volumes*f.claimsEach, func(tx *Write, i int) error {
		return VolumeClaim(tx, &structs.CSIVolumeClaimRequest{Claims: []*structs.CSIClaim{
			benchClaim(benchVolumeID(i/f.claimsEach), i%max(1, f.allocs), structs.ClaimRead)}})
	})
	if f.shared >= 0 {
		b.many(1, func(tx *Write, _ int) error { return b.putVolume(tx, benchShared, 1<<20) })
		b.many(f.shared, func(tx *Write, i int) error {
			return VolumeClaim(tx, &structs.CSIVolumeClaimRequest{Claims: []*structs.CSIClaim{benchClaim(benchShared, i, structs.ClaimRead)}})
		})
	}
	return b
}

func (b *benchStore) putVolume(tx *Write, id string, i int) error {
	return VolumePut(tx, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{benchVolume(id, i)}})
}

// many applies n entries in large batches.
func (b *benchStore) many(n int, fn func(tx *Write, i int) error) {
	b.tb.Helper()
	for i := 0; i < n; {
		batch := b.s.Batch()
		for end := min(n, i+512); i < end; i++ {
			b.index++
			if err := batch.Apply(b.index, func(tx *Write) error { return fn(tx, i) }); err != nil {
				b.tb.Fatal(err)
			}
		}
		batch.Commit()
	}
}

// do applies one entry in a transaction of its own, as the peer does each of its entries.
func (b *benchStore) do(fn func(tx *Write) error) {
	b.index++
	if err := b.s.Write(b.index, fn); err != nil {
		b.tb.Helper()
		b.tb.Fatal(err)
	}
}
