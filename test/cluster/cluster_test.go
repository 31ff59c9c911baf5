package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"berth/internal/agenttest"
	"berth/internal/keyring"
	"berth/rpc"
	"berth/server"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

func jobRequest(id string) *structs.JobRegisterRequest {
	return &structs.JobRegisterRequest{Job: &structs.Job{
		ID:          id,
		Type:        structs.JobService,
		Datacenters: []string{"dc1"},
		TaskGroups: []*structs.TaskGroup{{
			Name:  "g",
			Count: 1,
			Tasks: []*structs.Task{{
				Name:   "t",
				Driver: "exec",
				Config: map[string]any{"command": "true"},
			}},
		}},
	}}
}

func hasJob(s *cluster.Server, id string) bool {
	return state.Job(s.Store().Read(), structs.DefaultNamespace, id) != nil
}

// voters returns the addresses of the Raft configuration that a server knows.
func voters(t *testing.T, s *cluster.Server) (addrs []string) {
	t.Helper()
	for _, member := range s.Current().Configuration() {
		if member.Voter {
			addrs = append(addrs, member.Address)
		}
	}
	slices.Sort(addrs)
	return addrs
}

func addresses(servers []*cluster.Server) (addrs []string) {
	for _, s := range servers {
		addrs = append(addrs, s.Current().RPCAddr())
	}
	slices.Sort(addrs)
	return addrs
}

// callWithin calls a method with a short time limit.
func callWithin[Req, Resp any](s *cluster.Server, limit time.Duration, m structs.Method[Req, Resp],
	req *Req) (*Resp, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return rpc.Call(ctx, s, m, agenttest.Request(req))
}

func TestCluster_FormsWithThreeServers(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections)
	leader := c.Leader()
	for _, s := range c.Servers {
		c.Await(s.Name+" knows all members",
			func() bool {
				return slices.Equal(voters(t, s), addresses(c.Servers))
			})
	}
	c.Await("one server leads", func() bool { // another one may be elected meanwhile
		leaders := 0
		for _, s := range c.Servers {
			if s.Leads() {
				leaders++
			}
		}
		return leaders == 1
	})
	c.Await("all say that there is a cluster", func() bool {
		said := 0
		for _, m := range leader.Current().Members() {
			if m.Tags["bootstrapped"] == "1" {
				said++
			}
		}
		return said == 3
	})
	t.Run("a follower forwards writes", func(t *testing.T) {
		for _, s := range c.Others(leader) {
			cluster.Must(c, s, structs.JobRegister, jobRequest("from-"+s.Name))
			if !hasJob(c.Leader(), "from-"+s.Name) {
				t.Errorf("the write that %s acknowledged is not at the leader", s.Name)
			}
		}
	})
	t.Run("but not twice", func(t *testing.T) {
		req := jobRequest("hop")
		req.Forwarded = true
		follower := c.Others(c.Leader())[0]
		if _, err := callWithin(follower, cluster.Patience, structs.JobRegister, req); !follower.Leads() &&
			!structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("got %v (%s), want unavailable", err, structs.KindOf(err))
		}
	})
	t.Run("a follower answers stale reads itself", func(t *testing.T) {
		for _, s := range c.Others(leader) {
			c.AwaitRows(s, "the jobs arrive", func(tx *state.ReadTx) bool {
				return state.Job(tx, structs.DefaultNamespace, "from-"+s.Name) != nil
			})
			req := &structs.QueryRequest{}
			req.AllowStale = true
			c.Await(s.Name+" knows the leader", func() bool {
				resp, err := callWithin(s, cluster.Patience, structs.JobList, req)
				if err != nil || len(resp.Jobs) == 0 {
					t.Fatalf("%s: %+v, %v", s.Name, resp, err)
				}
				return resp.KnownLeader
			})
		}
	})
	c.CheckEqualStates()
}

// Writers write at all servers while the leader dies. Acknowledged writes stay. The node was far from the end
// of its lease with the old leader, and the new one does not make it down.
func TestCluster_KeepsCommittedWritesWithoutTheLeader(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, func(cfg *server.Config) {
		cfg.HeartbeatTTL = 5 * time.Second
		cfg.HeartbeatGrace = 15 * time.Second
	})
	node := c.AddNode("n1", cluster.NewStorage(c))
	old := c.Leader()
	others := c.Others(old)
	var mu sync.Mutex
	var acknowledged []string
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for w, s := range others {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("job-%d-%d", w, i)
				if _, err := callWithin(s, 5*time.Second, structs.JobRegister, jobRequest(id)); err == nil {
					mu.Lock()
					acknowledged = append(acknowledged, id)
					mu.Unlock()
				}
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged)
	}
	c.Await("some writes", func() bool { return count() >= 20 })
	if err := old.Kill(); err != nil {
		t.Error(err)
	}
	c.Leader(others...)
	before := count()
	c.Await("writes at the new leader", func() bool {
		return count() >= before+20
	})
	stop()
	writers.Wait()
	leader := c.Leader(others...)
	for _, id := range acknowledged {
		if !hasJob(leader, id) {
			t.Errorf("%s was acknowledged and is lost", id)
		}
	}
	c.Await("the node's connection is the new leader's", func() bool {
		leader = c.Leader(others...)
		return node.Leader() == leader.Current().RPCAddr()
	})
	for _, e := range state.Node(leader.Store().Read(), node.ID).Events {
		if e.Message == "Node heartbeat missed" {
			t.Error("the change of leader took the node down")
		}
	}
	c.Restart(old)
	c.Await("the old leader catches up", func() bool {
		return hasJob(old, acknowledged[len(acknowledged)-1])
	})
	c.CheckEqualStates()
}

