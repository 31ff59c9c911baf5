package autopilot

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/oneserver"
)

// done is a change of Raft that has succeeded.
type done struct{ c raft.Configuration }

func (done) Error() error                        { return nil }
func (done) Index() uint64                       { return 1 }
func (d done) Configuration() raft.Configuration { return d.c }

// fakeRaft leads at term 2 and index 50. It records the servers that get a vote.
type fakeRaft struct {
	mu      sync.Mutex
	servers []raft.Server
	voted   []raft.ServerID
}

func (f *fakeRaft) AddVoter(
	id raft.ServerID, _ raft.ServerAddress, _ uint64, _ time.Duration,
) raft.IndexFuture {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.voted = append(f.voted, id)
	for i := range f.servers {
		if f.servers[i].ID == id {
			f.servers[i].Suffrage = raft.Voter
		}
	}
	return done{}
}

// drops removes servers, as the members loop does.
func (f *fakeRaft) drops(ids ...raft.ServerID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers = slices.DeleteFunc(slices.Clone(f.servers), func(s raft.Server) bool {
		return slices.Contains(ids, s.ID)
	})
}

// votedSoFar returns the servers that got a vote.
func (f *fakeRaft) votedSoFar() []raft.ServerID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.voted)
}

func (f *fakeRaft) GetConfiguration() raft.ConfigurationFuture {
	f.mu.Lock()
	defer f.mu.Unlock()
	return done{raft.Configuration{Servers: slices.Clone(f.servers)}}
}

func (f *fakeRaft) LastIndex() uint64          { return 50 }
func (f *fakeRaft) Leader() raft.ServerAddress { return "a1" }
func (f *fakeRaft) State() raft.RaftState      { return raft.Leader }
func (f *fakeRaft) LastContact() time.Time     { return time.Time{} }
func (f *fakeRaft) Stats() map[string]string   { return map[string]string{"last_log_term": "2"} }

func (f *fakeRaft) AddNonvoter(raft.ServerID, raft.ServerAddress, uint64, time.Duration) raft.IndexFuture {
	panic("the members loop adds servers")
}

func (f *fakeRaft) RemoveServer(raft.ServerID, uint64, time.Duration) raft.IndexFuture {
	panic("the members loop removes servers")
}

func (f *fakeRaft) DemoteVoter(raft.ServerID, uint64, time.Duration) raft.IndexFuture {
	panic("no test takes a vote")
}

func (f *fakeRaft) LeadershipTransferToServer(raft.ServerID, raft.ServerAddress) raft.Future {
	panic("no test transfers the leadership")
}

// world is an autopilot with its surroundings. Server s1 leads.
type world struct {
	*Autopilot
	log    *oneserver.Log
	raft   *fakeRaft
	mu     sync.Mutex
	seen   []Member
	left   []string
	silent bool // no server answers
	// settings are those that the servers tell, by their IDs.
	settings map[string]map[string]string
}

func newWorld(servers ...Member) *world {
	w := &world{log: oneserver.NewLog(), raft: &fakeRaft{}, seen: servers}
	for _, m := range servers {
		w.raft.servers = append(w.raft.servers, raft.Server{
			ID:      raft.ServerID(m.ID),
			Address: raft.ServerAddress(m.Address),
		})
	}
	first := cluster.DefaultAutopilotConfig()
	first.MaxTrailingLogs = 10
	w.Autopilot = New(Deps{
		ID:         "s1",
		Raft:       w.raft,
		Members:    func() []Member { w.mu.Lock(); defer w.mu.Unlock(); return slices.Clone(w.seen) },
		Store:      w.log.Store,
		Proposer:   w.log,
		Ask:        w.ask,
		ForceLeave: w.forceLeave,
		First:      first,
		Settings:   func() map[string]string { return w.settingsOf("s1") },
		Logger:     hclog.NewNullLogger(),
	})
	return w
}

func (w *world) ask(_ context.Context, address string) (*cluster.RaftStats, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent {
		return nil, errors.New("no answer")
	}
	r := &cluster.RaftStats{LastTerm: 2, LastIndex: 45}
	r.KnownLeader = address != "lost"
	r.Settings = maps.Clone(w.settings["s"+address[1:]])
	return r, nil
}

// settingsOf returns what a server tells.
func (w *world) settingsOf(id string) map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.settings[id])
}

func (w *world) forceLeave(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = append(w.left, name)
	for i := range w.seen {
		if w.seen[i].Name == name {
			w.seen[i].Status = "left"
		}
	}
	return nil
}

// leftSoFar returns the names of the servers that were removed.
func (w *world) leftSoFar() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.left)
}

// fails has the gossip take servers for failed.
func (w *world) fails(ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.seen {
		if slices.Contains(ids, w.seen[i].ID) {
			w.seen[i].Status = "failed"
		}
	}
}

// start runs the autopilot until the end of the test.
func (w *world) start(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { w.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		run.Wait()
	})
}

