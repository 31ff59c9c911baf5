package hooks

import (
	"context"
	"sync"
)

// Background runs one goroutine while the process of a task runs. A hook that embeds it has Stopped of
// Started.
type Background struct {
	stop    context.CancelFunc
	running sync.WaitGroup
}

// Begin starts the goroutine. Its context ends with ctx, and when the process has ended.
func (b *Background) Begin(ctx context.Context, watch func(context.Context)) {
	ctx, b.stop = context.WithCancel(ctx)
	b.running.Go(func() { watch(ctx) })
}

// Stopped implements Started: it ends the goroutine, and waits for it.
func (b *Background) Stopped() {
	b.stop()
	b.Wait()
}

// Wait waits for the goroutine, which may end by itself.
func (b *Background) Wait() { b.running.Wait() }
