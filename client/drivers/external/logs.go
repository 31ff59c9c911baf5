package external

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/client/drivers/executor"
	"berth/client/drivers/sandbox"
	"berth/internal/logfile"
	"berth/structs"
)

// Logs keeps the output of tasks: one helper process for each, which reads the two pipes of the task.
type Logs struct{ tasks *executor.Tasks }

// NewLogs is for the driver of that name.
func NewLogs(name string, cfg executor.Config) Logs {
	return Logs{executor.NewTasks(name, cfg, executor.DefaultCgroupConfig())}
}

// pipes are the paths of the named pipes that the plugin writes to.
type pipes struct{ stdout, stderr string }

// pipesOf returns pipes in the directory of the allocation, which no task can change. In a directory of the
// task, the task could put a link to a file of the host in the place of a pipe.
func pipesOf(cfg *driver.TaskConfig) pipes {
	dir := filepath.Dir(cfg.Dirs.Task)
	return pipes{
		stdout: filepath.Join(dir, "."+cfg.Task+".stdout.fifo"),
		stderr: filepath.Join(dir, "."+cfg.Task+".stderr.fifo"),
	}
}

// link gives the pipes their names in the directory of the logs, too: some drivers look for the names there,
// whatever the directory of their paths. A task may change that directory at any time. So these names are
// hard links to the pipes that the helper reads: a task that replaces one loses its own output at most. The
// directory is open before, so that no symbolic link leads elsewhere.
func (p pipes) link(logs string) error {
	dir, err := logfile.OpenDir(logs)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	for _, path := range []string{p.stdout, p.stderr} {
		name := filepath.Base(path)
		_ = unix.Unlinkat(int(dir.Fd()), name, 0) // of an earlier start; Linkat tells if that fails
		err := unix.Linkat(unix.AT_FDCWD, path, int(dir.Fd()), name, 0)
		if err != nil {
			return &os.PathError{Op: "link", Path: name, Err: err}
		}
	}
	return nil
}

// checkUnused returns an error if a process has one of the pipes open for writing. The helper has them open
// for writing, too, so it must have ended.
func (p pipes) checkUnused() error {
	for _, path := range []string{p.stdout, p.stderr} {
		used, err := isWritten(path)
		if err != nil {
			return err
		}
		if used {
			return structs.Unavailablef("a process of the task runs without its driver, "+
				"which ended in the start: end the processes that write to %s", path)
		}
	}
	return nil
}

// isWritten reports whether a process has a named pipe open for writing: without one its end is read.
func isWritten(path string) (bool, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	// A pipe without writers is at its end: 0 bytes. EAGAIN tells of a writer that has written nothing. A
	// byte that is left over counts as a writer.
	n, err := unix.Read(fd, make([]byte, 1))
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		return false, &os.PathError{Op: "read", Path: path, Err: err}
	}
	return n != 0 || err != nil, nil
}

// start makes the pipes of a task and starts its helper.
func (l Logs) start(ctx context.Context, cfg *driver.TaskConfig) (pipes, error) {
	p := pipesOf(cfg)
	for _, path := range []string{p.stdout, p.stderr} {
		err := os.Remove(path) // of an earlier start
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return p, err
		}

		// The driver opens the pipes with the rights of the agent, and the task inherits them.
		err = unix.Mkfifo(path, 0o600)
		if err != nil {
			return p, &os.PathError{Op: "mkfifo", Path: path, Err: err}
		}
	}

	spec := l.tasks.NewSpec(cfg)
	// The helper is no process of the task: the kill of the task's cgroup must not end it before the rest of
	// the output.
	spec.Cgroup = nil
	spec.Network = ""
	command := l.tasks.Supervisor()
	spec.Program = &sandbox.Program{
		Driver:  l.tasks.Name(),
		Where:   "on this machine",
		Command: command[0],
		Args:    append(command[1:], executor.CopyArg, p.stdout, p.stderr),
		Env:     sandbox.RuntimeEnv(1),
		Dir:     "/",
	}

	_, err := l.tasks.Launch(ctx, spec)
	return p, err
}

// recover finds the helper of a task again, by the ID: its handle is recorded nowhere.
func (l Logs) recover(ctx context.Context, id string) error {
	return l.tasks.Recover(ctx, &driver.Handle{TaskID: id})
}

// drainTimeout bounds the wait for the rest of the output.
const drainTimeout = 5 * time.Second

// stop ends the helper of a task after the rest of the output.
func (l Logs) stop(ctx context.Context, id string) error {
	err := l.tasks.Stop(ctx, id, "SIGTERM", drainTimeout)
	if err != nil && !structs.IsKind(err, structs.KindNotFound) {
		return err
	}
	return l.tasks.Destroy(ctx, id, nil)
}
