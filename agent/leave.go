package agent

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"berth/structs"
)

// signalled is the cause of a context that ended because of a signal.
type signalled struct{ os.Signal }

// Error names the signal.
func (s signalled) Error() string {
	return s.String() + " received"
}

// NotifyContext returns a context that ends with the first of the signals. Its cause names the signal for
// Agent. stop also ends it and restores the default behaviour of the signals.
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

// runUntilSignal is like Run. If ctx ends by a signal with a leave option, the server first leaves the
// cluster, unless the cluster would lose its majority.
func (a *Agent) runUntilSignal(ctx context.Context) error {
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ctx.Done():
			a.leaveOn(context.Cause(ctx))
			end()
		case <-running.Done():
		}
	})
	err := a.Run(running)
	end()
	watch.Wait()
	return err
}

func (a *Agent) leaveOn(cause error) {
	s, ok := cause.(signalled)
	cfg := a.config()
	leaves := s.Signal == os.Interrupt && cfg.LeaveOnInterrupt ||
		s.Signal == syscall.SIGTERM && cfg.LeaveOnTerminate
	if !ok || !leaves || a.server == nil {
		return
	}
	err := a.leave(context.Background(), false)
	if err != nil {
		a.logger.Warn("failed to leave the cluster before the stop",
			"signal", s.String(),
			"error", err)
	}
}

// leave removes the server from the cluster and then ends the agent. It does not end with ctx.
func (a *Agent) leave(ctx context.Context, force bool) error {
	if !a.leaving.TryLock() {
		return structs.Conflictf("server %s is leaving already", a.config().Name)
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
