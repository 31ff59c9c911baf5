package certificate

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/backoff"
	"berth/internal/peertls"
	"berth/rpc"
	"berth/state"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// Keys check the certificates of connections: *peertls.Keys.
type Keys interface {
	SetRevoked(peertls.Revoked)
	CloseRevoked()
}

// InStore makes the keys of a server ask its rows.
func InStore(keys Keys, store *state.Store) {
	keys.SetRevoked(func(c cluster.CertificateRef) *cluster.Revocation {
		return trust.Revoked(store.Read(), c)
	})
}

// FollowStore closes the connections of revoked certificates after each change of the rows, until ctx ends.
func FollowStore(ctx context.Context, keys Keys, store *state.Store) {
	feed := store.Subscribe(1, schema.RevocationRows)
	defer feed.Close()
	for ctx.Err() == nil {
		// The first pass closes what was opened before the subscription.
		feed.TakeChanges()
		keys.CloseRevoked()
		select {
		case <-feed.Ready():
		case <-ctx.Done():
		}
	}
}

// removedInterval is the time between two looks at the authorities: the trust in a replaced one ends by time,
// without a change of the rows.
const removedInterval = time.Hour

// FollowRemoved ends the trust of a server in authorities that are no longer trusted, until ctx ends: after
// each change of the rows, and once an hour. removed returns their IDs. A server that renews gets its ca_file
// with its next certificate. One that does not, or has not opened the key of the new authority, has the
// removed one in its ca_file.
func FollowRemoved(
	ctx context.Context, keys interface{ SetRemoved([]string) }, store *state.Store, removed func() []string,
) {
	feed := store.Subscribe(1, schema.AuthorityRows)
	defer feed.Close()
	looks := time.NewTicker(removedInterval)
	defer looks.Stop()
	for ctx.Err() == nil {
		feed.TakeChanges()
		keys.SetRemoved(removed())
		select {
		case <-feed.Ready():
		case <-looks.C:
		case <-ctx.Done():
		}
	}
}

const (
	// pollTime is the longest that a request waits for a change.
	pollTime = 5 * time.Minute
	// retryTime is the time between a failed request and the next one.
	retryTime = 15 * time.Second
)

// Follower holds the revocations in the memory of a node. Before the first answer of the servers it knows of
// none.
type Follower struct {
	Keys   Keys
	Caller rpc.Caller
	Logger hclog.Logger

	// News gets a value when the answer of Trusted has changed. It has a buffer of one.
	News chan struct{}

	known   atomic.Pointer[map[string]*cluster.Revocation] // by ID
	trusted atomic.Pointer[[]string]
}

// Trusted returns the IDs of the authorities that the servers trust, the one that signs first. It returns
// none before the first answer.
func (f *Follower) Trusted() []string {
	trusted := f.trusted.Load()
	if trusted == nil {
		return nil
	}
	return *trusted
}

// Run asks the servers for the revocations and follows their changes until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	f.Keys.SetRevoked(f.revoked)
	var index uint64
	told := false
	for ctx.Err() == nil {
		next, err := f.ask(ctx, index)
		if err == nil {
			told = false
			index = next
			continue
		}

		if !told && ctx.Err() == nil {
			f.Logger.Warn("failed to ask the servers for revoked certificates; the ones known stay rejected",
				"error", err)
		}

		told = true
		backoff.Sleep(ctx, retryTime)
	}
}

// ask waits for revocations that are newer than an index, and takes them over. Any server may answer that has
// them. With the index 0 the leader answers.
func (f *Follower) ask(ctx context.Context, after uint64) (index uint64, err error) {
	req := &structs.QueryRequest{}
	req.MinIndex = after
	req.MaxWait = pollTime
	req.AllowStale = after > 0
	resp, err := rpc.Call(ctx, f.Caller, cluster.CertificateRevocations, req)
	if err != nil {
		return 0, err
	}

	if resp.Index < after {
		return 0, nil // the server is behind, or the servers were restored
	}

	known := make(map[string]*cluster.Revocation, len(resp.Revocations))
	for _, r := range resp.Revocations {
		known[r.ID] = r
	}

	f.known.Store(&known)

	// This follows the store of what is known: a connection that opens meanwhile is checked by the new
	// answer.
	f.Keys.CloseRevoked()
	if !slices.Equal(resp.Authorities, f.Trusted()) {
		f.trusted.Store(&resp.Authorities)
		select {
		case f.News <- struct{}{}:
		default: // one is there already
		}
	}

	return resp.Index, nil
}

// revoked is a peertls.Revoked.
func (f *Follower) revoked(c cluster.CertificateRef) *cluster.Revocation {
	known := f.known.Load()
	if known == nil {
		return nil
	}

	for _, id := range c.RevocationIDs() {
		r := (*known)[id]
		if r != nil && r.Covers(c) {
			return r
		}
	}

	return nil
}
