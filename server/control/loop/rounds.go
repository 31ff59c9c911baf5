package loop

import (
	"context"
	"sync"
	"time"

	"berth/internal/backoff"
	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
)

const (
	// Tick is the time between two looks for plugins that are due.
	Tick = 15 * time.Second
	// AtOnce bounds the plugins whose rounds are in work at the same time.
	AtOnce = 4
)

// Rounds looks after each plugin again and again while this server leads. It remembers an M of each, which is
// zero at first. Another leader begins anew.
type Rounds[M any] struct {
	Common
	// After is the time from the begin of a leadership to the first round: plugins connect meanwhile.
	After time.Duration
	// Interval returns the time from a round that is due to the next one. If it reports false, the plugin has
	// no round now, and is due again at the next tick.
	Interval func(ctx context.Context, tx *state.ReadTx, pluginID string, m *M) (time.Duration, bool)
	// Round looks after a plugin. A plugin has one round at a time.
	Round func(ctx context.Context, pluginID string, m *M)
}

// remembered is what the rounds know of a plugin.
type remembered[M any] struct {
	due    time.Time
	memory M
}

// Run makes rounds until ctx ends, and waits for them.
func (r Rounds[M]) Run(ctx context.Context) {
	plugins := map[string]*remembered[M]{}
	for backoff.Sleep(ctx, Tick) {
		r.tick(ctx, plugins)
	}
}

// tick makes the rounds of the plugins that are due. It forgets plugins without a row.
func (r Rounds[M]) tick(ctx context.Context, plugins map[string]*remembered[M]) {
	tx := r.Store.Read()
	now := time.Now()
	var wg sync.WaitGroup
	slots := make(chan struct{}, AtOnce)
	for p := range schema.Plugins.Scan(tx) {
		m := plugins[p.ID]
		if m == nil {
			m = &remembered[M]{due: now.Add(r.After - Tick)}
			plugins[p.ID] = m
		}
		if now.Before(m.due) {
			continue
		}
		interval, due := r.Interval(ctx, tx, p.ID, &m.memory)
		if !due {
			continue
		}

		m.due = now.Add(interval)
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r.Round(ctx, p.ID, &m.memory)
		})
	}
	wg.Wait()

	for id := range plugins {
		if csi.Plugin(tx, id) == nil {
			delete(plugins, id)
		}
	}
}
