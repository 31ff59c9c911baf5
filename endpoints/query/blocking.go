package query

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/state"
	"berth/structs"
)

// defaultWait is how long a read waits that does not say.
const defaultWait = 5 * time.Minute

// WaitLimit returns how long a query may wait.
func WaitLimit(q *structs.QueryOptions) time.Duration {
	if q.MaxWait <= 0 {
		return defaultWait
	}
	return min(q.MaxWait, structs.MaxWait)
}

// Leadership tells when this server loses its leadership.
type Leadership interface {
	// Deposed is closed when this server does not lead; see endpoints.Raft.
	Deposed() <-chan struct{}
}

// Engine runs the queries of one server.
type Engine struct {
	store *state.Store
	raft  Leadership
	known *known        // what blocking reads were answered
	pace  pace          // of those that take long
	wakes atomic.Uint64 // how often a waiting read has looked again
}

// NewEngine runs queries on a store.
func NewEngine(store *state.Store, raft Leadership) *Engine {
	return &Engine{store: store, raft: raft, known: newKnown(), pace: newPace()}
}

// Woken returns how often a waiting query has run again because a row or range that it read has changed.
func (e *Engine) Woken() uint64 { return e.wakes.Load() }

// Request is the call of a method. Its body embeds structs.QueryOptions.
type Request struct {
	Method string
	Body   any
}

func (r Request) options() *structs.QueryOptions {
	return r.Body.(interface{ Query() *structs.QueryOptions }).Query()
}

// MetaOf returns what an answer says of itself. It panics unless the answer embeds structs.QueryMeta.
func MetaOf(resp any) *structs.QueryMeta {
	return resp.(interface{ Meta() *structs.QueryMeta }).Meta()
}

// waiting bounds ctx by how long a read may wait. One that is not to be stale also ends when this server is
// deposed: it may be cut off, and then hears of no news.
func (e *Engine) waiting(ctx context.Context, q *structs.QueryOptions) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithTimeout(ctx, WaitLimit(q))
	if q.AllowStale {
		return ctx, stop
	}
	deposed := e.raft.Deposed()
	go func() {
		select {
		case <-deposed:
			stop()
		case <-ctx.Done():
		}
	}()
	return ctx, stop
}

// gaveUp is the error of a wait that ended because its caller did or this server was deposed, nil when its
// time was over.
func gaveUp(ctx, limited context.Context, q *structs.QueryOptions) error {
	switch {
	case ctx.Err() != nil:
		return structs.Errorf(structs.KindTimeout, "waiting for news after index %d: %w", q.MinIndex, ctx.Err())
	case errors.Is(limited.Err(), context.Canceled):
		return structs.Errorf(structs.KindUnavailable, "this server leads no more and hears no news; ask the others")
	}
	return nil
}

// woke counts that something a waiting read had looked at has changed.
func (e *Engine) woke(method string) {
	e.wakes.Add(1)
	metrics.IncrCounterWithLabels([]string{"rpc", "woken"}, 1, []metrics.Label{{Name: "method", Value: method}})
}

// Watch runs a read and, if the caller asked to wait (MinIndex above 0), waits until its answer is news.
//
//   - look is run on a consistent snapshot, once or several times.
//   - The index is the newest of the tables look read, at least 1. It goes with the answer, also with a
//     not-found: the caller gives it back as MinIndex to wait for the next news.
//   - It is answered when that index is above MinIndex, unless the answer is known to have been the same at
//     MinIndex (see known); or when look has been run again, because a row or range it looked at has
//     changed, and its answer is another; or when a restored snapshot has an older one, so that the caller
//     learns of the older index.
//   - A look that fails with not-found waits too, for what it looked for to appear. Any other error is
//     returned at once.
//   - Looks that take long take turns (see pace).
//   - After MaxWait (default 5 minutes, at most 10) the answer is returned as it is.
//   - When ctx ends the error is a timeout.
func Watch[Resp any](ctx context.Context, e *Engine, req Request,
	look func(tx *state.ReadTx) (*Resp, error),
) (resp *Resp, index uint64, err error) {
	if req.options().MinIndex == 0 {
		tx := e.store.Read()
		resp, err = look(tx)
		return resp, tx.Newest(), err
	}
	return news(ctx, e, req, look)
}

// news is the blocking path of Watch.
func news[Resp any](ctx context.Context, e *Engine, req Request,
	look func(tx *state.ReadTx) (*Resp, error),
) (resp *Resp, index uint64, err error) {
	q := req.options()
	limited, cancel := e.waiting(ctx, q)
	defer cancel()
	question, last, before := e.known.question(req), uint64(0), uint64(0)
	took, made := e.known.took(question), true
	for again := false; ; again = true {
		done, late := e.pace.turn(limited, took)
		if late != nil && again || ctx.Err() != nil {
			break
		}
		start, tx := time.Now(), e.store.ReadWatched()
		resp, err = look(tx)
		var digest uint64
		digest, err = e.known.answer(resp, err)
		index, took = tx.Newest(), time.Since(start)
		if done(took); err != nil && !structs.IsKind(err, structs.KindNotFound) {
			return resp, index, err
		}
		isNews := again && (digest != last || index < before) || !again && index > q.MinIndex && !e.known.same(question, digest, q.MinIndex)
		last, before = digest, index
		e.known.learn(question, stretch{digest, index, max(index, tx.Applied()), took})
		if isNews {
			return resp, index, err
		}
		if made = err != nil || MetaOf(resp).Rows == nil; !made {
			resp = nil // it holds all of the old state; what it says can be found again
		}
		if e.store.Wait(limited, tx) != nil {
			break
		}
		e.woke(req.Method)
	}
	if ended := gaveUp(ctx, limited, q); ended != nil {
		return nil, index, ended
	}
	if !made {
		tx := e.store.Read()
		resp, err = look(tx)
		index = tx.Newest()
	}
	return resp, index, err
}

// Wait is the blocking read of those who are many: nodes. It differs from Watch in that the answer's index
// is that of the rows in it, not of their tables, so that nothing has to be remembered of it.
//
// look fills an answer with its index from tx. It is answered when its index is above MinIndex, or when look
// has been run again, because something it looked at has changed, and says that this is news. An error is
// returned at once. After MaxWait the answer is returned as it is.
func Wait[Resp any](ctx context.Context, e *Engine, req Request,
	look func(tx *state.ReadTx) (resp *Resp, news bool, err error),
) (*Resp, error) {
	q := req.options()
	limited, cancel := e.waiting(ctx, q)
	defer cancel()
	for again := false; ; again = true {
		tx := e.store.ReadWatched()
		resp, news, err := look(tx)
		if err != nil || again && news || MetaOf(resp).Index > q.MinIndex {
			return resp, err
		}
		if e.store.Wait(limited, tx) != nil {
			if ended := gaveUp(ctx, limited, q); ended != nil {
				return nil, ended
			}
			return resp, nil
		}
		e.woke(req.Method)
	}
}
