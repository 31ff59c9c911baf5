package executor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/internal/backoff"
	"berth/structs"
)

// Config holds the agent's settings for Tasks.
type Config struct {
	// Dir holds a directory for each task. It must not change as long as tasks run.
	Dir string
	// Command runs Main with its other duties: the agent's own executable, and its arguments.
	Command []string
	// Supervisor runs Main, for supervisors. It may be a smaller program. Nil is Command.
	Supervisor []string
}

// DefaultCommand runs this executable as `berth executor`.
func DefaultCommand() ([]string, error) {
	exe, err := os.Executable()
	return []string{exe, "executor"}, err
}

// Tasks is the part of a task driver that deals with supervisors: all of driver.Driver except the
// fingerprint, the validation and the program in a Spec.
type Tasks struct {
	driver    string
	cfg       Config
	limits    *limiter
	sandboxed bool

	held     sync.Map // *task by ID: started or recovered, until Destroy
	prepared sync.Map // *task by ID, of Prepare; or still to be destroyed
}

// task is a task that this agent has started or recovered.
type task struct {
	id, dir   string
	command   []string // runs Main
	sandboxed bool     // the supervisor is to be pid 1 of the namespaces of the task

	busy  sync.Mutex // held while the directory is made or removed
	reap  sync.Once  // of child: several waits may see its end
	child *exec.Cmd  // the supervisor if this process started it

	starting *starting   // nil: the supervisor has its spec, or is not started
	base     *Spec       // of a prepared task
	keep     func() bool // prevents that the end of a context ends a prepared task; false: it has ended
}

// NewTasks returns the Tasks of a driver whose tasks have no sandbox. The first start of a task makes the
// directory.
func NewTasks(name string, cfg Config, cgroup CgroupConfig) *Tasks {
	if cfg.Supervisor == nil {
		cfg.Supervisor = cfg.Command
	}
	return &Tasks{
		driver: name,
		cfg:    cfg,
		limits: newLimiter(cgroup),
	}
}

// NewSandboxes returns the Tasks of a driver whose every task has a sandbox.
func NewSandboxes(name string, cfg Config, cgroup CgroupConfig) *Tasks {
	ts := NewTasks(name, cfg, cgroup)
	ts.sandboxed = true
	return ts
}

// Name implements driver.Driver.
func (ts *Tasks) Name() string { return ts.driver }

// NewSpec returns the Spec of a task, without its program.
func (ts *Tasks) NewSpec(cfg *driver.TaskConfig) *Spec {
	return &Spec{
		TaskID:  cfg.ID,
		Driver:  ts.driver,
		Cgroup:  ts.limits.cgroup(cfg.Resources),
		Logs:    logsOf(cfg),
		Network: cfg.NamespaceOf(),
	}
}

// Executable is the agent's own executable.
func (ts *Tasks) Executable() string { return ts.cfg.Command[0] }

// Supervisor returns the command that runs Main for a supervisor.
func (ts *Tasks) Supervisor() []string { return slices.Clone(ts.cfg.Supervisor) }

// Duty returns the command with which the agent's own executable does another duty of Main.
func (ts *Tasks) Duty(args ...string) (command string, all []string) {
	return ts.cfg.Command[0], append(slices.Clone(ts.cfg.Command[1:]), args...)
}

// DirOf returns the directory of a task, which need not exist. It depends only on the ID and Config.Dir, so
// that a task with a lost handle is found, too.
func (ts *Tasks) DirOf(id string) string {
	sum := sha256.Sum256([]byte(ts.cfg.Dir + "\x00" + id))
	return filepath.Join(ts.cfg.Dir, fmt.Sprintf("%x", sum[:8]))
}

func (ts *Tasks) findTask(id string) (*task, error) {
	if t, ok := ts.held.Load(id); ok {
		return t.(*task), nil
	}
	return nil, structs.NotFoundf("no task %q", id)
}

// heldOrNew returns the held or the prepared task of the id, or a new one.
func (ts *Tasks) heldOrNew(id string) *task {
	if t, err := ts.findTask(id); err == nil {
		return t
	}
	if t, ok := ts.prepared.Load(id); ok {
		return t.(*task)
	}
	return &task{
		id:        id,
		dir:       ts.DirOf(id),
		command:   ts.cfg.Supervisor,
		sandboxed: ts.sandboxed,
	}
}

