package control

import (
	"context"
	"time"
)

// gcLoop deletes rows that ended long ago.
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
		c := Collection{Keep: g.Config.GCKeep, Batch: g.Config.GCBatch, Now: g.Now()}
		_, err := c.Run(ctx, g.Store.Read(), g.Proposer)
		if err != nil && ctx.Err() == nil {
			g.Logger.Warn("failed to delete garbage, retrying later", "error", err)
		}
	}
}
