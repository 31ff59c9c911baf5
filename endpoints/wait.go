package endpoints

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/state"
	"berth/structs"
)

// defaultWait is how long a read waits that does not say.
const defaultWait = 5 * time.Minute

// waitOf is how long a read may wait.
func waitOf(q *structs.QueryOptions) time.Duration {
	if q.MaxWait <= 0 {
		return defaultWait
	}
	return min(q.MaxWait, structs.MaxWait)
}

// waiting bounds ctx by how long a read may wait. One that is not to be stale also ends when this server is
// deposed: it may be cut off, and then hears of no news.
func (e *Endpoints) waiting(ctx context.Context, q *structs.QueryOptions) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithTimeout(ctx, waitOf(q))
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
func (e *Endpoints) woke(method string) {
	e.wakes.Add(1)
	metrics.IncrCounterWithLabels([]string{"rpc", "woken"}, 1, []metrics.Label{{Name: "method", Value: method}})
}

// watch runs a read and, if the caller asked to wait (MinIndex above 0), waits until its answer is news.
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
func watch[Resp any](ctx context.Context, e *Endpoints, method string, req any,
	look func(tx *state.ReadTx) (*Resp, error),
) (resp *Resp, index uint64, err error) {
	q := req.(interface{ Query() *structs.QueryOptions }).Query()
	if q.MinIndex == 0 {
		tx := e.store.Read()
		resp, err = look(tx)
		return resp, tx.Newest(), err
	}
	return news(ctx, e, method, req, q, look)
}

// news is watch for who asked to wait.
func news[Resp any](ctx context.Context, e *Endpoints, method string, req any, q *structs.QueryOptions,
	look func(tx *state.ReadTx) (*Resp, error),
) (resp *Resp, index uint64, err error) {
	limited, cancel := e.waiting(ctx, q)
	defer cancel()
	question, last, before := e.known.question(method, req, q), uint64(0), uint64(0)
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
		if made = err != nil || metaOf(resp).Rows == nil; !made {
			resp = nil // it holds all of the old state; what it says can be found again
		}
		if e.store.Wait(limited, tx) != nil {
			break
		}
		e.woke(method)
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

// wait is the blocking read of those who are many: nodes. It differs from watch in that the answer's index
// is that of the rows in it, not of their tables, so that nothing has to be remembered of it.
//
// look fills an answer with its index from tx. It is answered when its index is above MinIndex, or when look
// has been run again, because something it looked at has changed, and says that this is news. An error is
// returned at once. After MaxWait the answer is returned as it is.
func wait[Resp any](ctx context.Context, e *Endpoints, method string, q *structs.QueryOptions,
	look func(tx *state.ReadTx) (resp *Resp, news bool, err error),
) (*Resp, error) {
	limited, cancel := e.waiting(ctx, q)
	defer cancel()
	for again := false; ; again = true {
		tx := e.store.ReadWatched()
		resp, news, err := look(tx)
		if err != nil || again && news || metaOf(resp).Index > q.MinIndex {
			return resp, err
		}
		if e.store.Wait(limited, tx) != nil {
			if ended := gaveUp(ctx, limited, q); ended != nil {
				return nil, ended
			}
			return resp, nil
		}
		e.woke(method)
	}
}
