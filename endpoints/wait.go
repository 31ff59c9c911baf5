package endpoints

import (
	"context"
	"time"

	"berth/state"
	"berth/structs"
)

// How long a node's read waits when it does not say, and at most.
const (
	defaultWait = 5 * time.Minute
	longestWait = 10 * time.Minute
)

// wait is the blocking read of those who are many: nodes. It differs from Store.Query in that the answer's
// index is that of the rows in it, not of their tables, so that in a busy cluster a node is not answered,
// and does not ask again, each time some other node's row is written.
//
// look fills an answer with its index from tx. It is answered when its index is above MinIndex, or when look
// has been run again, because something it looked at has changed, and says that this is news. An error is
// returned at once. After MaxWait the answer is returned as it is.
func wait[Resp any](ctx context.Context, store *state.Store, q *structs.QueryOptions,
	look func(tx *state.Read) (resp *Resp, news bool, err error),
) (*Resp, error) {
	limit := q.MaxWait
	if limit <= 0 {
		limit = defaultWait
	}
	limited, cancel := context.WithTimeout(ctx, min(limit, longestWait))
	defer cancel()
	for again := false; ; again = true {
		tx := store.Watching()
		resp, news, err := look(tx)
		if err != nil || again && news || metaOf(resp).Index > q.MinIndex {
			return resp, err
		}
		if store.Wait(limited, tx) != nil {
			if ctx.Err() != nil {
				return nil, structs.Errorf(structs.KindTimeout, "waiting for news after index %d: %w", q.MinIndex, ctx.Err())
			}
			return resp, nil
		}
	}
}
