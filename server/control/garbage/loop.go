package garbage

import (
	"context"
	"time"

	"berth/internal/backoff"
	"berth/server/control/loop"
)

// Loop deletes rows that ended long ago.
type Loop struct {
	loop.Common
	Interval time.Duration
	Keep     Thresholds
}

// Run collects until ctx ends.
func (g Loop) Run(ctx context.Context) {
	for backoff.Sleep(ctx, g.Interval) {
		c := Collection{
			Keep: g.Keep,
			Now:  g.Clock.Now(),
		}
		_, err := c.Run(ctx, g.Store.Read(), g.Proposer)
		if err != nil && ctx.Err() == nil {
			g.Logger.Warn("failed to delete garbage, retrying", "error", err)
		}
	}
}
