package certificate

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/peertls"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// fakeKeys count the closings. Their certificate is the one of node n1.
type fakeKeys struct {
	mu      sync.Mutex
	revoked peertls.Revoked
	closed  int
}

func (k *fakeKeys) SetRevoked(f peertls.Revoked) { k.revoked = f }

func (k *fakeKeys) CloseRevoked() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed++
}

func (k *fakeKeys) isRevoked() bool {
	return k.revoked(cluster.CertificateRef{Role: cluster.JoinNode, ID: "n1"}) != nil
}

// answers are the answers of servers, one for each request. The last request waits.
type answers struct {
	requests chan structs.QueryRequest
	next     []func() (*cluster.CertificateRevocationsResponse, error)
}

func (a *answers) Call(ctx context.Context, _ string, req, resp any) error {
	a.requests <- *req.(*structs.QueryRequest)
	if len(a.next) == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	answer, err := a.next[0]()
	a.next = a.next[1:]
	if err == nil {
		*resp.(*cluster.CertificateRevocationsResponse) = *answer
	}
	return err
}

func listAt(index uint64, ids ...string) func() (*cluster.CertificateRevocationsResponse, error) {
	return func() (*cluster.CertificateRevocationsResponse, error) {
		resp := &cluster.CertificateRevocationsResponse{}
		resp.Index = index
		for _, id := range ids {
			resp.Revocations = append(resp.Revocations, &cluster.Revocation{
				ID:   cluster.MachineRevocationID(cluster.JoinNode, id),
				Role: cluster.JoinNode,
				Name: id,
			})
		}
		return resp, nil
	}
}

func TestFollower_HoldsTheListOfTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := func() (*cluster.CertificateRevocationsResponse, error) {
			return nil, structs.Unavailablef("no server")
		}
		servers := &answers{
			requests: make(chan structs.QueryRequest),
			next: []func() (*cluster.CertificateRevocationsResponse, error){
				down,
				listAt(5),
				listAt(7, "n1"),
				listAt(4), // a server that is behind
				listAt(9, "n2"),
			},
		}
		keys := &fakeKeys{}
		f := Follower{Keys: keys, Caller: servers, Logger: hclog.NewNullLogger(), News: make(chan struct{}, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.Run(ctx) })
		for i, want := range []struct {
			index   uint64
			stale   bool
			revoked bool
		}{
			{0, false, false},
			{0, false, false},
			{5, true, false},
			{7, true, true},
			{0, false, true},
			{9, true, false},
		} {
			req := <-servers.requests
			got := keys.isRevoked()
			if req.MinIndex != want.index || req.AllowStale != want.stale || got != want.revoked {
				t.Errorf("request %d: after %d, stale %v, revoked %v; want %+v",
					i, req.MinIndex, req.AllowStale, got, want)
			}
		}
		synctest.Wait()
		if keys.closed != 3 {
			t.Errorf("closed %d times; expected once for each list", keys.closed)
		}
		cancel()
		running.Wait()
	})
}

func TestFollowStore_ClosesConnectionsAfterEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.New()
		keys := &fakeKeys{}
		InStore(keys, store)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { FollowStore(ctx, keys, store) })
		synctest.Wait()
		before := keys.closed
		err := store.Write(1, func(tx *state.WriteTx) error {
			return trust.Revoke(tx, &cluster.CertificateRevokeRequest{Role: cluster.JoinNode, Name: "n1"})
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !keys.isRevoked() || keys.closed != before+1 {
			t.Errorf("revoked %v, closed %d times after %d", keys.isRevoked(), keys.closed, before)
		}
		cancel()
		running.Wait()
	})
}

// removals are the authorities that a server does not trust.
type removals struct {
	mu  sync.Mutex
	ids []string
}

func (r *removals) SetRemoved(ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = ids
}

func (r *removals) removed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ids
}

// The trust in a replaced authority ends after 30 days, in which no row changes.
func TestFollowRemoved_LooksAgainWithoutAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := time.Now().Add(30 * 24 * time.Hour)
		keys := &removals{}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			FollowRemoved(ctx, keys, state.New(), func() []string {
				if time.Now().Before(end) {
					return nil
				}
				return []string{"former"}
			})
		})
		time.Sleep(time.Until(end) - time.Second)
		synctest.Wait()
		if got := keys.removed(); got != nil {
			t.Errorf("before the end: %q", got)
		}
		time.Sleep(removedInterval + time.Second)
		synctest.Wait()
		if got := keys.removed(); !slices.Equal(got, []string{"former"}) {
			t.Errorf("an hour after the end: %q", got)
		}
		cancel()
		running.Wait()
	})
}

func TestFollower_TellsOfOtherAuthoritiesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trusting := func(index uint64, ids ...string) func() (*cluster.CertificateRevocationsResponse, error) {
			return func() (*cluster.CertificateRevocationsResponse, error) {
				resp := &cluster.CertificateRevocationsResponse{Authorities: ids}
				resp.Index = index
				return resp, nil
			}
		}
		servers := &answers{
			requests: make(chan structs.QueryRequest),
			next: []func() (*cluster.CertificateRevocationsResponse, error){
				trusting(5), trusting(6, "a"), trusting(7, "a"), trusting(8, "b", "a"),
			},
		}
		f := Follower{
			Keys:   &fakeKeys{},
			Caller: servers,
			Logger: hclog.NewNullLogger(),
			News:   make(chan struct{}, 1),
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.Run(ctx) })
		for i, want := range []struct {
			first string
			news  bool
		}{{"", false}, {"a", true}, {"a", false}, {"b", true}} {
			<-servers.requests
			synctest.Wait()
			first := ""
			if trusted := f.Trusted(); len(trusted) > 0 {
				first = trusted[0]
			}
			if first != want.first || (len(f.News) > 0) != want.news {
				t.Errorf("request %d: %q signs, %d news; want %+v", i, first, len(f.News), want)
			}
			if len(f.News) > 0 {
				<-f.News
			}
		}
		<-servers.requests // the last one waits
		cancel()
		running.Wait()
	})
}
