package taskrunner

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner/lifecycle"
	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/structs"
)

// process is the process of a task, from its start or its recovery to its end.
type process struct {
	id      string // the driver's: "<alloc id>/<task>"
	task    string
	driver  driver.Driver
	shared  *Shared
	builder *builder
	record  *recordKeeper
	logger  hclog.Logger
	exited  chan *driver.ExitResult // receives its end
	// stopping prepares the hooks for the stop. It ends with its context.
	stopping func(context.Context)
}

func (t *Task) newProcess(d driver.Driver) *process {
	return &process{
		id:      t.id,
		task:    t.Name,
		driver:  d,
		shared:  t.shared,
		builder: t.builder,
		record:  t.record,
		logger:  t.logger,
		exited:  make(chan *driver.ExitResult, 1),
	}
}

// await waits for the end of the process and sends it to exited. It sends nothing if ctx ends first.
func (p *process) await(ctx context.Context) {
	res, err := p.driver.Wait(ctx, p.id)
	if ctx.Err() != nil {
		return
	}
	// The end is unknown. Before another start, cleanUp makes the driver destroy the rest.
	if err != nil {
		res = &driver.ExitResult{
			ExitCode: -1,
			Err:      err.Error(),
		}
	}
	// There is space for it, because the task may have stopped reading.
	p.exited <- res
}

// kill stops the process for good, as killed orders, and waits for its end.
func (p *process) kill(ctx, killed context.Context) {
	cause := context.Cause(killed)
	why, ok := lifecycle.CauseOf(killed)
	// The event of a failure comes from markDead.
	if ok && why.Event != "" && !why.Failed {
		p.record.emit(newEvent(why.Event, "%s", why.Reason))
	}
	p.record.emit(newEvent(structs.TaskEventKilling, "Sent interrupt: %v", cause))
	if res := p.end(ctx); res != nil {
		p.record.emit(exitEvent(structs.TaskEventKilled, "Task successfully killed", res))
	}
}

// end stops the process after the task's shutdown delay. It returns nil if ctx ends first.
func (p *process) end(ctx context.Context) *driver.ExitResult {
	// The delay is for clients that still know the services, so these are withdrawn first.
	p.shared.Services.Withdraw(p.task)
	if delay := p.builder.spec().ShutdownDelay; delay > 0 {
		select {
		case <-time.After(delay):
		case <-p.shared.Orders.Undelayed.Done():
		case res := <-p.exited:
			return res
		case <-ctx.Done():
			return nil
		}
	}
	p.prepareStop(ctx)
	return p.stop(ctx)
}

// prepareStop lets the hooks end their use of the process. A lost allocation does not wait for them.
func (p *process) prepareStop(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.shared.Orders.Lost, cancel)()
	p.stopping(ctx)
}

// stop makes the driver stop the process, and retries until the process has ended. It kills the process of a
// lost allocation at once. It returns nil if ctx ends first.
func (p *process) stop(ctx context.Context) *driver.ExitResult {
	pause := hooks.Pace
	for {
		// Once the order is there, its channel would let this loop spin.
		lost := p.shared.Orders.Lost.Done()
		if p.shared.Orders.Lost.Err() != nil {
			lost = nil
		}

		err := p.stopOnce(ctx)
		select {
		case res := <-p.exited:
			return res
		case <-ctx.Done():
			return nil
		// The next call kills at once.
		case <-lost:
		case <-time.After(pause.Next()):
			p.logger.Warn("failed to stop the task, retrying", "error", err)
		}
	}
}

// stopOnce makes the driver stop the process within its kill timeout, or at once if the allocation is lost.
func (p *process) stopOnce(ctx context.Context) error {
	if p.shared.Orders.Lost.Err() != nil {
		return p.driver.Stop(ctx, p.id, "SIGKILL", 0)
	}
	spec := p.builder.spec()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The order ends a call that waits for the kill timeout.
	defer context.AfterFunc(p.shared.Orders.Lost, cancel)()
	return p.driver.Stop(ctx, p.id, p.builder.killSignal(spec), p.builder.killTimeout(spec))
}

// recordExit records the end of a process. It precedes the clean-up, after which the driver no longer knows
// the end: an agent that is killed in between does not start the task a second time.
func (p *process) recordExit(res *driver.ExitResult) lifecycle.Ending {
	p.record.update(p.terminated(res), func(rec *taskRecord, _ *structs.TaskState) {
		rec.Ended = res
	})
	return endingOf(res)
}

// terminated returns the event of the end of a process, and logs the end.
func (p *process) terminated(res *driver.ExitResult) *structs.TaskEvent {
	e := exitEvent(structs.TaskEventTerminated, describeExit(res), res)
	if res.OOMKilled {
		e.Details = map[string]string{"oom_killed": "true"}
	}
	p.logger.Info("task ended",
		"exit_code", res.ExitCode, "signal", res.Signal,
		"oom_killed", res.OOMKilled, "error", res.Err)
	return e
}

func endingOf(res *driver.ExitResult) lifecycle.Ending {
	return lifecycle.Ending{
		OK:     res.Successful(),
		Reason: describeExit(res),
	}
}

func exitEvent(kind, message string, res *driver.ExitResult) *structs.TaskEvent {
	return &structs.TaskEvent{
		Type:     kind,
		Message:  message,
		ExitCode: res.ExitCode,
		Signal:   res.Signal,
	}
}

func describeExit(res *driver.ExitResult) string {
	switch {
	case res.Err != "":
		return "the result is unknown: " + res.Err
	case res.OOMKilled:
		return "killed because memory ran out"
	case res.Signal != 0:
		return fmt.Sprintf("ended by signal %d", res.Signal)
	}
	return fmt.Sprintf("exit code %d", res.ExitCode)
}
