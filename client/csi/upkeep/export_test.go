package upkeep

import (
	"context"
	"time"
)

// PollOnce does the work of one interval without its waits: all looks, and a measurement of each volume.
func PollOnce(ctx context.Context, p *Poller) {
	later := time.Now().Add(2 * p.cfg.Interval)
	for range looks - 1 {
		p.due(time.Time{})
	}
	for _, do := range p.dueWork(ctx, later) {
		do()
	}
}
