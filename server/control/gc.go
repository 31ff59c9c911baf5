package control

import (
	"context"
	"time"

	"berth/endpoints"
)

// gcLoop deletes what has ended long ago.
type gcLoop struct{ Deps }

func (g gcLoop) run(ctx context.Context) {
	tick := time.NewTicker(g.Config.GCInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		entries := endpoints.Garbage(g.Store.Read(), g.Config.GCKeep, g.Now(), g.Config.GCBatch)
		if _, err := endpoints.Reap(ctx, g.Proposer, entries, g.Now()); err != nil && ctx.Err() == nil {
			g.Logger.Warn("garbage could not be deleted, trying again later", "error", err)
		}
	}
}
