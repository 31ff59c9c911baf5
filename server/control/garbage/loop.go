package garbage

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/server/clock"
	"berth/state"
)

// Loop deletes rows that ended long ago.
type Loop struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Logger   hclog.Logger
	Interval time.Duration
	Keep     Thresholds
	Clock    *clock.Cluster
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
