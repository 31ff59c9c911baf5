package chaos

import (
	"context"
	"fmt"
	"time"

	"berth/test/stepclock"
)

// clockSteps are those of the wall clock of a machine. The longest make the servers delete what has ended.
var clockSteps = []time.Duration{-2 * time.Hour, -30 * time.Second, 30 * time.Second, 30 * time.Hour}

// drawClocks draws the wall clocks of the machines at the begin: each other one is wrong.
func (w *world) drawClocks() {
	r := w.draws(clockDraws)
	for _, m := range w.all {
		wrong := r.IntN(2) == 0
		by := clockSteps[r.IntN(len(clockSteps))]
		if wrong {
			m.clock = by
			w.note("the wall clock of %s begins with %s", m.name, by)
		}
	}
}

// clockDraws is the part of the draws for the clocks at the begin. The operators have those from 2 on.
const clockDraws = 1 << 20

// stepClock changes the wall clock of a machine, and changes it back.
func stepClock(ctx context.Context, w *world, m *member, f *fault) (func() error, error) {
	by := clockSteps[f.choice%len(clockSteps)]
	end := func() error { return stepclock.Set(m.path("clock"), m.clock) }
	if err := stepclock.Set(m.path("clock"), by); err != nil {
		return end, err
	}
	w.note("#%d the wall clock of %s steps by %s", f.number, m.name, by)

	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	answer, err := m.get(ctx, "/v1/agent/health", nil)
	if err != nil {
		w.note("#%d: %v", f.number, err)
		return end, nil
	}
	_ = answer.Body.Close()
	seen, err := stepclock.Of(answer.Header)
	if err == nil && (seen-by).Abs() > 15*time.Second {
		err = fmt.Errorf("it has stepped by %s", seen)
	}
	if err != nil {
		w.violate(harness, "#%d: the wall clock of %s: %v", f.number, m.name, err)
	}
	return end, nil
}
