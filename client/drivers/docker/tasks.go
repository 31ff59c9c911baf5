package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/docker/engine"
	"berth/client/drivers/driver"
	"berth/internal/backoff"
	"berth/structs"
)

// task is a task that this agent has started or recovered.
type task struct {
	id        string // "<alloc id>/<task>"
	container string // its ID
	image     string // its ID
	logs      logSettings
	lost      bool // it has ended, and the daemon was away when the agent looked for it

	life sync.Mutex // held while the task is destroyed or its output is seen to
	// It is set before the removal. So a wait that finds no container knows whose removal it was.
	destroyed atomic.Bool
}

// handleVersion is the version of Handle.State: a handleState in JSON.
const handleVersion = 1

type handleState struct{ Container string }

func (t *task) handle(c *engine.Container) (*driver.Handle, error) {
	state, err := json.Marshal(handleState{t.container})
	return &driver.Handle{
		Driver:   Name,
		TaskID:   t.id,
		Version:  handleVersion,
		PID:      c.State.Pid,
		State:    state,
		Location: locationOf(c),
	}, err
}

// bridgeNetwork is the daemon's own network. As in the dialect, nothing is advertised there: it is reached
// from the node alone.
const bridgeNetwork = "bridge"

// locationOf returns the place of a container in the first of its networks by their names.
func locationOf(c *engine.Container) *driver.Location {
	if c.NetworkSettings == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.NetworkSettings.Networks)) {
		n := c.NetworkSettings.Networks[name]
		if n != nil && n.IPAddress.IsValid() {
			return &driver.Location{Address: n.IPAddress.String(), Advertised: name != bridgeNetwork}
		}
	}
	return nil
}

// Recover implements driver.Driver. A handle without a State is of a start that was not recorded: Recover
// looks for the container by its name. While the daemon is away, it is not known whether the task runs.
func (d *Driver) Recover(ctx context.Context, h *driver.Handle) error {
	if h.State != nil && h.Version != handleVersion {
		return structs.NotFoundf("task %q was started by another version of berth (handle version %d)",
			h.TaskID, h.Version)
	}

	state := handleState{Container: containerName(h.TaskID)}
	if h.State != nil {
		err := json.Unmarshal(h.State, &state)
		if err != nil || state.Container == "" {
			return structs.NotFoundf("the handle of task %q cannot be read: %w", h.TaskID, err)
		}
	}

	c, err := d.engine.Inspect(ctx, state.Container)
	unseen := d.tasks.swapUnseen(h.TaskID, structs.IsKind(err, structs.KindUnavailable))
	if isGone(err) || err == nil && !d.containers.isOurs(c, h.TaskID) {
		return errors.Join(d.output.stop(ctx, h.TaskID),
			structs.NotFoundf("the container of task %q is gone; its exit status is unknown", h.TaskID))
	}
	if err != nil {
		d.noteFailure(err)
		return err
	}

	// The agent ended between the creation and the start.
	if c.State.Status == "created" {
		err = errors.Join(d.output.stop(ctx, h.TaskID), removeContainer(ctx, d.engine, c.ID))
		return errors.Join(err, structs.NotFoundf("the container of task %q was not started", h.TaskID))
	}

	// The record of a start that was cut off has no location.
	if h.State == nil {
		h.Location = locationOf(c)
	}

	t := taskOf(c)
	t.lost = unseen && hasEnded(c)
	t.life.Lock() // keepOutput must not start a second helper
	defer t.life.Unlock()
	d.images.Hold(t.image, t.id)
	d.tasks.hold(t)
	err = d.output.ensure(ctx, t)
	if err != nil {
		d.logger.Warn("failed to collect the output of a task, retrying", "task_id", t.id, "error", err)
	}

	return nil
}

// lostPause paces the looks for a container while the daemon is away.
var lostPause = backoff.Backoff{Min: 200 * time.Millisecond, Max: 5 * time.Second}

// Wait implements driver.Driver. It waits on while the daemon is away: the container may run.
func (d *Driver) Wait(ctx context.Context, id string) (*driver.ExitResult, error) {
	t, err := d.tasks.find(id)
	if err != nil {
		return nil, err
	}
	return d.awaitEnd(ctx, t)
}