// Launch starts a task, which may be prepared. It replaces an ended one of the same ID, and kills an
// unrecovered one of a killed agent. A running one is a conflict.
func (ts *Tasks) Launch(ctx context.Context, spec *Spec) (*driver.Handle, error) {
	t := ts.takePrepared(spec)
	if t == nil {
		err := ts.clearTask(ctx, spec.TaskID)
		if err != nil {
			return nil, err
		}

		t = ts.heldOrNew(spec.TaskID)
	}

	t.busy.Lock()
	defer t.busy.Unlock()
	pid, err := t.launch(ctx, spec)
	if err != nil {
		// The end of ctx is a usual cause of the failure, and the task has to be removed nevertheless.
		clean, cancel := context.WithTimeout(
			context.WithoutCancel(ctx), 2*killTimeout)
		defer cancel()
		return nil, errors.Join(err, ts.discard(clean, t))
	}

	ts.held.Store(t.id, t)
	return &driver.Handle{
		Driver:  spec.Driver,
		TaskID:  spec.TaskID,
		Version: handleVersion,
		PID:     pid,
		State:   []byte(t.dir),
	}, nil
}

// clearTask destroys what is left of a task of the ID, unless it runs.
func (ts *Tasks) clearTask(ctx context.Context, id string) error {
	old, err := ts.findTask(id)
	if err == nil {
		// A task that this agent holds is in use while it runs. Any other one is of a killed agent.
		alive, err := supervised(old.dir)
		if err != nil || alive {
			return errors.Join(err, structs.Conflictf("task %q runs already", id))
		}
	}
	return ts.Destroy(ctx, id, nil)
}

// handleVersion is the version of Handle.State: the task's directory.
const handleVersion = 1

// Recover finds a task again. A handle without a State is of a start that was not recorded: Recover looks for
// the task by its ID. It removes the remains of a task that is gone. It leaves a task alone if the state of
// the task is unknown.
func (ts *Tasks) Recover(ctx context.Context, h *driver.Handle) error {
	if h.Version != handleVersion && h.State != nil {
		return structs.NotFoundf(
			"task %q was started by another version of berth (handle version %d)", h.TaskID, h.Version)
	}

	t := ts.heldOrNew(h.TaskID)
	t.busy.Lock()
	defer t.busy.Unlock()
	if h.State != nil {
		t.dir = string(h.State)
	}

	alive, err := t.alive(ctx)
	if err != nil {
		return fmt.Errorf("calling the supervisor of task %q: %w", t.id, err) // the task may run
	}

	if !alive {
		// A recorded result is kept for Wait. Only a task without one is removed.
		exit, _ := readExit(t.dir)
		if exit == nil { // there is none, or it is unreadable
			begun, _ := readRecord(t.dir) // destroy reports the error
			if err := t.destroy(ctx); err != nil {
				return err
			}

			if begun == nil || begun.Task.PID == 0 {
				return structs.NotFoundf("task %q was not started", h.TaskID)
			}

			return structs.NotFoundf("task %q is gone; its exit status is unknown", h.TaskID)
		}
	}

	ts.held.Store(t.id, t)
	return nil
}

// alive reports whether the supervisor lives and answers. It waits for one that is about to end.
func (t *task) alive(ctx context.Context) (bool, error) {
	alive, err := supervised(t.dir)
	if err != nil || !alive {
		return false, err
	}
	_, err = t.callSupervisor(ctx, &request{Op: opStats})
	if structs.IsKind(err, structs.KindPrecondition) {
		return false, t.awaitSupervisorEnd(ctx)
	}
	return err == nil, err
}

// Wait implements driver.Driver.
func (ts *Tasks) Wait(ctx context.Context, id string) (*driver.ExitResult, error) {
	t, err := ts.findTask(id)
	if err != nil {
		return nil, err
	}

	for {
		err := t.waitSupervisor(ctx)
		if err == nil {
			break
		}

		// The task may run: a failure to reach its supervisor is not its end.
		if !backoff.Sleep(ctx, retryDelay) {
			return nil, fmt.Errorf("%w (%w)", ctx.Err(), err)
		}
	}

	// result may write into the directory, which Destroy must not remove meanwhile.
	t.busy.Lock()
	defer t.busy.Unlock()
	return t.result(ctx)
}

// retryDelay is the time between two attempts to reach a supervisor that may live.
const retryDelay = time.Second

// result reads the exit result of an ended task. If the supervisor recorded none, result kills the remains of
// the task and records that the exit status is unknown.
func (t *task) result(ctx context.Context) (*driver.ExitResult, error) {
	exit, err := readExit(t.dir)
	if err != nil || exit != nil {
		return exit, err
	}
	_, err = os.Stat(t.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, structs.NotFoundf("task %q was destroyed", t.id)
	}
	err = t.kill(ctx)
	if err != nil {
		return nil, err
	}
	exit = &driver.ExitResult{Err: "the task's supervisor was killed; the exit status is unknown"}
	return exit, writeExit(t.dir, exit)
}

