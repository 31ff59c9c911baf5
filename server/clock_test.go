package server

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/boottime"
	"berth/rpc"
	"berth/server/clock"
	"berth/state"
	"berth/state/clustertime"
	"berth/state/schema"
	"berth/state/statetest"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/oneserver"
)

// keptCluster is a state with the cluster time, and wall clocks that a test sets.
type keptCluster struct {
	*oneserver.Log
	ahead atomic.Int64 // of the wall clock of the leader
	agree atomic.Bool
	delay atomic.Int64 // of the answers of the others
}

// clocks are those of a leader and of two other servers.
func (c *keptCluster) clocks() []*cluster.ServerClock {
	time.Sleep(time.Duration(c.delay.Load()))
	all := []*cluster.ServerClock{{ID: "a", Name: "a.global", Leader: true, Voter: true}}
	for _, id := range []string{"b", "c"} {
		other := &cluster.ServerClock{ID: id, Name: id + ".global", Voter: true}
		if !c.agree.Load() {
			other.Ahead = -time.Duration(c.ahead.Load())
		}
		all = append(all, other)
	}
	return all
}

// lead begins a leadership.
func (c *keptCluster) lead() (now *clock.Cluster, stop func()) {
	now = clock.New(boottime.Monotonic(), func() *cluster.ClusterTime {
		return clustertime.Of(c.Store.Read())
	})
	k := Keeper{
		Store:      c.Store,
		Clock:      now,
		Proposer:   c,
		Wall:       func() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) },
		Clocks:     func(context.Context) []*cluster.ServerClock { return c.clocks() },
		Stored:     func() []cluster.StoredIndex { return nil },
		Quarantine: time.Hour,
		Logger:     hclog.NewNullLogger(),
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.Begin(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); k.Run(ctx) }()
	return now, func() { cancel(); <-ended }
}

func TestKeeper_FollowsClocksThatWereSetAfterTheQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &keptCluster{Log: oneserver.NewLog()}
		c.agree.Store(true)
		_, stop := c.lead()
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		pass(time.Hour)
		stop()
		c.ahead.Store(int64(30 * time.Hour))
		cluster, stop := c.lead() // one whose clock is wrong
		defer func() { stop() }()
		want := func(when string, ahead time.Duration) {
			t.Helper()
			if off := cluster.Now().Sub(time.Now()) - ahead; off.Abs() > time.Minute {
				t.Errorf("%s the cluster time is %s ahead, want %s", when, off+ahead, ahead)
			}
		}
		want("at the beginning", 0)
		pass(50 * time.Minute)
		want("in the quarantine", 0)
		stop()
		cluster, stop = c.lead() // the next leader with that clock continues the quarantine
		pass(5 * time.Minute)
		want("of the next leader", 0)
		c.agree.Store(false)
		pass(time.Minute)
		c.agree.Store(true)
		pass(50 * time.Minute)
		want("after servers that did not agree", 0)
		pass(11 * time.Minute)
		want("after the quarantine", 30*time.Hour)

		c.ahead.Store(0)
		pass(3 * time.Hour)
		want("when the clocks are set back", 30*time.Hour-18*time.Minute)
	})
}

// A server that does not answer does not slow the cluster time down, also while the leader's clock is wrong.
func TestKeeper_CountsTheTimeOfItsQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &keptCluster{Log: oneserver.NewLog()}
		now, stop := c.lead()
		defer stop()
		c.delay.Store(int64(5 * time.Second))
		c.ahead.Store(int64(30 * time.Hour))
		time.Sleep(time.Hour)
		if behind := time.Until(now.Now()); behind.Abs() > time.Second {
			t.Errorf("after an hour the cluster time is ahead by %s", behind)
		}
	})
}

// A cluster without a time has rows of a month ago: the time begins with the clock of the leader only if most
// servers have it, too.
func TestKeeper_BeginsByTheWordOfMost(t *testing.T) {
	const month = 30 * 24 * time.Hour
	for agree, want := range map[bool]time.Duration{true: 0, false: -month} {
		synctest.Test(t, func(t *testing.T) {
			c := &keptCluster{Log: oneserver.NewLog()}
			statetest.Write(t, c.Store, func(tx *state.WriteTx) error {
				schema.Evals.Put(tx, &structs.Evaluation{ID: "e", ModifyTime: time.Now().Add(-month).UnixNano()})
				return nil
			})
			c.agree.Store(agree)
			if !agree {
				c.ahead.Store(int64(30 * time.Hour))
			}
			now, stop := c.lead()
			defer stop()
			if got := time.Until(now.Now()); (got - want).Abs() > time.Second {
				t.Errorf("most agree: %t: the time begins %s ahead of the right one, want %s", agree, got, want)
			}
		})
	}
}

