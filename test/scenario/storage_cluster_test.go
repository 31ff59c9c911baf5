package scenario

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/keyring"
	"berth/internal/opsocket"
	"berth/rpc"
	"berth/server"
	"berth/state"
	"berth/structs"
	"berth/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// attaching is a plugin that attaches volumes, with a controller on every node. Every node reaches every
// volume.
var attaching = cluster.Plugin{
	ID:         "p",
	Controller: true,
	Attach:     true,
}

// storageCluster is a cluster with the storage of its plugin.
type storageCluster struct {
	*cluster.Cluster
	t       *testing.T
	storage *cluster.Storage
}

// startStorageCluster starts servers that record a silent node as down after about a second.
func startStorageCluster(t *testing.T, servers int, options ...cluster.Option) *storageCluster {
	t.Helper()
	t.Parallel()
	options = append(options, func(cfg *server.Config) {
		cfg.HeartbeatTTL = time.Second
		cfg.HeartbeatGrace = time.Second
	})
	c := cluster.New(t, servers, options...)
	return &storageCluster{c, t, cluster.NewStorage(c)}
}

// startWithVolume starts servers, two nodes, and the registered volume v1 that each node reaches.
func startWithVolume(
	t *testing.T, servers int, options ...cluster.Option,
) (s *storageCluster, n1, n2 *cluster.Node) {
	t.Helper()
	s = startStorageCluster(t, servers, options...)
	n1 = s.addNode("n1", attaching)
	n2 = s.addNode("n2", attaching)
	s.registerVolume("v1")
	return s, n1, n2
}

// saveSnapshot returns an archive of the state of the servers.
func (s *storageCluster) saveSnapshot() *bytes.Buffer {
	s.t.Helper()
	var archive bytes.Buffer
	if err := s.Leader().Current().SnapshotSave(s.t.Context(), &archive); err != nil {
		s.t.Fatal(err)
	}
	return &archive
}