func (w *world) set(t *testing.T, change func(*cluster.AutopilotConfig)) {
	t.Helper()
	c := cluster.DefaultAutopilotConfig()
	change(&c)
	_, err := fsm.Propose(t.Context(), w.log, fsm.AutopilotConfigSet, &cluster.AutopilotConfigRequest{Config: c})
	if err != nil {
		t.Fatal(err)
	}
}

// after waits for a time and for all that happens in it.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func member(id string) Member {
	return Member{ID: id, Name: id + ".global", Address: "a" + id[1:], Status: "alive"}
}

func members(ids ...string) (all []Member) {
	for _, id := range ids {
		all = append(all, member(id))
	}
	return all
}

func TestRun_GivesAVoteAfterTheStabilisation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(members("s1", "s2", "s3")...)
		w.raft.servers[2].Suffrage = raft.Nonvoter
		w.set(t, func(c *cluster.AutopilotConfig) { c.ServerStabilizationTime = time.Minute })
		w.start(t)
		after(59 * time.Second)
		if len(w.raft.votedSoFar()) > 0 {
			t.Errorf("%v got a vote before the time", w.raft.votedSoFar())
		}
		after(20 * time.Second)
		if !slices.Equal(w.raft.votedSoFar(), []raft.ServerID{"s3"}) {
			t.Errorf("%v got a vote, want s3", w.raft.votedSoFar())
		}
	})
}

func TestRun_GivesNoVoteToAServerThatDoesNotFollow(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"it knows no leader":    func(w *world) { w.seen[1].Address = "lost" },
		"it does not answer":    func(w *world) { w.silent = true },
		"the gossip has failed": func(w *world) { w.seen[1].Status = "failed" },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(members("s1", "s2")...)
			w.raft.servers[1].Suffrage = raft.Nonvoter
			w.set(t, func(c *cluster.AutopilotConfig) { c.CleanupDeadServers = false })
			spoil(w)
			w.start(t)
			after(time.Minute)
			if len(w.raft.votedSoFar()) > 0 {
				t.Errorf("%s: it got a vote", name)
			}
			health, err := w.Health()
			if err != nil || health.Healthy || health.Servers[1].Healthy {
				t.Errorf("%s: the health is %+v, %v", name, health, err)
			}
		})
	}
}

// The gossip still takes the server for alive: others hear of it.
func TestHealth_OfAServerThatDoesNotAnswerAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(members("s1", "s2")...)
		w.start(t)
		after(time.Minute)
		for _, silent := range []bool{false, true, false} {
			w.mu.Lock()
			w.silent = silent
			w.mu.Unlock()
			after(time.Minute)
			got, err := w.Health()
			if err != nil || got.Healthy == silent {
				t.Fatalf("silent: %t; the health is %+v, %v", silent, got, err)
			}
			s := got.Servers[1]
			if s.Healthy == silent || (s.LastContact < 0) != silent || s.LastIndex != 45 || s.LastTerm != 2 {
				t.Errorf("silent: %t; the server is %+v", silent, s)
			}
		}
	})
}

func TestRun_RemovesDeadServersWhileAMajorityStays(t *testing.T) {
	for _, c := range []struct {
		name    string
		servers []string
		dead    []string
		change  func(*cluster.AutopilotConfig)
		want    int // servers that are removed
	}{
		{"one of five", []string{"s1", "s2", "s3", "s4", "s5"}, []string{"s5"}, nil, 1},
		{"two of five", []string{"s1", "s2", "s3", "s4", "s5"}, []string{"s4", "s5"}, nil, 2},
		{"three of five", []string{"s1", "s2", "s3", "s4", "s5"}, []string{"s3", "s4", "s5"}, nil, 2},
		{"one of four", []string{"s1", "s2", "s3", "s4"}, []string{"s4"}, nil, 1},
		{"one of three", []string{"s1", "s2", "s3"}, []string{"s3"}, nil, 0},
		{"one of two", []string{"s1", "s2"}, []string{"s2"}, nil, 0},
		{"one of three, of which three are to stay", []string{"s1", "s2", "s3"}, []string{"s3"},
			func(c *cluster.AutopilotConfig) { c.MinQuorum = 3 }, 0},
		{"one of four, of which three are to stay", []string{"s1", "s2", "s3", "s4"}, []string{"s4"},
			func(c *cluster.AutopilotConfig) { c.MinQuorum = 3 }, 1},
		{"removal is turned off", []string{"s1", "s2", "s3"}, []string{"s3"},
			func(c *cluster.AutopilotConfig) { c.CleanupDeadServers = false }, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(members(c.servers...)...)
			if c.change != nil {
				w.set(t, c.change)
			}
			w.start(t)
			after(time.Minute)
			w.fails(c.dead...)
			after(time.Minute)
			if len(w.leftSoFar()) != c.want {
				t.Errorf("%s: %v were removed, want %d", c.name, w.leftSoFar(), c.want)
			}
		})
	}
}

