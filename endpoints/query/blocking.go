package query

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/state"
	"berth/structs"
)

// defaultWait is how long a query waits without a MaxWait.
const defaultWait = 5 * time.Minute

// WaitLimit returns how long a query may wait.
func WaitLimit(q *structs.QueryOptions) time.Duration {
	if q.MaxWait <= 0 {
		return defaultWait
	}
	return min(q.MaxWait, structs.MaxWait)
}

// ReadRequest is a request that embeds structs.QueryOptions.
type ReadRequest interface{ Query() *structs.QueryOptions }

// ReadResponse is a response that embeds structs.QueryMeta.
type ReadResponse interface{ Meta() *structs.QueryMeta }

// Leadership reports when this server loses its leadership.
type Leadership interface {
	// LostLeadership is closed while this server does not lead; see core.Raft.
	LostLeadership() <-chan struct{}
}

// Engine runs the queries of one server.
type Engine struct {
	store   *state.Store
	raft    Leadership
	digests *digestCache
	slow    slowLimiter
}

// NewEngine runs queries on a store.
func NewEngine(store *state.Store, raft Leadership) *Engine {
	return &Engine{
		store:   store,
		raft:    raft,
		digests: newDigestCache(),
		slow:    newSlowLimiter(),
	}
}

// Request is the call of a method. Its body is a ReadRequest.
type Request struct {
	Method string
	Body   any
	// Holds, if not nil, is asked before each wait of Watch. It returns an error once the caller may have no
	// answer any more, which then ends the query, and otherwise the time after which it is to be asked again,
	// 0 for never.
	Holds func() (time.Duration, error)
}

func (r Request) options() *structs.QueryOptions {
	return r.Body.(ReadRequest).Query()
}

// MetaOf returns the metadata of a response. It panics unless the response is a ReadResponse.
func MetaOf(resp any) *structs.QueryMeta {
	return resp.(ReadResponse).Meta()
}

// limitWait bounds ctx by the time that a query may wait. A query that is not stale also ends when this
// server loses its leadership: the server may be partitioned and then sees no changes.
func (e *Engine) limitWait(
	ctx context.Context,
	q *structs.QueryOptions,
) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithTimeout(ctx, WaitLimit(q))
	if q.AllowStale {
		return ctx, stop
	}
	lost := e.raft.LostLeadership()
	go func() {
		select {
		case <-lost:
			stop()
		case <-ctx.Done():
		}
	}()
	return ctx, stop
}

// ErrLostLeadership is within the error of a read that was waiting when this server lost its leadership.
// Nothing is wrong with the read: the next leader answers it.
var ErrLostLeadership = errors.New("server lost leadership")

// waitError returns the error of a wait that ended with its caller or with the leadership, nil if its time
// was over.
func waitError(
	ctx, limited context.Context,
	q *structs.QueryOptions,
) error {
	switch {
	case ctx.Err() != nil:
		return structs.Timeoutf("waiting for a change after index %d: %w",
			q.MinIndex, ctx.Err())
	case errors.Is(limited.Err(), context.Canceled):
		return structs.NotServedf("%w; retry at another server", ErrLostLeadership)
	}
	return nil
}

// countWake counts a query that runs again because something that it read has changed.
func countWake(method string) {
	labels := []metrics.Label{{Name: "method", Value: method}}
	metrics.IncrCounterWithLabels([]string{"rpc", "woken"}, 1, labels)
}

// Watch runs a query and, if the caller asked to wait (MinIndex above 0), waits until its answer is new.
//
//   - read runs on a consistent snapshot, once or several times.
//   - The index is the newest of the tables that read has read, at least 1. It goes with the answer, also
//     with a not-found: the caller sends it as MinIndex to wait for the next change.
//   - Watch answers when that index is above MinIndex, unless the answer is known to have been the same at
//     MinIndex (see digestCache). It answers when read has run again, because a row or range that it read has
//     changed, and its answer has changed. It answers when a restored snapshot has an older index, so that
//     the caller learns of that index.
//   - A read that fails with not-found waits too, for the row to appear. Watch returns any other error at
//     once.
//   - A query that takes long may wait before it runs again (see slowLimiter).
//   - After MaxWait (default 5 minutes, at most 10) Watch returns the answer as it is.
//   - When ctx ends the error is a timeout.
func Watch(
	ctx context.Context,
	e *Engine,
	req Request,
	read func(tx *state.ReadTx) (resp any, err error),
) (resp any, index uint64, err error) {
	metrics.IncrCounter([]string{"rpc", "queries"}, 1)
	if req.options().MinIndex == 0 {
		tx := e.store.Read()
		resp, err = read(tx)
		return resp, tx.Newest(), err
	}
	b := &blockingQuery{
		Engine: e,
		req:    req,
		key:    e.digests.requestKey(req),
		read:   read,
	}
	return b.await(ctx)
}

