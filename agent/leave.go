package agent

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"berth/structs"
)

// A signal ends the agent in three steps, each of them optional: the node drains, the server leaves the
// cluster, the process stops. The agent works in full until the last step, because the others need it.

// signalled is the cause of a context that ended because of a signal.
type signalled struct {
	os.Signal
	again context.Context // ends with a second signal
}

// Error names the signal.
func (s signalled) Error() string {
	return s.String() + " received"
}

// NotifyContext returns a context that ends with the first of the signals. Its cause names the signal for
// Agent, and tells it of a second one. stop also ends the context and restores the default behaviour of the
// signals.
func NotifyContext(parent context.Context, signals ...os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)

	// The signal package does not block, so the buffer has a place for the second one.
	received := make(chan os.Signal, 2)
	signal.Notify(received, signals...)
	stopped := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		again, endAgain := context.WithCancel(context.Background())
		defer endAgain()
		select {
		// The context ends here, and the goroutine goes on to wait for a second signal.
		case s := <-received:
			cancel(signalled{s, again})
		case <-stopped:
			return
		}

		select {
		case <-received:
		case <-stopped:
		}
	})

	// stop ends the goroutine at either of its two waits, and waits for it.
	return ctx, func() {
		signal.Stop(received)
		cancel(nil)
		close(stopped)
		wait.Wait()
	}
}

// runUntilSignal is like Run. If ctx ends by a signal, a node with drain_on_shutdown first drains itself. If
// the signal has a leave option, the server then leaves the cluster, unless the cluster would lose its
// majority.
func (a *Agent) runUntilSignal(ctx context.Context) error {
	// The agent runs on while the node drains and the server leaves. Both need it.
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ctx.Done():
			s, ok := context.Cause(ctx).(signalled)
			if ok {
				// The node drains before its server leaves: the drain is a write that needs the cluster.
				a.drainOn(running, s)
				a.leaveOn(s)
			}

			end()
		// The agent has ended by itself, for example after a leave by the API.
		case <-running.Done():
		}
	})
	err := a.Run(running)
	end()
	watch.Wait()
	return err
}

// drainOn drains the node at a signal. A second signal ends the wait.
func (a *Agent) drainOn(ctx context.Context, s signalled) {
	if a.client == nil || !a.config().drainsOn(s.Signal) {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.again, cancel)()
	a.client.Leave(ctx)
}

// leavesOn reports whether a signal has a leave option.
func (c *Config) leavesOn(s os.Signal) bool {
	return s == os.Interrupt && c.LeaveOnInterrupt ||
		s == syscall.SIGTERM && c.LeaveOnTerminate
}

// drainsOn reports whether the node drains at a signal, if it has drain_on_shutdown: at those with a leave
// option, as in the dialect, and at each if none has one.
func (c *Config) drainsOn(s os.Signal) bool {
	return c.leavesOn(s) || !c.LeaveOnInterrupt && !c.LeaveOnTerminate
}

// leaveOn lets the server leave, if the signal has that option. The agent stops also if it fails.
func (a *Agent) leaveOn(s signalled) {
	if a.server == nil || !a.config().leavesOn(s.Signal) {
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
	// A second request does not wait for the first one, which may take as long as an election.
	if !a.leaving.TryLock() {
		return structs.Conflictf("server %s is leaving already", a.config().Name)
	}
	defer a.leaving.Unlock()

	// A leave that has begun cannot be taken back, so the end of its request does not end it.
	err := a.server.Leave(context.WithoutCancel(ctx), force)

	// After a timeout the removal may still be committed. A server that is no member must not run on.
	if err == nil || structs.IsKind(err, structs.KindTimeout) {
		select {
		case <-a.left:
		default:
			close(a.left)
		}
	}

	return err
}