func TestCluster_ServersJoinAndLeave(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections)
	cluster.Must(c, c.Leader(), structs.JobRegister, jobRequest("one"))
	fourth := c.Add(0)
	c.AwaitRows(fourth, "the rows arrive",
		func(tx *state.ReadTx) bool {
			return state.Job(tx, structs.DefaultNamespace, "one") != nil
		})
	c.Await("it has a vote", func() bool {
		return slices.Equal(voters(t, c.Leader()), addresses(c.Servers))
	})

	leaving := c.Leader()
	leave(t, c, leaving)
	if err := leaving.Kill(); err != nil {
		t.Error(err)
	}
	rest := c.Others(leaving)
	c.Await("the one that left is removed", func() bool {
		return slices.Equal(voters(t, c.Leader(rest...)), addresses(rest))
	})

	t.Run("a server that lost its directory replaces its old self", func(t *testing.T) {
		poor := c.Others(c.Leader(rest...))[0]
		if err := poor.Kill(); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(poor.DataDir()); err != nil {
			t.Fatal(err)
		}
		c.Restart(poor)
		c.AwaitRows(poor, "the rows arrive", func(tx *state.ReadTx) bool {
			return state.Job(tx, structs.DefaultNamespace, "one") != nil
		})
		c.Await("it has one vote", func() bool {
			return slices.Equal(voters(t, c.Leader(rest...)), addresses(rest))
		})
	})
	cluster.Must(c, c.Leader(rest...), structs.JobRegister, jobRequest("two"))
	c.CheckEqualStates()
}

func TestCluster_AllServersRestart(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3)
	cluster.Must(c, c.Leader(), structs.JobRegister, jobRequest("one"))
	before := voters(t, c.Leader())
	for _, s := range c.Servers {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	}
	for _, s := range c.Servers {
		c.Restart(s)
	}
	leader := c.Leader()
	if !hasJob(leader, "one") || !slices.Equal(voters(t, leader), before) {
		t.Errorf("after the restart: job %v, servers %v, before %v", hasJob(leader, "one"),
			voters(t, leader), before)
	}
	cluster.Must(c, c.Servers[0], structs.JobRegister, jobRequest("two"))
	c.CheckEqualStates()
}

// A server that expects to be alone joins the cluster that it learns of.
func TestBootstrap_JoinsAnExistingCluster(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 1)
	cluster.Must(c, c.Leader(), structs.JobRegister, jobRequest("one"))
	second := c.Add(1)
	c.AwaitRows(second, "the rows arrive",
		func(tx *state.ReadTx) bool {
			return state.Job(tx, structs.DefaultNamespace, "one") != nil
		})
	c.Await("both have a vote", func() bool {
		return slices.Equal(voters(t, c.Leader()), addresses(c.Servers))
	})
}

