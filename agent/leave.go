package agent

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"berth/structs"
)

// signalled is the cause of a context that a signal has ended.
type signalled struct{ os.Signal }

// Error names the signal.
func (s signalled) Error() string { return s.String() + " received" }

// NotifyContext returns a context that ends with the first of the signals; Agent goes by which one it was.
// stop ends it, too, and gives the signals back to the runtime.
func NotifyContext(parent context.Context, signals ...os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	received := make(chan os.Signal, 1)
	signal.Notify(received, signals...)
	var wait sync.WaitGroup
	wait.Go(func() {
		select {
		case s := <-received:
			cancel(signalled{s})
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		signal.Stop(received)
		cancel(nil)
		wait.Wait()
	}
}

// runUntilSignal is Run that first has the server leave the cluster where ctx ends by a signal for which the
// configuration says so. A server that the cluster needs stays in it.
func (a *Agent) runUntilSignal(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ctx.Done():
			a.leaveOn(context.Cause(ctx))
			end()
		case <-life.Done():
		}
	})
	err := a.Run(life)
	end()
	watch.Wait()
	return err
}

func (a *Agent) leaveOn(cause error) {
	s, ok := cause.(signalled)
	leaves := ok && (s.Signal == os.Interrupt && a.cfg.LeaveOnInterrupt ||
		s.Signal == syscall.SIGTERM && a.cfg.LeaveOnTerminate)
	if !leaves || a.server == nil {
		return
	}
	if err := a.leave(context.Background(), false); err != nil {
		a.logger.Warn("the server stops without having left the cluster as it should", "signal", s.String(),
			"error", err)
	}
}

// leave has the server leave the cluster and then the agent end. Once it has begun it does not stop with ctx.
func (a *Agent) leave(ctx context.Context, force bool) error {
	if !a.leaving.TryLock() {
		return structs.Errorf(structs.KindConflict, "server %s is leaving already", a.cfg.Name)
	}
	defer a.leaving.Unlock()
	err := a.server.Leave(context.WithoutCancel(ctx), force)
	if err == nil || structs.IsKind(err, structs.KindTimeout) {
		select {
		case <-a.left:
		default:
			close(a.left)
		}
	}
	return err
}
