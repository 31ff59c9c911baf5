package cluster_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"berth/state"
	"berth/structs"
	rows "berth/structs/cluster"
	"berth/test/cluster"
)

// peerOf returns a server in the Raft configuration as another server knows it, nil if it is not in it.
func peerOf(t *testing.T, at, s *cluster.Server, id string) *rows.RaftServer {
	t.Helper()
	for _, server := range at.Current().Configuration() {
		if server.ID == id || id == "" && server.Address == s.Current().RPCAddr() {
			return server
		}
	}
	return nil
}

// killAndAwaitFailed kills a server and waits until another one shows it as failed.
func killAndAwaitFailed(c *cluster.Cluster, t *testing.T, s, watcher *cluster.Server) (id string) {
	t.Helper()
	c.Await(s.Name+" is a peer for the watcher", func() bool { // the configuration reaches a follower late
		peer := peerOf(t, watcher, s, "")
		if peer != nil {
			id = peer.ID
		}
		return peer != nil
	})
	if err := s.Kill(); err != nil {
		t.Error(err)
	}
	c.Await(s.Name+" has failed", func() bool {
		peer := peerOf(t, watcher, s, id)
		return peer != nil && peer.Status == "failed"
	})
	return id
}

func removePeer(s *cluster.Server, req *rows.RaftRemovePeerRequest) error {
	_, err := callWithin(s, cluster.Patience, rows.OperatorRemove, req)
	return err
}

// checkError fails the test unless an error has a kind and contains all the texts.
func checkError(t *testing.T, err error, kind structs.Kind, texts ...string) {
	t.Helper()
	if !structs.IsKind(err, kind) {
		t.Errorf("got %v (%s), want %s", err, structs.KindOf(err), kind)
	}
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v does not say %q", err, text)
		}
	}
}

// awaitAllVote waits until every server has a vote.
func awaitAllVote(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	c.Await("every server has a vote", func() bool {
		return slices.Equal(voters(t, c.Leader()), addresses(c.Servers))
	})
}

// leave has a server leave. It repeats the request while no other server takes over the leadership in time,
// as on a busy machine.
func leave(t *testing.T, c *cluster.Cluster, s *cluster.Server) {
	t.Helper()
	c.Await(s.Name+" leaves", func() bool {
		err := s.Current().Leave(t.Context(), false)
		if err != nil && !structs.IsKind(err, structs.KindUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
}

func TestRemovePeer_TakesTheVoteOfADeadServer(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections)
	leader := c.Leader()
	dead := c.Others(leader)[0]
	follower := c.Others(leader)[1]

	alive := peerOf(t, leader, follower, "")
	err := removePeer(follower, &rows.RaftRemovePeerRequest{ID: alive.ID})
	checkError(t, err, structs.KindPrecondition, follower.Name, "is alive", "server leave")
	err = removePeer(follower, &rows.RaftRemovePeerRequest{Address: leader.Current().RPCAddr()})
	checkError(t, err, structs.KindPrecondition, leader.Name, "is alive")
	err = removePeer(follower, &rows.RaftRemovePeerRequest{ID: "nobody"})
	checkError(t, err, structs.KindNotFound, "nobody", alive.ID,
		follower.Current().RPCAddr())
	checkError(t, removePeer(follower, &rows.RaftRemovePeerRequest{}), structs.KindInvalid, "either")

	id := killAndAwaitFailed(c, t, dead, leader)
	if err := removePeer(follower, &rows.RaftRemovePeerRequest{ID: id}); err != nil {
		t.Fatal(err)
	}
	got := voters(t, c.Leader(leader, follower))
	want := addresses([]*cluster.Server{leader, follower})
	if !slices.Equal(got, want) {
		t.Errorf("the servers with a vote are %v, want %v", got, want)
	}
	checkError(t, removePeer(follower, &rows.RaftRemovePeerRequest{ID: id}), structs.KindNotFound)

	c.Restart(dead)
	awaitAllVote(t, c)
}

func TestRemovePeer_KeepsTheOnlyVote(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 1)
	only := c.Servers[0]
	err := removePeer(only, &rows.RaftRemovePeerRequest{Address: only.Current().RPCAddr()})
	checkError(t, err, structs.KindPrecondition, "only vote")
	checkError(t, only.Current().Leave(t.Context(), true), structs.KindPrecondition, "only vote",
		"stop the agent")
}

func TestForceLeave_EndsTheVoteAndTheMembership(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 5, rareElections)
	leader := c.Leader()
	others := c.Others(leader)
	follower := others[0]
	force := func(name string, prune bool) error {
		return follower.Current().ForceLeave(t.Context(), name, prune)
	}
	checkError(t, force(leader.Name, false), structs.KindPrecondition, leader.Name, "is alive", "server leave")
	checkError(t, force("nobody", true), structs.KindNotFound, "nobody", leader.Name)

	first := others[1]
	second := others[2]
	for _, s := range []*cluster.Server{first, second} {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	}
	status := func(at *cluster.Server, name string) string {
		for _, m := range at.Current().Members() {
			if m.Name == name+".global" {
				return m.Status
			}
		}
		return "forgotten"
	}
	for _, s := range []*cluster.Server{first, second} {
		c.Await(s.Name+" has failed", func() bool {
			return status(follower, s.Name) == "failed" &&
				status(leader, s.Name) == "failed"
		})
	}
	if err := force(first.Name, false); err != nil { // the short name
		t.Error(err)
	}
	if err := force(second.Name+".global", true); err != nil {
		t.Error(err)
	}
	rest := c.Others(leader)
	rest = append(rest, leader)
	if got := voters(t, c.Leader(rest...)); !slices.Equal(got, addresses(rest)) {
		t.Errorf("the servers with a vote are %v, want %v", got, addresses(rest))
	}
	left := status(follower, first.Name)
	pruned := status(follower, second.Name)
	if left != "left" || pruned != "forgotten" {
		t.Errorf("the servers that were forced out are %s and %s, want left and forgotten", left, pruned)
	}
}

