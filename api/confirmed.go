package api

// Package confirm ends a request that lasts when its caller has lost the right to it.

import (
	"context"
	"time"

	"berth/structs"
)

// ConfirmEvery is the time between two questions, and ConfirmLimit the time for which a request lasts without
// an answer.
const (
	ConfirmEvery = 2 * time.Second
	ConfirmLimit = 30 * time.Second
)

// WatchRight asks until ctx ends whether the caller still has the right, and calls end with the error once it
// has not. Another error than a denial, as one without a leader, says nothing about the right, so it ends the
// request only after ConfirmLimit.
func WatchRight(ctx context.Context, ask func(context.Context) error, end context.CancelCauseFunc) {
	again := time.NewTicker(ConfirmEvery)
	defer again.Stop()
	confirmed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}

		asking, cancel := context.WithDeadline(ctx, confirmed.Add(ConfirmLimit))
		err := ask(asking)
		cancel()
		switch {
		case err == nil:
			confirmed = time.Now()
		case structs.IsKind(err, structs.KindDenied):
			end(err)
			return
		case time.Since(confirmed) >= ConfirmLimit:
			end(structs.Unavailablef("no server has confirmed the right of the caller for %s: %w", ConfirmLimit, err))
			return
		}
	}
}
