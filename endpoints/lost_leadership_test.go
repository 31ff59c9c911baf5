package endpoints_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/endpoints/query"
	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
)

// waiters are the reads that wait at one server.
type waiters struct {
	*endpointstest.Server
	answers map[string]chan waited
}

// waited is how a read has ended.
type waited struct {
	index uint64
	err   error
}

// beginWaits begins two blocking queries, for a list and for the allocations of a node. It returns when both
// wait.
func beginWaits(t *testing.T, config core.Settings, q structs.QueryOptions) *waiters {
	w := &waiters{Server: endpointstest.New(t, config), answers: map[string]chan waited{}}
	var waiting sync.WaitGroup
	w.Raft.Lost = make(chan struct{})
	w.Raft.Watched = waiting.Done
	w.AddNode("n1", "a")
	q.MinIndex = w.Store.Index() + 1000
	for name, ask := range map[string]func() (uint64, error){
		"a list": func() (uint64, error) {
			got, err := rpc.Call(t.Context(), w.RPC, structs.NodeList, &structs.QueryRequest{QueryOptions: q})
			if err != nil {
				return 0, err
			}
			return got.Index, nil
		},
		"a node": func() (uint64, error) {
			got, err := rpc.Call(t.Context(), w.RPC, structs.NodeClientAllocs, &structs.NodeGetRequest{
				NodeID:       "n1",
				SecretID:     endpointstest.SecretOf("n1"),
				QueryOptions: q,
			})
			if err != nil {
				return 0, err
			}
			return got.Index, nil
		},
	} {
		answer := make(chan waited, 1)
		w.answers[name] = answer
		if !q.AllowStale {
			waiting.Add(1)
		}
		go func() {
			index, err := ask()
			answer <- waited{index, err}
		}()
	}
	waiting.Wait()
	return w
}

// loseLeadership makes another server the leader, or none if leader is "".
func (w *waiters) loseLeadership(leader string) {
	w.Raft.Mu.Lock()
	w.Raft.IsMe, w.Raft.LeaderAddr = false, leader
	w.Raft.Mu.Unlock()
	close(w.Raft.Lost)
}

// The next leader answers the blocking queries of the last one, within their remaining time.
func TestLostLeadership_BlockingQueriesContinueAtTheNextLeader(t *testing.T) {
	w := beginWaits(t, core.DefaultSettings(), structs.QueryOptions{MaxWait: time.Minute})
	asked := make(chan structs.QueryOptions, len(w.answers))
	w.Raft.OnForward = func(_ string, req, resp any) error {
		asked <- *req.(query.ReadRequest).Query()
		query.MetaOf(resp).Index = 7777
		return nil
	}
	w.loseLeadership("s2:4747")
	for name, answer := range w.answers {
		if got := <-answer; got.err != nil || got.index != 7777 {
			t.Errorf("%s: %+v, want the answer of the next leader", name, got)
			continue
		}
		q := <-asked
		if !q.Forwarded || q.MinIndex <= 1000 || q.MaxWait <= 0 || q.MaxWait >= time.Minute {
			t.Errorf("forwarded with the options %+v", q)
		}
	}
}

// Only the server that has forwarded a read calls another leader. Otherwise the two would forward it to each
// other for ever.
func TestLostLeadership_ForwardedReadsReturn(t *testing.T) {
	w := beginWaits(t, core.DefaultSettings(), structs.QueryOptions{MaxWait: time.Minute, Forwarded: true})
	w.Raft.OnForward = func(string, any, any) error {
		t.Error("a second hop")
		return nil
	}
	w.loseLeadership("s2:4747")
	for name, answer := range w.answers {
		if got := <-answer; !structs.IsKind(got.err, structs.KindUnavailable) {
			t.Errorf("%s: %v (%s)", name, got.err, structs.KindOf(got.err))
		}
	}
}

// A partitioned server finds no next leader, so it sends the callers of blocking queries to the other
// servers.
func TestLostLeadership_ReadsEndWhereThereIsNoNextLeader(t *testing.T) {
	w := beginWaits(t, endpointstest.QuickSettings(), structs.QueryOptions{MaxWait: time.Hour})
	w.loseLeadership("")
	for name, answer := range w.answers {
		if got := <-answer; !structs.IsKind(got.err, structs.KindUnavailable) {
			t.Errorf("%s: %v (%s)", name, got.err, structs.KindOf(got.err))
		}
	}
}