// awaitEnd waits for the end of a container, also of one that outlives its daemon.
func (d *Driver) awaitEnd(ctx context.Context, t *task) (*driver.ExitResult, error) {
	pause := lostPause
	lost := t.lost
	for {
		c, err := d.engine.Inspect(ctx, t.container)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case isGone(err) && !t.destroyed.Load():
			return &driver.ExitResult{
				ExitCode: -1,
				Err:      "the container was removed by another program",
			}, nil

		case isGone(err):
			return nil, structs.NotFoundf("task %q was destroyed", t.id)
		case err == nil && hasEnded(c):
			return d.resultOf(c, lost), nil
		case err == nil:
			lost = false
			pause.Reset()
			err = d.engine.AwaitEnd(ctx, t.container)
		}
		// The end of a wait is no end of the container: the next look decides.
		if err == nil {
			continue
		}

		d.noteFailure(err)
		if !lost && structs.IsKind(err, structs.KindUnavailable) {
			lost = true
			d.emit(t.id, "The docker daemon is away; waiting for it. The container may still run")
		}

		if !pause.Wait(ctx) {
			return nil, ctx.Err()
		}
	}
}

func hasEnded(c *engine.Container) bool {
	s := c.State
	return !s.Running && !s.Paused && !s.Restarting
}

// signalCode is the exit code of a process that signal 0 would end: the daemon adds the number of the signal.
const signalCode = 128

// unknownCode is the exit code that a daemon gives a container whose end it has missed.
const unknownCode = 255

// resultOf describes the end of a container. lost says that the daemon went away while the container ran.
func (d *Driver) resultOf(c *engine.Container, lost bool) *driver.ExitResult {
	code := c.State.ExitCode
	r := &driver.ExitResult{
		ExitCode: code,
		// A process may be killed for its memory while the first one goes on and ends in order.
		OOMKilled: c.State.OOMKilled && code != 0,
		Err:       structs.Cut(c.State.Error, maxDescription),
	}

	// A program that returns such a code by itself looks the same.
	if code > signalCode && unix.SignalName(unix.Signal(code-signalCode)) != "" {
		r.Signal = code - signalCode
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case lost && !d.liveRestore:
		r.Err = fmt.Sprintf(
			"the container ended with the docker daemon, whose live-restore is off (exit code %d)", code)
	case lost && code == unknownCode:
		r.Err = "the container ended while the docker daemon was away"
	}

	return r
}

// Stop implements driver.Driver. If the job names no signal, the image may: some programs end in order only
// with theirs.
func (d *Driver) Stop(ctx context.Context, id, signal string, timeout time.Duration) error {
	t, err := d.tasks.find(id)
	if err != nil {
		return err
	}

	if signal == "" {
		err = d.signalAsImage(ctx, t)
	} else {
		err = d.signal(ctx, t, signal)
	}
	if err != nil {
		return unlessEnded(err)
	}

	patience, cancel := context.WithTimeout(ctx, timeout)
	_, err = d.awaitEnd(patience, t)
	cancel()
	if err == nil || ctx.Err() != nil || isGone(err) {
		return withoutNotFound(err)
	}

	err = d.signal(ctx, t, "SIGKILL")
	if unlessEnded(err) != nil {
		return err
	}

	_, err = d.awaitEnd(ctx, t)
	return withoutNotFound(err)
}

// Signal implements driver.Driver.
func (d *Driver) Signal(ctx context.Context, id, signal string) error {
	t, err := d.tasks.find(id)
	if err != nil {
		return err
	}
	return d.signal(ctx, t, signal)
}

// errEnded is the reason for which a task gets no signal. Other failures are of its kind, too.
var errEnded = structs.Preconditionf("the task has ended")

