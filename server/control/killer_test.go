package control

import (
	"context"
	"sync"
	"time"
)

// killer ends the leader at one of its steps: before or after an entry of the log or a call of the plugin.
type killer struct {
	*testEnv
	plugin interface{ answer(nodeCall) (any, error) }
	mu     sync.Mutex
	count  int
	at     int  // the step; 0: none
	late   bool // after the step
	cancel context.CancelFunc
}

// step carries out a step of the leader, unless it dies before. alive is false if it dies.
func (k *killer) step(ctx context.Context, do func()) (alive bool) {
	k.mu.Lock()
	k.count++
	dies := k.count == k.at
	k.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	if !dies || k.late {
		do()
	}
	if dies {
		k.cancel()
	}
	return !dies
}

func (k *killer) Propose(ctx context.Context, entry []byte) (index uint64, answer any, err error) {
	if !k.step(ctx, func() { index, answer, err = k.log.Propose(ctx, entry) }) {
		return 0, nil, context.Canceled
	}
	return index, answer, err
}

func (k *killer) answer(c nodeCall) (answer any, err error) {
	if !k.step(context.Background(), func() { answer, err = k.plugin.answer(c) }) {
		return nil, context.Canceled
	}
	return answer, err
}

// lead runs the loop until it dies or nothing is left to do.
func (k *killer) lead(d Deps) {
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	d.Proposer = k
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		controllerLoop{Deps: d}.runner().Run(ctx)
	}()
	after(time.Hour)
	cancel()
	<-ended
}
