package docker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"berth/client/drivers/docker/follow"
	"berth/client/drivers/driver"
	"berth/client/drivers/executor"
	"berth/client/drivers/sandbox"
	"berth/internal/backoff"
	"berth/structs"
)

// outputs copies the output of containers to the log files of their tasks.
type outputs interface {
	// start begins to copy, where an earlier copy of the same container ended.
	start(ctx context.Context, t *task) error
	// ensure is start if nothing copies now.
	ensure(ctx context.Context, t *task) error
	// stop ends the copy after the rest of the output of an ended container, and forgets the position.
	stop(ctx context.Context, taskID string) error
}

// logSettings are the settings of a task's log files. They are kept in a label of the container.
type logSettings struct {
	Dir           string
	Task          string
	MaxFiles      int
	MaxFileSizeMB int
	Disabled      bool `json:",omitempty"`
}

// helperProcesses are outputs with a process for each container, which outlives the agent.
type helperProcesses struct {
	tasks     *executor.Tasks
	endpoint  string
	positions string // the directory of the positions
}

func (o *helperProcesses) position(taskID string) string {
	return filepath.Join(o.positions, filepath.Base(o.tasks.DirOf(taskID)))
}

func (o *helperProcesses) start(ctx context.Context, t *task) error {
	if t.logs.Disabled {
		return nil
	}

	err := os.MkdirAll(o.positions, 0o700)
	if err != nil {
		return err
	}

	spec := o.tasks.NewSpec(&driver.TaskConfig{
		ID:   t.id,
		Task: t.logs.Task,
		Dirs: driver.Dirs{Logs: t.logs.Dir},
		LogConfig: structs.LogConfig{
			MaxFiles:      t.logs.MaxFiles,
			MaxFileSizeMB: t.logs.MaxFileSizeMB,
		},
	})

	// The helper is no process of the task: the task's limits do not hold for it.
	spec.Cgroup = nil
	command, args := o.tasks.Duty(follow.Arg, o.endpoint, t.container, o.position(t.id))
	spec.Program = &sandbox.Program{
		Driver:  Name,
		Where:   "on this machine",
		Command: command,
		Args:    args,
		Env:     sandbox.RuntimeEnv(1),
		Dir:     "/",
	}

	_, err = o.tasks.Launch(ctx, spec)
	if err != nil {
		return fmt.Errorf("collecting the output of the task: %w", err)
	}

	return nil
}

func (o *helperProcesses) ensure(ctx context.Context, t *task) error {
	if t.logs.Disabled {
		return nil
	}
	ended, err := o.hasEnded(ctx, t.id)
	if isGone(err) { // this agent has not started it
		err = o.tasks.Recover(ctx, &driver.Handle{TaskID: t.id})
		if err == nil {
			ended, err = o.hasEnded(ctx, t.id)
		}
	}
	if ended || isGone(err) {
		return o.start(ctx, t)
	}
	return err
}

// glance is the time in which an ended helper is seen to have ended.
const glance = 50 * time.Millisecond

// hasEnded is not-found if this agent knows no helper of the task.
func (o *helperProcesses) hasEnded(ctx context.Context, taskID string) (bool, error) {
	// An ended process is reported at once. The time passes only for one that runs.
	short, cancel := context.WithTimeout(ctx, glance)
	defer cancel()
	_, err := o.tasks.Wait(short, taskID)
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		return false, nil // it runs
	}
	return err == nil, err
}

// drainTimeout bounds the wait for the rest of the output.
const drainTimeout = 10 * time.Second

func (o *helperProcesses) stop(ctx context.Context, taskID string) error {
	// The helper ends by itself when it has read the rest.
	draining, cancel := context.WithTimeout(ctx, drainTimeout)
	_, err := o.tasks.Wait(draining, taskID)
	cancel()
	if err != nil && !isGone(err) {
		err = o.tasks.Stop(ctx, taskID, "SIGTERM", time.Second)
		if withoutNotFound(err) != nil {
			return err
		}
	}
	err = o.tasks.Destroy(ctx, taskID, nil)
	if err != nil {
		return err
	}
	return follow.Forget(o.position(taskID))
}

// keepInterval is the time between two looks for helpers that were killed.
var keepInterval = 30 * time.Second

// keepOutput starts helpers in the place of killed ones until ctx ends. The daemon keeps the output
// meanwhile.
func (d *Driver) keepOutput(ctx context.Context) {
	for backoff.Sleep(ctx, keepInterval) {
		for _, t := range d.tasks.all() {
			d.keepOutputOf(ctx, t)
		}
	}
}

func (d *Driver) keepOutputOf(ctx context.Context, t *task) {
	t.life.Lock() // nobody destroys the task meanwhile
	defer t.life.Unlock()
	if t.destroyed.Load() || t.logs.Disabled {
		return
	}
	c, err := d.engine.Inspect(ctx, t.container)
	if err != nil || !c.State.Running {
		return // the copy ends with the container
	}
	err = d.output.ensure(ctx, t)
	if err != nil && ctx.Err() == nil {
		d.logger.Warn("failed to collect the output of a task, retrying", "task_id", t.id, "error", err)
	}
}
