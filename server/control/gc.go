package control

import (
	"context"
	"time"

	"berth/internal/backoff"
	"berth/server/control/garbage"
)

// gcLoop deletes rows that ended long ago.
type gcLoop struct{ Deps }

func (g gcLoop) run(ctx context.Context) {
	for backoff.Sleep(ctx, g.Config.GCInterval) {
		c := garbage.Collection{
			Keep: g.Config.GCKeep,
			Now:  time.Now(),
		}
		_, err := c.Run(ctx, g.Store.Read(), g.Proposer)
		if err != nil && ctx.Err() == nil {
			g.Logger.Warn("failed to delete garbage, retrying", "error", err)
		}
	}
}
