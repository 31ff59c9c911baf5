// Package confirm ends a request that lasts when its caller has lost the right to it.
package confirm

import (
	"context"
	"time"

	"berth/structs"
)

// Every is the time between two questions, and Limit the time for which a request lasts without an answer.
const (
	Every = 2 * time.Second
	Limit = 30 * time.Second
)

// Watch asks until ctx ends whether the caller still has the right, and calls end with the error once it has
// not. Another error than a denial, as one without a leader, says nothing about the right, so it ends the
// request only after Limit.
func Watch(ctx context.Context, ask func(context.Context) error, end context.CancelCauseFunc) {
	again := time.NewTicker(Every)
	defer again.Stop()
	confirmed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}

		asking, cancel := context.WithDeadline(ctx, confirmed.Add(Limit))
		err := ask(asking)
		cancel()
		switch {
		case err == nil:
			confirmed = time.Now()
		case structs.IsKind(err, structs.KindDenied):
			end(err)
			return
		case time.Since(confirmed) >= Limit:
			end(structs.Unavailablef("no server has confirmed the right of the caller for %s: %w", Limit, err))
			return
		}
	}
}