// Each removal makes the cluster smaller. Three of five stay, and also of the three that are left none goes.
func TestRun_KeepsAMajorityOfTheMostVoters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(members("s1", "s2", "s3", "s4", "s5")...)
		w.start(t)
		after(time.Minute)
		w.fails("s4", "s5")
		after(time.Minute)
		w.raft.drops("s4", "s5")
		if most := state.AutopilotConfig(w.Store.Read()).MostVoters; most != 5 {
			t.Fatalf("the most voters are %d", most)
		}
		// A user changes the configuration, and another server leads from then on.
		w.set(t, func(c *cluster.AutopilotConfig) { c.MinQuorum = 1 })
		w.fails("s3")
		after(time.Minute)
		if left := w.leftSoFar(); len(left) != 2 || slices.Contains(left, "s3.global") {
			t.Errorf("%v were removed, want the two of five that failed first", left)
		}

		// An operator removes it, and the cluster is a smaller one.
		w.raft.drops("s3")
		w.LowerVoters(t.Context())
		if most := state.AutopilotConfig(w.Store.Read()).MostVoters; most != 2 || w.LeastVoters() != 2 {
			t.Errorf("after a removal by an operator: %d, of which %d stay", most, w.LeastVoters())
		}
	})
}

func TestLeastVoters_IsAMajorityAndAllOfThree(t *testing.T) {
	for most, want := range []int{1, 1, 2, 3, 3, 3, 4, 4, 5, 5} {
		if got := leastVoters(most); got != want {
			t.Errorf("of %d: got %d, want %d", most, got, want)
		}
	}
}

// Servers without a vote make no removal of a voter safe, and their own needs no majority.
func TestRun_CountsOnlyVotersAsMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(members("s1", "s2", "s3", "s6", "s4", "s5")...)
		w.raft.servers[4].Suffrage = raft.Nonvoter
		w.raft.servers[5].Suffrage = raft.Nonvoter
		w.seen[4].NonVoting = true
		w.seen[5].NonVoting = true
		w.start(t)
		after(time.Minute)
		w.fails("s2", "s3")
		after(time.Minute)
		if !slices.Equal(w.leftSoFar(), []string{"s2.global"}) {
			t.Errorf("%v were removed, want one of two dead voters", w.leftSoFar())
		}
		w.fails("s5")
		after(time.Minute)
		if !slices.Equal(w.leftSoFar(), []string{"s2.global", "s5.global"}) {
			t.Errorf("%v were removed, want the dead server without a vote, too", w.leftSoFar())
		}
	})
}

func TestRun_StoresItsConfigurationOnceTheLogTakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(members("s1")...)
		w.log.Fail(structs.Unavailablef("no quorum"))
		w.start(t)
		after(time.Minute)
		got := state.AutopilotConfig(w.Store.Read())
		if *got != cluster.DefaultAutopilotConfig() {
			t.Errorf("before it is stored the configuration is %+v, want the default", got)
		}
		if health, err := w.Health(); err != nil || !health.Healthy {
			t.Errorf("before it is stored the health is %+v, %v", health, err)
		}
		w.log.Fail(nil)
		after(time.Minute)
		got = state.AutopilotConfig(w.Store.Read())
		if got.MaxTrailingLogs != 10 || got.ModifyIndex == 0 {
			t.Errorf("the configuration is %+v, want the server's own", got)
		}
	})
}

func TestHealth_IsThatOfALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(members("s1", "s2", "s3")...)
		_, err := w.Health()
		if !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("before it leads: %v, want unavailable", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { w.Run(ctx) })
		after(time.Minute)
		got, err := w.Health()
		if err != nil {
			t.Fatal(err)
		}
		first := got.Servers[0]
		if !got.Healthy || got.FailureTolerance != 1 || got.Leader != "s1" || len(got.Voters) != 3 ||
			!first.Leader || first.Name != "s1.global" || first.SerfStatus != "alive" || !first.Voter {
			t.Errorf("got %+v with %+v", got, first)
		}
		cancel()
		run.Wait()
		_, err = w.Health()
		if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), "does not lead") {
			t.Errorf("after its leadership: %v, want unavailable", err)
		}
	})
}

func TestKnownServers_PreferTheLiveEntry(t *testing.T) {
	renamed := member("s2")
	renamed.Name = "old.global"
	renamed.Status = "failed"
	for _, order := range [][]Member{{member("s2"), renamed}, {renamed, member("s2")}} {
		w := newWorld(order...)
		got := delegate{Autopilot: w.Autopilot}.KnownServers()["s2"]
		if got.Name != "s2.global" {
			t.Errorf("got %+v", got)
		}
	}
}

func TestAutopilotConfig_ScalesWithTheTimeoutsOfRaft(t *testing.T) {
	w := newWorld(member("s1"))
	for slowness, want := range map[float64]time.Duration{
		0:   200 * time.Millisecond,
		0.1: 200 * time.Millisecond,
		5:   time.Second,
	} {
		w.Slowness = slowness
		got := delegate{Autopilot: w.Autopilot}.AutopilotConfig().LastContactThreshold
		if got != want {
			t.Errorf("slowness %v: the threshold is %s, want %s", slowness, got, want)
		}
	}
}
