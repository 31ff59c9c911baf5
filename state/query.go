package state

import (
	"context"
	"time"

	"berth/structs"
)

// How long a blocking read waits when it does not say, and at most.
const (
	defaultWait = 5 * time.Minute
	longestWait = 10 * time.Minute
)

// Query runs a read and, if the caller asked to wait (MinIndex above 0), waits until its answer is news.
//
//   - fn is run on a consistent snapshot, once or several times: it must set its answer anew each time.
//   - The index returned is the newest of the tables fn read, at least 1. It goes with the answer, also
//     with an error: the caller gives it back as MinIndex to wait for the next news.
//   - While that index is not above MinIndex, Query waits for what fn looked at - single rows and ranges,
//     not tables - to change, and runs fn again. What changed beside it in the same tables may end the
//     wait early when fn is run for another reason, but never causes a run.
//   - A fn that fails with not-found waits too, for what it looked for to appear. Any other error is
//     returned at once.
//   - After MaxWait (default 5 minutes, at most 10) the last answer is returned, as it is, with its error.
//   - When the whole store is replaced by a snapshot, everybody who waits gets an answer from it at once,
//     though its index may be lower than MinIndex.
//   - When ctx ends the error is a timeout.
func (s *Store) Query(ctx context.Context, opts *structs.QueryOptions, fn func(*Read) error) (uint64, error) {
	if opts.MinIndex == 0 {
		tx := s.Read()
		err := fn(tx)
		return tx.Newest(), err
	}
	wait, cancel := context.WithTimeout(ctx, waitTime(opts.MaxWait))
	defer cancel()
	restored := false
	for {
		tx := s.Watching()
		err := fn(tx)
		index := tx.Newest()
		failed := err != nil && !structs.IsKind(err, structs.KindNotFound)
		if failed || restored || index > opts.MinIndex {
			return index, err
		}
		if s.Wait(wait, tx) != nil {
			if ctx.Err() != nil {
				return index, structs.Errorf(structs.KindTimeout, "waiting for news after index %d: %w", opts.MinIndex, ctx.Err())
			}
			return index, err
		}
		restored = tx.gone()
	}
}

// gone reports whether the store has been restored since the snapshot was taken.
func (tx *Read) gone() bool {
	select {
	case <-tx.content.abandoned:
		return true
	default:
		return false
	}
}

func waitTime(asked time.Duration) time.Duration {
	if asked <= 0 {
		return defaultWait
	}
	return min(asked, longestWait)
}