// blockingQuery is a query that waits for a changed answer.
type blockingQuery struct {
	*Engine
	req  Request
	read func(tx *state.ReadTx) (any, error)
	key  uint64 // of the request in the digest cache

	// The last run.
	resp   any // nil also where it would hold all of an old state
	index  uint64
	err    error
	digest uint64
	took   time.Duration
}

func (b *blockingQuery) await(ctx context.Context) (any, uint64, error) {
	q := b.req.options()
	limited, cancel := b.limitWait(ctx, q)
	defer cancel()
	b.took = b.digests.known(b.key).took
	for again := false; ; again = true {
		release, late := b.slow.acquire(limited, b.took)
		if late != nil && again || ctx.Err() != nil {
			break
		}

		tx, changed := b.runLimited(again, release)
		if changed {
			return b.resp, b.index, b.err
		}

		if b.err == nil && MetaOf(b.resp).Rows != nil {
			b.resp = nil // the rows of a stream can be read again
		}

		over, err := b.wait(limited, tx)
		if err != nil {
			return nil, b.index, err
		}
		if over {
			break
		}

		countWake(b.req.Method)
	}

	if ended := waitError(ctx, limited, q); ended != nil {
		return nil, b.index, ended
	}

	if b.resp == nil && b.err == nil {
		tx := b.store.Read()
		b.resp, b.err = b.read(tx)
		b.index = tx.Newest()
	}

	return b.resp, b.index, b.err
}

// wait returns once anything that tx has read has changed, or with over set once limited has ended. The error
// comes from the request's Holds.
func (b *blockingQuery) wait(limited context.Context, tx *state.ReadTx) (over bool, err error) {
	for {
		left, err := b.holds()
		if err != nil || limited.Err() != nil {
			return true, err
		}

		if left == 0 {
			left = structs.MaxWait // no query waits for longer
		}
		look, stop := context.WithTimeout(limited, left)
		err = b.store.Wait(look, tx)
		stop()
		if err == nil {
			return false, nil
		}
	}
}

func (b *blockingQuery) holds() (time.Duration, error) {
	if b.req.Holds == nil {
		return 0, nil
	}
	return b.req.Holds()
}

// runLimited runs the query and then calls release, also after a panic of read, which the server turns into
// an error.
func (b *blockingQuery) runLimited(
	again bool,
	release func(took time.Duration),
) (tx *state.ReadTx, changed bool) {
	defer func() { release(b.took) }()
	return b.run(again)
}

// run runs the query and reports whether its answer is new.
func (b *blockingQuery) run(again bool) (tx *state.ReadTx, changed bool) {
	start := time.Now()
	tx = b.store.ReadWatched()
	b.resp, b.err = b.read(tx)
	digest, err := b.digests.answerDigest(b.resp, b.err)
	index := tx.Newest()
	b.err = err
	b.took = time.Since(start)
	least := b.req.options().MinIndex
	switch {
	case err != nil && !structs.IsKind(err, structs.KindNotFound):
		b.index = index
		return tx, true
	case again:
		changed = digest != b.digest || index < b.index
	default:
		known := b.digests.known(b.key)
		changed = index > least && !known.holds(digest, least)
	}

	b.index = index
	b.digest = digest
	b.digests.record(b.key, validRange{
		digest: digest,
		from:   index,
		to:     max(index, tx.Applied()),
		took:   b.took,
	})

	return tx, changed
}

// Wait is the blocking query of nodes, of which there are many. It differs from Watch in that the answer has
// the index of its rows, not of their tables, so that it needs no digest cache.
//
// read fills an answer with its index from tx, and reports whether the caller needs it now. Wait answers
// then, or when the index is above MinIndex. It calls read again when something that read has seen changes.
// It returns an error at once. After MaxWait it returns the answer as it is.
func Wait[Resp any](
	ctx context.Context,
	e *Engine,
	req Request,
	read func(tx *state.ReadTx) (resp *Resp, needed bool, err error),
) (*Resp, error) {
	q := req.options()
	limited, cancel := e.limitWait(ctx, q)
	defer cancel()
	for {
		tx := e.store.ReadWatched()
		resp, needed, err := read(tx)
		if err != nil || needed || MetaOf(resp).Index > q.MinIndex {
			return resp, err
		}

		if e.store.Wait(limited, tx) != nil {
			err = waitError(ctx, limited, q)
			if err != nil {
				resp = nil
			}
			return resp, err
		}

		countWake(req.Method)
	}
}