// A partitioned leader accepts no write and answers no consistent read. The others continue, and after the
// partition it has their state.
func TestPartition_MinorityLeaderAcceptsNoWrite(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, func(cfg *server.Config) {
		cfg.HeartbeatTTL = time.Hour // the nodes of the fixture send no heartbeat
	})
	w := newClaimFixture(c, 2)
	old := c.Leader()
	others := c.Others(old)
	waited := make(chan error, 1)
	go func() { // a consistent blocking query
		req := &structs.CSIVolumeListRequest{}
		req.MinIndex = old.Store().Index() + 1000
		req.MaxWait = 5 * time.Minute
		_, err := callWithin(old, cluster.Patience, structs.CSIVolumeList, req)
		waited <- err
	}()
	c.Net.Cut(old.Name, cluster.Names(others)...)

	for what, call := range map[string]func() error{
		"a claim": func() error {
			return w.claim(old, time.Second, "v1", w.allocs[0])
		},
		"a write": func() error {
			_, err := callWithin(old, time.Second, structs.JobRegister,
				jobRequest("lost"))
			return err
		},
		// Answers to messages of the leader from before the partition may still arrive and confirm its
		// leadership. They are few.
		"a consistent read": func() (err error) {
			for tries := 0; err == nil && tries < 10; tries++ {
				_, err = callWithin(old, time.Second, structs.JobList, &structs.QueryRequest{})
			}
			return err
		},
	} {
		if err := call(); !structs.IsKind(err, structs.KindUnavailable) &&
			!structs.IsKind(err, structs.KindTimeout) {
			t.Errorf("%s in the minority: %v (%s), want unavailable or timeout", what, err, structs.KindOf(err))
		}
	}
	c.Await("its loops end", func() bool {
		return !old.Leads()
	})
	if err := <-waited; !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("a blocking query in the minority: %v (%s), want unavailable", err, structs.KindOf(err))
	}
	stale := &structs.QueryRequest{}
	stale.AllowStale = true
	if resp, err := callWithin(old, cluster.Patience, structs.NodeList, stale); err != nil ||
		len(resp.Nodes) == 0 {
		t.Errorf("a stale read in the minority: %v", err)
	}

	c.Await("a claim in the majority", func() bool {
		err := w.claim(c.Leader(others...), cluster.Patience, "v1", w.allocs[1])
		if err != nil && !structs.IsKind(err, structs.KindUnavailable) &&
			!structs.IsKind(err, structs.KindTimeout) {
			t.Fatalf("a claim in the majority: %v", err)
		}
		return err == nil
	})
	c.Net.Heal()
	c.AwaitRows(old, "the majority's claim arrives", func(tx *state.ReadTx) bool {
		claim := csi.Claim(tx, structs.DefaultNamespace, "v1", w.allocs[1])
		return claim != nil && claim.State == structs.ClaimGranted
	})
	c.CheckEqualStates()
	if first := csi.Claim(c.Leader().Store().Read(), structs.DefaultNamespace, "v1",
		w.allocs[0]); first != nil && first.State == structs.ClaimGranted {
		t.Error("the minority's claim was granted beside the majority's")
	}
}

// Each time that a server leads, its loops end before it leads again and before it stops.
func TestLeaderLoops_EndWithLeadership(t *testing.T) {
	t.Parallel()
	var book leadershipLog
	c := cluster.New(t, 3)
	c.Logger = book.logger()
	for _, s := range c.Servers { // each restarts with the logger
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	}
	for _, s := range c.Servers {
		c.Restart(s)
	}
	for range 2 {
		leader := c.Leader()
		c.Net.Cut(leader.Name, cluster.Names(c.Others(leader))...)
		c.Await("its loops have ended", func() bool {
			return book.lastMessage(leader.Name) == "leadership ended"
		})
		c.Leader(c.Others(leader)...)
		c.Net.Heal()
		c.Await("it follows", func() bool {
			_, _, known, _ := leader.Current().Leader()
			return known
		})
	}
	for _, s := range c.Servers {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
		book.checkPairs(t, s.Name)
	}
	for _, s := range c.Servers {
		c.Restart(s)
	}
	c.Leader()
}

// A follower whose next entry is no longer in the log gets the whole state. All servers get it when an
// archive is restored.
func TestSnapshot_TransfersTheWholeState(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections, func(cfg *server.Config) { cfg.TrailingLogs = 2 })
	leader := c.Leader()
	away := c.Others(leader)[0]
	cluster.Must(c, leader, structs.JobRegister, jobRequest("first"))
	if err := away.Kill(); err != nil {
		t.Error(err)
	}
	var archive bytes.Buffer
	for i := range 20 {
		cluster.Must(c, leader, structs.JobRegister,
			jobRequest(fmt.Sprint("job-", i)))
	}
	c.AtLeader("save an archive", func(s *cluster.Server) error { // this truncates the log
		archive.Reset()
		return s.Current().SnapshotSave(t.Context(), &archive)
	})
	c.Restart(away)
	c.AwaitRows(away, "the rows arrive", func(tx *state.ReadTx) bool {
		return state.Job(tx, structs.DefaultNamespace, "job-19") != nil
	})
	c.CheckEqualStates()

	cluster.Must(c, leader, structs.JobRegister, jobRequest("after"))
	follower := c.Others(c.Leader())[0]
	if err := follower.Current().SnapshotRestore(t.Context(),
		bytes.NewReader(archive.Bytes()), keyring.RestoreKeys{}); !follower.Leads() &&
		!structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("restoring at a follower: %v (%s), want unavailable", err, structs.KindOf(err))
	}
	c.AtLeader("restore the archive", func(s *cluster.Server) error {
		return s.Current().SnapshotRestore(t.Context(),
			bytes.NewReader(archive.Bytes()), keyring.RestoreKeys{})
	})
	for _, s := range c.Servers {
		c.AwaitRows(s, "the state of the snapshot is back", func(tx *state.ReadTx) bool {
			return state.Job(tx, structs.DefaultNamespace, "after") == nil &&
				state.Job(tx, structs.DefaultNamespace, "job-19") != nil
		})
	}
	cluster.Must(c, c.Leader(), structs.JobRegister, jobRequest("and-on"))
	c.CheckEqualStates()
}
