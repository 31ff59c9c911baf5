package garbage

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/state"
)

// Loop deletes rows that ended long ago.
type Loop struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Logger   hclog.Logger
	Interval time.Duration
	Keep     Thresholds
}

// Run collects until ctx ends.
func (g Loop) Run(ctx context.Context) {
	for backoff.Sleep(ctx, g.Interval) {
		c := Collection{
			Keep: g.Keep,
			Now:  time.Now(),
		}
		_, err := c.Run(ctx, g.Store.Read(), g.Proposer)
		if err != nil && ctx.Err() == nil {
			g.Logger.Warn("failed to delete garbage, retrying", "error", err)
		}
	}
}