// unlessEnded drops errEnded.
func unlessEnded(err error) error {
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// signalAsImage sends the signal that the image names for its end, SIGTERM without one. It is errEnded if the
// task has ended.
func (d *Driver) signalAsImage(ctx context.Context, t *task) error {
	c, err := d.engine.Inspect(ctx, t.container)
	if isGone(err) {
		return errEnded
	}
	if err != nil {
		d.noteFailure(err)
		return err
	}
	return d.send(ctx, t, cmp.Or(c.Config.StopSignal, "SIGTERM"))
}

// signal sends a signal, "" for SIGTERM. It is errEnded if the task has ended.
func (d *Driver) signal(ctx context.Context, t *task, signal string) error {
	if signal == "" {
		signal = "SIGTERM"
	}
	if unix.SignalNum(signal) == 0 {
		return structs.Invalidf("unknown signal %q; expected a name such as SIGTERM or SIGHUP", signal)
	}
	return d.send(ctx, t, signal)
}

// send sends a signal that the daemon knows.
func (d *Driver) send(ctx context.Context, t *task, signal string) error {
	err := d.engine.Kill(ctx, t.container, signal)
	if err == nil {
		return nil
	}
	d.noteFailure(err)

	// The daemon rejects a signal for several reasons, and the state tells which one it was.
	c, again := d.engine.Inspect(ctx, t.container)
	if isGone(again) || again == nil && hasEnded(c) {
		return errEnded
	}
	return err
}

// Destroy implements driver.Driver. It also removes the container of a task that this agent does not hold.
func (d *Driver) Destroy(ctx context.Context, id string, _ *driver.Handle) error {
	err := d.destroyTask(ctx, id)
	if err == nil {
		err = d.containers.hosts.forget(id)
	}
	if err != nil {
		return err
	}
	allocID, _ := splitID(id)
	err = d.pauses.release(ctx, allocID)
	if err != nil {
		d.noteFailure(err)
		return fmt.Errorf("leaving the network of task %q: %w", id, err)
	}
	return nil
}

func (d *Driver) destroyTask(ctx context.Context, id string) error {
	t, err := d.tasks.find(id)
	if err != nil {
		t, err = d.findLost(ctx, id)
	}
	if err != nil {
		return withoutNotFound(err)
	}

	t.life.Lock()
	defer t.life.Unlock()
	t.destroyed.Store(true)
	err = d.destroy(ctx, t)
	if err != nil {
		d.noteFailure(err)
		return fmt.Errorf("removing task %q: %w", id, err)
	}

	d.tasks.forget(id)
	d.images.Release(id)
	return nil
}

// findLost looks for the container of a task that is not held. If it is gone, the output of it may be left.
func (d *Driver) findLost(ctx context.Context, id string) (*task, error) {
	c, err := d.engine.Inspect(ctx, containerName(id))
	if err == nil && d.containers.isOurs(c, id) {
		return taskOf(c), nil
	}
	if err != nil && !isGone(err) {
		d.noteFailure(err)
		return nil, err
	}
	d.images.Release(id)
	err = d.output.stop(ctx, id)
	if err != nil {
		return nil, err
	}
	return nil, structs.NotFoundf("no container of task %q", id)
}

// destroy ends a container, takes the rest of its output and removes it.
func (d *Driver) destroy(ctx context.Context, t *task) error {
	err := d.end(ctx, t)
	if err != nil {
		return err
	}
	err = d.output.stop(ctx, t.id)
	if err != nil {
		return err
	}
	// An operator looks at the container. The search for dangling ones keeps it, too.
	if !d.cfg.GC.Container {
		return nil
	}
	return removeContainer(ctx, d.engine, t.container)
}

// end kills a container that runs, and returns when it has ended.
func (d *Driver) end(ctx context.Context, t *task) error {
	c, err := d.engine.Inspect(ctx, t.container)
	if err != nil || hasEnded(c) {
		return withoutNotFound(err)
	}
	err = d.signal(ctx, t, "SIGKILL")
	if unlessEnded(err) != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	_, err = d.awaitEnd(ctx, t)
	return withoutNotFound(err)
}

const (
	// killTimeout bounds the wait for the end of a killed container.
	killTimeout = 30 * time.Second
	// removeTimeout bounds the wait for a removal that another caller has begun.
	removeTimeout = 30 * time.Second
)

// removeContainer removes a container. The daemon rejects a second removal while one is in flight.
func removeContainer(ctx context.Context, e *engine.Engine, container string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	pause := lostPause
	for {
		err := e.Remove(ctx, container)
		if !structs.IsKind(err, structs.KindConflict) || !pause.Wait(ctx) {
			return err
		}
	}
}

// Stats implements driver.Driver.
func (d *Driver) Stats(ctx context.Context, id string) (*driver.Stats, error) {
	t, err := d.tasks.find(id)
	if err != nil {
		return nil, err
	}

	s, err := d.engine.Stats(ctx, t.container)
	if err != nil {
		d.noteFailure(err)
		return nil, err
	}

	stats := &driver.Stats{CollectedAt: time.Now().UnixNano()}
	stats.CPUTotal = s.CPUStats.CPUUsage.TotalUsage
	stats.CPUUser = s.CPUStats.CPUUsage.UsageInUsermode
	stats.CPUSystem = s.CPUStats.CPUUsage.UsageInKernelmode
	stats.ThrottledPeriods = s.CPUStats.ThrottlingData.ThrottledPeriods
	stats.ThrottledTime = s.CPUStats.ThrottlingData.ThrottledTime
	stats.MemoryUsage = s.MemoryStats.Usage
	stats.MemoryMax = s.MemoryStats.MaxUsage
	stats.PIDs = s.PidsStats.Current
	m := s.MemoryStats.Stats // it has the names of either version of cgroups
	stats.MemoryRSS = max(m["total_rss"], m["rss"], m["anon"])
	stats.MemoryCache = max(m["total_cache"], m["cache"], m["file"])
	stats.MemorySwap = max(m["total_swap"], m["swap"])
	return stats, nil
}