func TestLeave_HandsLeadershipOnAndEndsTheVote(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections)
	cluster.Must(c, c.Leader(), structs.JobRegister, jobRequest("one"))
	leaving := c.Leader()
	rest := c.Others(leaving)
	leave(t, c, leaving)
	if got := voters(t, c.Leader(rest...)); !slices.Equal(got, addresses(rest)) { // at once, not eventually
		t.Errorf("the servers with a vote are %v, want %v", got, addresses(rest))
	}
	if err := leaving.Kill(); err != nil {
		t.Error(err)
	}
	cluster.Must(c, rest[0], structs.JobRegister, jobRequest("two"))

	c.Restart(leaving)
	awaitAllVote(t, c)
	c.AwaitRows(leaving, "the missed entries arrive", func(tx *state.ReadTx) bool {
		return state.Job(tx, structs.DefaultNamespace, "two") != nil
	})
}

func TestLeave_KeepsTheMajority(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections)
	leader := c.Leader()
	dead := c.Others(leader)[0]
	follower := c.Others(leader)[1]
	id := killAndAwaitFailed(c, t, dead, follower)
	c.Await("the leader knows, too", func() bool {
		peer := peerOf(t, leader, dead, id)
		return peer != nil && peer.Status == "failed"
	})
	for _, s := range []*cluster.Server{leader, follower} {
		checkError(t, s.Current().Leave(t.Context(), false), structs.KindPrecondition,
			s.Name, "1 of 2 servers", "no majority", "remove-peer", "-force")
	}
	if err := removePeer(follower, &rows.RaftRemovePeerRequest{ID: id}); err != nil {
		t.Fatal(err)
	}
	if err := follower.Current().Leave(t.Context(), false); err != nil { // the leader alone is a majority
		t.Error(err)
	}
	if got := voters(t, c.Leader(leader)); !slices.Equal(got, addresses([]*cluster.Server{leader})) {
		t.Errorf("the servers with a vote are %v", got)
	}
}

// A server that is forced to leave does so although no server can remove its vote.
func TestLeave_GoesWithoutAMajorityWhenForced(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3)
	leader := c.Leader()
	others := c.Others(leader)
	for _, s := range others {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	}
	err := leader.Current().Leave(t.Context(), true)
	checkError(t, err, structs.KindTimeout, leader.Name, "may still have its vote")
	for _, m := range leader.Current().Members() {
		if m.Name == leader.Name+".global" && m.Status != "left" {
			t.Errorf("its status in gossip is %s", m.Status)
		}
	}
}

// A machine is replaced by one of the same name with another address and an empty disk.
func TestMembers_ANewServerTakesTheVoteOfItsName(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections)
	leader := c.Leader()
	poor := c.Others(leader)[0]
	old := killAndAwaitFailed(c, t, poor, leader)
	if err := os.RemoveAll(poor.DataDir()); err != nil {
		t.Fatal(err)
	}
	c.Move(poor)
	c.Restart(poor)
	c.Await("it votes in the place of its old self", func() bool {
		at := c.Leader()
		return slices.Equal(voters(t, at), addresses(c.Servers)) &&
			peerOf(t, at, poor, old) == nil
	})
}

func TestMembers_ListPeersShowsFailedServers(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections)
	leader := c.Leader()
	dead := c.Others(leader)[0]
	id := killAndAwaitFailed(c, t, dead, leader)
	c.Await("the list has one failed server", func() bool {
		resp := cluster.Must(c, leader, rows.OperatorRaft, &structs.QueryRequest{})
		for _, server := range resp.Servers {
			want := "alive"
			if server.ID == id {
				want = "failed"
			}
			if server.Status != want || server.Node == "" {
				return false // a server that was just elected may learn of the failure late
			}
		}
		return len(resp.Servers) == 3
	})
}