func (s *storageCluster) restoreSnapshot(archive *bytes.Buffer) {
	s.t.Helper()
	if err := s.Leader().Current().SnapshotRestore(s.t.Context(), archive, keyring.RestoreKeys{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *storageCluster) addNode(name string, p cluster.Plugin, more ...cluster.NodeOption) *cluster.Node {
	s.t.Helper()
	return s.AddNode(name, s.storage, append(more, cluster.WithPlugin(p))...)
}

var oneWriter = []*structs.CSIVolumeCapability{{AccessMode: structs.CSISingleNodeWriter,
	AttachmentMode: structs.CSIFileSystem}}

// registerVolume registers a volume that exists at the plugin.
func (s *storageCluster) registerVolume(id string) {
	s.t.Helper()
	s.storage.AddVolume("disk-"+id, "")
	cluster.Must(s.Cluster, s.Leader(), structs.CSIVolumeRegister,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{{
			ID: id,
			CSIVolumeSpec: structs.CSIVolumeSpec{
				ExternalID:            "disk-" + id,
				PluginID:              "p",
				RequestedCapabilities: oneWriter,
			},
		}}})
}

// registerJob registers a job with a number of allocations that write to a volume, "" for none.
func (s *storageCluster) registerJob(id string, count int, volume string, edit ...func(*structs.Job)) {
	s.t.Helper()
	group := &structs.TaskGroup{
		Name:  "g",
		Count: count,
		Tasks: []*structs.Task{{
			Name:      "t",
			Driver:    "exec",
			Config:    map[string]any{"command": "sleep"},
			Resources: &structs.Resources{CPU: 100, MemoryMB: 64},
		}},
	}
	if volume != "" {
		group.Volumes = map[string]*structs.VolumeRequest{"data": {
			Name:           "data",
			Type:           "csi",
			Source:         volume,
			AccessMode:     structs.CSISingleNodeWriter,
			AttachmentMode: structs.CSIFileSystem,
		}}
	}
	job := &structs.Job{
		ID:          id,
		Type:        structs.JobService,
		Datacenters: []string{"dc1"},
		TaskGroups:  []*structs.TaskGroup{group},
	}
	for _, e := range edit {
		e(job)
	}
	cluster.Must(s.Cluster, s.Leader(), structs.JobRegister,
		&structs.JobRegisterRequest{Job: job})
}

func (s *storageCluster) stopJob(job string) {
	s.t.Helper()
	cluster.Must(s.Cluster, s.Leader(), structs.JobDeregister,
		&structs.JobDeregisterRequest{JobID: job})
}

// allocsOfJob returns the allocations of a job for which keep is true, ordered by name.
func allocsOfJob(tx *state.ReadTx, job string,
	keep func(*structs.Allocation) bool) (out []*structs.Allocation) {
	for a := range state.AllocsByJob(tx, structs.DefaultNamespace, job) {
		if keep(a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *structs.Allocation) int {
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

func isRunning(a *structs.Allocation) bool {
	return !a.Terminal() && a.ClientStatus == structs.AllocRunning
}

// awaitRunning waits until a number of allocations of a job run, and returns them.
func (s *storageCluster) awaitRunning(job string, count int) (out []*structs.Allocation) {
	s.t.Helper()
	s.AwaitRows(s.Leader(), job+" runs", func(tx *state.ReadTx) bool {
		out = allocsOfJob(tx, job, isRunning)
		return len(out) == count
	})
	return out
}

// awaitEnded waits until all allocations of a job have ended on their nodes.
func (s *storageCluster) awaitEnded(job string) {
	s.t.Helper()
	s.AwaitRows(s.Leader(), job+" has ended", func(tx *state.ReadTx) bool {
		return len(allocsOfJob(tx, job, func(a *structs.Allocation) bool {
			return !a.ClientTerminal()
		})) == 0
	})
}

// awaitBlocked waits until a job has a blocked evaluation and returns its reasons.
func (s *storageCluster) awaitBlocked(job string) (reasons string) {
	s.t.Helper()
	s.AwaitRows(s.Leader(), job+" is blocked", func(tx *state.ReadTx) bool {
		for e := range state.EvalsByJob(tx, structs.DefaultNamespace, job) {
			if e.Status != structs.EvalBlocked {
				continue
			}
			var all []string
			for _, metric := range e.FailedTGAllocs {
				for _, r := range metric.Rejections {
					all = append(all, r.Filter+": "+r.Reason)
				}
			}
			reasons = strings.Join(all, "; ")
			return true
		}
		return false
	})
	return reasons
}

// awaitNodeStatus waits until the row of a node has a status.
func (s *storageCluster) awaitNodeStatus(n *cluster.Node, want string) {
	s.t.Helper()
	s.AwaitRows(s.Leader(), n.Name+" is "+want, func(tx *state.ReadTx) bool {
		row := state.Node(tx, n.ID)
		return row != nil && row.Status == want
	})
}

func (s *storageCluster) checkText(text string, wanted ...string) {
	s.t.Helper()
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			s.t.Errorf("%q does not say %q", text, w)
		}
	}
}

// checkMounts fails the test unless exactly these mounts of the volume exist, each "node alloc".
func (s *storageCluster) checkMounts(external string, want ...string) {
	s.t.Helper()
	if got := s.storage.Mounts(external); !slices.Equal(got, want) {
		s.t.Errorf("%s is mounted by %v, want %v", external, got, want)
	}
}

// hostAndOther returns the node of an allocation, and the other one of two nodes.
func hostAndOther(a *structs.Allocation, n1, n2 *cluster.Node) (host, other *cluster.Node) {
	if a.NodeID == n1.ID {
		return n1, n2
	}
	return n2, n1
}

// callOnce calls a method at the leader, over its operator socket, and returns its error.
func callOnce[Req, Resp any](s *storageCluster, m structs.Method[Req, Resp], req *Req) error {
	ctx, cancel := context.WithTimeout(opsocket.Mark(context.Background()), cluster.Patience)
	defer cancel()
	_, err := rpc.Call(ctx, s.Leader(), m, req)
	return err
}
