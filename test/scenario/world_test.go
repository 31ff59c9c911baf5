package scenario

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/rpc"
	"berth/server"
	"berth/state"
	"berth/structs"
	"berth/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// attaching is a plugin with a controller on every node; every node reaches every volume.
var attaching = cluster.Plugin{
	ID:         "p",
	Controller: true,
	Attach:     true,
}

// story is a cluster with the storage behind its plugin.
type story struct {
	*cluster.Cluster
	t       *testing.T
	storage *cluster.Storage
}

// begin starts servers that take a node for down about a second after it fell silent.
func begin(t *testing.T, servers int) *story {
	t.Helper()
	t.Parallel()
	c := cluster.New(t, servers, func(cfg *server.Config) {
		cfg.HeartbeatTTL = time.Second
		cfg.HeartbeatGrace = time.Second
	})
	return &story{c, t, cluster.NewStorage(c)}
}

func (s *story) node(name string, p cluster.Plugin) *cluster.Node {
	s.t.Helper()
	return s.AddNode(name, s.storage, cluster.WithPlugin(p))
}

var oneWriter = []*structs.CSIVolumeCapability{{AccessMode: structs.CSISingleNodeWriter,
	AttachmentMode: structs.CSIFileSystem}}

// volume registers a volume that is there.
func (s *story) volume(id string) {
	s.t.Helper()
	s.storage.Put("disk-"+id, "")
	cluster.Must(s.Cluster, s.Leader(), structs.CSIVolumeRegister,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{{
			ID:                    id,
			ExternalID:            "disk-" + id,
			PluginID:              "p",
			RequestedCapabilities: oneWriter,
		}}})
}

// job registers a job of so many allocations that write to a volume, "" for none.
func (s *story) job(id string, count int, volume string, edit ...func(*structs.Job)) {
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

func (s *story) stop(job string) {
	s.t.Helper()
	cluster.Must(s.Cluster, s.Leader(), structs.JobDeregister,
		&structs.JobDeregisterRequest{JobID: job})
}

// allocs are the allocations of a job that are for which keep is true, by name.
func allocs(tx *state.ReadTx, job string, keep func(*structs.Allocation) bool) (out []*structs.Allocation) {
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

func running(a *structs.Allocation) bool {
	return !a.Terminal() && a.ClientStatus == structs.AllocRunning
}

// runs waits until so many allocations of a job run.
func (s *story) runs(job string, count int) (out []*structs.Allocation) {
	s.t.Helper()
	s.Rows(s.Leader(), job+" runs", func(tx *state.ReadTx) bool {
		out = allocs(tx, job, running)
		return len(out) == count
	})
	return out
}

// ended waits until nothing of a job is left that has not ended.
func (s *story) ended(job string) {
	s.t.Helper()
	s.Rows(s.Leader(), job+" has ended", func(tx *state.ReadTx) bool {
		return len(allocs(tx, job, func(a *structs.Allocation) bool {
			return !a.ClientTerminal()
		})) == 0
	})
}

// blocked waits until a job has a blocked evaluation and returns the reasons it gives.
func (s *story) blocked(job string) (reasons string) {
	s.t.Helper()
	s.Rows(s.Leader(), job+" is blocked", func(tx *state.ReadTx) bool {
		for e := range state.EvalsByJob(tx, structs.DefaultNamespace, job) {
			if e.Status != structs.EvalBlocked {
				continue
			}
			var all []string
			for _, metric := range e.FailedTGAllocs {
				for _, r := range metric.Refusals {
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

// status waits until a node has a status.
func (s *story) status(n *cluster.Node, want string) {
	s.t.Helper()
	s.Rows(s.Leader(), n.Name+" is "+want, func(tx *state.ReadTx) bool {
		row := state.Node(tx, n.ID)
		return row != nil && row.Status == want
	})
}

func (s *story) says(text string, wanted ...string) {
	s.t.Helper()
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			s.t.Errorf("%q does not say %q", text, w)
		}
	}
}

// mounted fails the test unless exactly these have the volume mounted: "node alloc".
func (s *story) mounted(external string, want ...string) {
	s.t.Helper()
	if got := s.storage.Mounts(external); !slices.Equal(got, want) {
		s.t.Errorf("%s is mounted by %v, want %v", external, got, want)
	}
}

// other is the node of two that an allocation is not on.
func other(a *structs.Allocation, n1, n2 *cluster.Node) (its, not *cluster.Node) {
	if a.NodeID == n1.ID {
		return n1, n2
	}
	return n2, n1
}

// ask calls a method and hands its error back, within the patience of a test.
func ask[Req, Resp any](s *story, m structs.Method[Req, Resp], req *Req) error {
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Patience)
	defer cancel()
	_, err := rpc.Call(ctx, s.Leader(), m, req)
	return err
}