// Stale blocking queries continue to wait here.
func TestLostLeadership_StaleReadsContinueToWait(t *testing.T) {
	w := beginWaits(t, core.DefaultSettings(), structs.QueryOptions{
		MaxWait:    100 * time.Millisecond,
		AllowStale: true,
	})
	w.loseLeadership("s2:4747")
	for name, answer := range w.answers {
		if got := <-answer; got.err != nil || got.index == 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A former leader may answer before this server learns of the election.
func TestLostLeadership_ALeadersAnswerMayComeBeforeTheElectionIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := endpointstest.New(t)
		leads, end := context.WithCancel(context.Background())
		defer end()
		s.Raft.IsMe, s.Raft.OnLeads = false, leads
		s.Raft.OnForward = func(_ string, _, resp any) error {
			if leads.Err() == nil {
				time.AfterFunc(20*time.Millisecond, end)
				return structs.NotServedf("server lost leadership")
			}
			resp.(*structs.NodeListResponse).Index = 7777
			return nil
		}
		req := &structs.QueryRequest{QueryOptions: structs.QueryOptions{MinIndex: 5, MaxWait: time.Minute}}
		if got := endpointstest.Must(s, structs.NodeList, req); got.Index != 7777 {
			t.Errorf("index %d, want the answer of the next leader", got.Index)
		}
	})
}

// A read that waits for long may see more than one election, and each has its time.
func TestLostLeadership_EachElectionHasItsTime(t *testing.T) {
	s := endpointstest.New(t, endpointstest.QuickSettings())
	ended, end := context.WithCancel(context.Background())
	end()
	asked := 0
	s.Raft.IsMe, s.Raft.OnLeads = false, ended
	s.Raft.OnForward = func(_ string, _, resp any) error {
		asked++
		if asked <= 3 {
			time.Sleep(2 * s.Settings.HoldTimeout) // it leads for a while
			return structs.NotServedf("server lost leadership")
		}
		resp.(*structs.NodeListResponse).Index = 7777
		return nil
	}
	req := &structs.QueryRequest{QueryOptions: structs.QueryOptions{MinIndex: 5, MaxWait: time.Minute}}
	if got := endpointstest.Must(s, structs.NodeList, req); got.Index != 7777 {
		t.Errorf("index %d, want the answer of the last leader", got.Index)
	}
	asked = 0
	req.MaxWait = s.Settings.HoldTimeout // it has no time for a second one
	endpointstest.Rejected(s, structs.KindUnavailable, structs.NodeList, req)
}

// A plain unavailable may follow effects outside of the servers. The next leader would make them again.
func TestLostLeadership_OnlyWhatHasNotBegunIsRepeated(t *testing.T) {
	for name, tc := range map[string]struct {
		answer error
		want   int
	}{
		"not begun":     {structs.NotServedf("the log entry was not written"), 2},
		"perhaps begun": {structs.Unavailablef("Consul does not answer"), 1},
	} {
		s := endpointstest.New(t)
		ended, end := context.WithCancel(context.Background())
		end()
		s.Raft.IsMe, s.Raft.OnLeads = false, ended
		asked := 0
		s.Raft.OnForward = func(method string, _, _ any) error {
			if method == cluster.StatusPing.Name {
				return nil // the former leader still answers
			}
			asked++
			if asked == 1 {
				return tc.answer
			}
			return nil
		}
		_, err := rpc.Call(t.Context(), s.RPC, cluster.SystemGC, &structs.WriteRequest{})
		if asked != tc.want || (err == nil) != (tc.want == 2) {
			t.Errorf("%s: %d leaders were called, want %d; the answer is %v", name, asked, tc.want, err)
		}
	}
}

// A leader that is frozen answers neither a write nor a ping. The caller of the write gets to repeat it.
func TestLostLeadership_AWriteLeavesAFrozenLeader(t *testing.T) {
	config := endpointstest.QuickSettings()
	config.AnswerTimeout = 10 * time.Millisecond
	s := endpointstest.New(t, config)
	ended, end := context.WithCancel(context.Background())
	s.Raft.IsMe, s.Raft.OnLeads = false, ended
	s.Raft.Frozen = true
	end()
	endpointstest.Rejected(s, structs.KindTimeout, cluster.SystemGC, &structs.WriteRequest{})
}
