package cluster_test

import (
	"fmt"
	"slices"
	"time"

	"berth/state"
	"berth/structs"
	"berth/test/cluster"
)

// claimFixture has rows for claims: volumes of one writer, and allocations on nodes that exist only as rows.
type claimFixture struct {
	c      *cluster.Cluster
	allocs []string
	nodes  map[string]string // by allocation
}

// newClaimFixture registers two nodes, the volumes v1 to v3 and a job with a number of allocations.
func newClaimFixture(c *cluster.Cluster, allocs int) *claimFixture {
	c.T.Helper()
	w := &claimFixture{
		c:     c,
		nodes: map[string]string{},
	}
	s := c.Leader()
	for i := range 2 {
		id := fmt.Sprintf("node%d", i)
		cluster.Must(c, s, structs.NodeRegister, &structs.NodeRegisterRequest{
			Node: &structs.Node{
				ID:         id,
				SecretID:   id,
				Name:       id,
				Datacenter: "dc1",
				Status:     structs.NodeReady,
				Drivers:    map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}},
				NodeResources: &structs.NodeResources{
					CPU:    structs.NodeCPUResources{CpuShares: 9000},
					Memory: structs.NodeMemoryResources{MemoryMB: 9000},
					Disk:   structs.NodeDiskResources{DiskMB: 90000},
				},
			},
			CSI: []*structs.CSIPluginInstance{{
				Kind:   structs.CSIKindNode,
				NodeID: id,
				CSIInfo: structs.CSIInfo{
					PluginID: "p",
					Healthy:  true,
					NodeInfo: &structs.CSINodeInfo{ID: id},
				},
			}},
		})
	}
	for i := range 3 {
		id := fmt.Sprintf("v%d", i+1)
		cluster.Must(c, s, structs.CSIVolumeRegister,
			&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{{
				ID: id,
				CSIVolumeSpec: structs.CSIVolumeSpec{
					ExternalID: "disk-" + id,
					PluginID:   "p",
					RequestedCapabilities: []*structs.CSIVolumeCapability{
						{AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem}},
				},
			}}})
	}
	job := jobRequest("claimants")
	job.Job.TaskGroups[0].Count = allocs
	cluster.Must(c, s, structs.JobRegister, job)
	c.AwaitRows(s, "the allocations are placed", func(tx *state.ReadTx) bool {
		w.allocs = nil
		for a := range state.AllocsByJob(tx, structs.DefaultNamespace, "claimants") {
			w.allocs = append(w.allocs, a.ID)
			w.nodes[a.ID] = a.NodeID
		}
		return len(w.allocs) == allocs
	})
	slices.Sort(w.allocs)
	return w
}

func (w *claimFixture) claim(s *cluster.Server, limit time.Duration, volume, alloc string) error {
	_, err := w.claimRow(s, limit, volume, alloc)
	return err
}

func (w *claimFixture) claimRow(s *cluster.Server, limit time.Duration, volume,
	alloc string) (*structs.CSIClaim,
	error) {
	node := w.nodes[alloc]
	resp, err := callWithin(s, limit, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{
		NodeID:   node,
		SecretID: node,
		Claims: []*structs.CSIClaim{{
			VolumeID:       volume,
			AllocID:        alloc,
			Mode:           structs.ClaimWrite,
			AccessMode:     structs.CSISingleNodeWriter,
			AttachmentMode: structs.CSIFileSystem,
		}},
	})
	if err != nil {
		return nil, err
	}
	return resp.Claims[0], nil
}

func (w *claimFixture) release(s *cluster.Server, limit time.Duration, volume, alloc string) error {
	node := w.nodes[alloc]
	_, err := callWithin(s, limit, structs.CSIVolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		NodeID:   node,
		SecretID: node,
		Claims: []structs.CSIClaimKey{{
			Namespace: structs.DefaultNamespace,
			VolumeID:  volume,
			AllocID:   alloc,
		}},
	})
	return err
}

// getClaim reads a claim consistently, and returns nil if there is none.
func (w *claimFixture) getClaim(s *cluster.Server, limit time.Duration, volume,
	alloc string) (*structs.CSIClaim,
	error) {
	node := w.nodes[alloc]
	resp, err := callWithin(s, limit, structs.CSIClaimGet, &structs.CSIClaimGetRequest{
		VolumeID: volume,
		AllocID:  alloc,
		NodeID:   node,
		SecretID: node,
	})
	if structs.IsKind(err, structs.KindNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return resp.Claim, nil
}