// The servers whose clocks differ are in the state, also while the next leader has not asked them yet.
func TestKeeper_NamesServersWhoseClocksDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &keptCluster{Log: oneserver.NewLog()}
		_, stop := c.lead()
		defer func() { stop() }()
		check := func(when string, want ...string) {
			t.Helper()
			var got []string
			for _, w := range clustertime.Wrong(c.Store.Read()) {
				got = append(got, w.Server+" is "+w.String())
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		pass := func() { time.Sleep(time.Minute); synctest.Wait() }

		pass()
		check("at the beginning")
		c.ahead.Store(int64(30 * time.Hour)) // of the leader alone
		pass()
		check("when it was set", "a.global is 30h0m0s ahead of the cluster time")
		stop()
		_, stop = c.lead()
		check("after an election", "a.global is 30h0m0s ahead of the cluster time")
		c.agree.Store(true)
		pass()
		check("when all were set", "a.global is 30h0m0s ahead of the cluster time",
			"b.global is 30h0m0s ahead of the cluster time", "c.global is 30h0m0s ahead of the cluster time")
		c.ahead.Store(0)
		pass()
		check("when they are right again")
	})
}

// behind sets the cluster time back, as if the server had been off.
func (r *running) behind(d time.Duration) {
	r.t.Helper()
	at := time.Now().Add(-d).UnixNano()
	r.until("the cluster time is set", func() bool {
		row := clustertime.Of(r.store.Read())
		if row == nil {
			return false
		}
		_, err := fsm.Propose(r.t.Context(), r, fsm.ClusterTimeSet, &cluster.ClusterTimeRequest{
			Clock:    cluster.ClusterTime{Time: at},
			RowIndex: row.ModifyIndex,
		})
		return err == nil && clustertime.Of(r.store.Read()).Time == at
	})
}

// A server that was off for a week goes on with its cluster time until an operator accepts its clock.
func TestClock_IsAcceptedByAnOperator(t *testing.T) {
	r := run(t, testConfig(t))
	const week = 7 * 24 * time.Hour
	r.behind(week)
	r.register("j")
	submitted := time.Unix(0, state.Job(r.store.Read(), "default", "j").SubmitTime)
	if late := time.Since(submitted) - week; late.Abs() > time.Hour {
		t.Errorf("the job is of %s, a week ago it was %s", submitted, time.Now().Add(-week))
	}

	read := func() *cluster.ClockResponse {
		t.Helper()
		got, err := rpc.Call(t.Context(), r, cluster.ClockGet, &structs.QueryRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := read()
	if off := time.Duration(got.Wall-got.Now) - week; off.Abs() > time.Hour || len(got.Servers) != 1 ||
		!got.Servers[0].Leader || !got.Servers[0].Right(0) || got.ClusterTime == nil {
		t.Errorf("got %+v", got)
	}
	_, err := rpc.Call(t.Context(), r, cluster.ClockAccept, &cluster.ClockAcceptRequest{})
	if err != nil {
		t.Fatal(err)
	}
	got = read()
	if off := time.Duration(got.Wall - got.Now); off.Abs() > time.Hour || len(got.ClusterTime.Jumps) != 1 {
		t.Errorf("accepted: %s, %+v", off, got.ClusterTime)
	}
}

func TestMostAgree_CountsServersThatAnswer(t *testing.T) {
	self := &cluster.ServerClock{Voter: true, Leader: true}
	same := &cluster.ServerClock{Voter: true, Ahead: -clustertime.Tolerance}
	other := &cluster.ServerClock{Voter: true, Ahead: clustertime.Tolerance + 1}
	silent := &cluster.ServerClock{Voter: true, Fault: "no answer"}
	reader := &cluster.ServerClock{}
	far := &cluster.ServerClock{Ahead: clustertime.Tolerance + 1}
	for want, all := range map[bool][][]*cluster.ServerClock{
		true: {{self}, {self, same}, {self, same, other}, {self, same, silent}, {self, far, far}},
		false: {nil, {self, other}, {self, silent}, {self, other, silent}, {self, same, other, silent},
			{self, other, reader}},
	} {
		for _, clocks := range all {
			if got := mostAgree(clocks); got != want {
				t.Errorf("%+v: %t", clocks, got)
			}
		}
	}
}