func (ts *Tasks) findToSignal(id, signal string) (*task, unix.Signal, error) {
	sig, err := parseSignal(signal)
	if err != nil {
		return nil, 0, err
	}
	t, err := ts.findTask(id)
	return t, sig, err
}

// defaultStopSignal is the dialect's for programs without an image: the job files that name no signal run
// programs that end by it.
const defaultStopSignal = "SIGINT"

// stopGrace is the time that a supervisor has for the end of its task after the timeout of a stop.
const stopGrace = time.Second

// killWait is the time that a supervisor has for the end of its task after a SIGKILL.
const killWait = killTimeout + drainTimeout + stopGrace

// Stop implements driver.Driver. The supervisor finishes a begun stop, also if ctx ends before. If it does
// not answer, or not end after a SIGKILL, Stop kills it, and with it the task: a task can keep its supervisor
// from both, by a file system that hangs or by signals to a command that starts.
func (ts *Tasks) Stop(ctx context.Context, id, signal string, timeout time.Duration) error {
	t, sig, err := ts.findToSignal(id, cmp.Or(signal, defaultStopSignal))
	if err != nil {
		return err
	}

	req := &request{Op: opStop, Signal: int(sig), Timeout: timeout}
	over, err := ts.stopWithin(ctx, t, req, timeout+stopGrace)
	if over {
		// It may have begun to hang after its answer.
		kill := &request{Op: opStop, Signal: int(unix.SIGKILL)}
		over, err = ts.stopWithin(ctx, t, kill, killWait)
	}

	if over {
		// It may answer and hang: a look-up of a command keeps it from the end of the task.
		err = t.killBusy(ctx)
		if err == nil {
			_, err = ts.Wait(ctx, id)
		}
	}

	return err
}

// stopWithin asks the supervisor to stop the task, kills it if it does not answer, and waits for the end of
// the task. It reports whether the wait is over before that.
func (ts *Tasks) stopWithin(
	ctx context.Context, t *task, req *request, wait time.Duration,
) (over bool, err error) {
	err = t.askToStop(ctx, req)
	if structs.IsKind(err, structs.KindTimeout) && ctx.Err() == nil {
		err = t.killBusy(ctx)
	}
	if err != nil && !structs.IsKind(err, structs.KindPrecondition) {
		return false, err
	}
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_, err = ts.Wait(limited, t.id)
	return err != nil && limited.Err() != nil && ctx.Err() == nil, err
}

// askToStop asks the supervisor to stop the task, again until the timeout is over if it does not answer.
func (t *task) askToStop(ctx context.Context, req *request) error {
	begun := time.Now()
	for {
		_, err := t.callSupervisor(ctx, req)
		silent := structs.IsKind(err, structs.KindTimeout) && ctx.Err() == nil
		if !silent || time.Since(begun) >= req.Timeout {
			return err
		}
	}
}

func (t *task) killBusy(ctx context.Context) error {
	t.busy.Lock()
	defer t.busy.Unlock()
	return t.kill(ctx)
}

// Signal implements driver.Driver.
func (ts *Tasks) Signal(ctx context.Context, id, signal string) error {
	t, sig, err := ts.findToSignal(id, signal)
	if err != nil {
		return err
	}
	_, err = t.callSupervisor(ctx, &request{Op: opSignal, Signal: int(sig)})
	return err
}

// Stats implements driver.Driver.
func (ts *Tasks) Stats(ctx context.Context, id string) (*driver.Stats, error) {
	t, err := ts.findTask(id)
	if err != nil {
		return nil, err
	}
	r, err := t.callSupervisor(ctx, &request{Op: opStats})
	if err != nil {
		return nil, err
	}
	return &driver.Stats{
		Stats:       *r.Stats,
		CollectedAt: time.Now().UnixNano(),
	}, nil
}

// Destroy implements driver.Driver. It also removes a task that this agent does not hold.
func (ts *Tasks) Destroy(ctx context.Context, id string, _ *driver.Handle) error {
	t := ts.heldOrNew(id)
	t.busy.Lock()
	defer t.busy.Unlock()
	if err := t.destroy(ctx); err != nil {
		return fmt.Errorf("removing task %q: %w", id, err)
	}
	ts.held.Delete(id)
	ts.prepared.Delete(id)
	return nil
}
