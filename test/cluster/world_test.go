package cluster_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/state"
	"berth/structs"
	"berth/test/cluster"
)

// world is rows to claim with: volumes of one writer, and allocations on nodes that exist as rows alone.
type world struct {
	c      *cluster.Cluster
	allocs []string
	nodes  map[string]string // of an allocation
}

// newWorld makes volumes v1 to v3 and so many allocations.
func newWorld(c *cluster.Cluster, allocs int) *world {
	c.T.Helper()
	w := &world{
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
				ID:         id,
				ExternalID: "disk-" + id,
				PluginID:   "p",
				RequestedCapabilities: []*structs.CSIVolumeCapability{
					{AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem}},
			}}})
	}
	job := aJob("claimants")
	job.Job.TaskGroups[0].Count = allocs
	cluster.Must(c, s, structs.JobRegister, job)
	c.Rows(s, "the allocations are placed", func(tx *state.ReadTx) bool {
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

func (w *world) claim(s *cluster.Server, limit time.Duration, volume, alloc string) error {
	_, err := w.take(s, limit, volume, alloc)
	return err
}

func (w *world) take(s *cluster.Server, limit time.Duration, volume, alloc string) (*structs.CSIClaim,
	error) {
	node := w.nodes[alloc]
	resp, err := within(s, limit, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{
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

func (w *world) release(s *cluster.Server, limit time.Duration, volume, alloc string) error {
	node := w.nodes[alloc]
	_, err := within(s, limit, structs.CSIVolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
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

// look reads a claim consistently, and returns nil if there is none.
func (w *world) look(s *cluster.Server, limit time.Duration, volume, alloc string) (*structs.CSIClaim,
	error) {
	node := w.nodes[alloc]
	resp, err := within(s, limit, structs.CSIClaimGet, &structs.CSIClaimGetRequest{
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

// leadershipBook records the log messages of servers that gain and lose leadership.
type leadershipBook struct {
	mu    sync.Mutex
	notes map[string][]string // by server
}

func (b *leadershipBook) logger() hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Info, Output: io.Discard})
	l.RegisterSink(b)
	return l
}

// Accept is called for each line of the log (hclog.SinkAdapter).
func (b *leadershipBook) Accept(name string, _ hclog.Level, msg string, _ ...any) {
	if !strings.HasPrefix(msg, "leadership ") {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.notes == nil {
		b.notes = map[string][]string{}
	}
	server, _, _ := strings.Cut(name, ".")
	b.notes[server] = append(b.notes[server], msg)
}

func (b *leadershipBook) last(server string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if notes := b.notes[server]; len(notes) > 0 {
		return notes[len(notes)-1]
	}
	return ""
}

// check fails unless each leadership ended before the next one of the server, and at the end.
func (b *leadershipBook) check(t *testing.T, server string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	leads := false
	for _, note := range b.notes[server] {
		gained := note == "leadership gained"
		if gained && leads {
			t.Errorf("%s gained leadership while its loops ran: %v", server, b.notes[server])
		}
		leads = gained
	}
	if leads {
		t.Errorf("the loops of %s did not end: %v", server, b.notes[server])
	}
}
