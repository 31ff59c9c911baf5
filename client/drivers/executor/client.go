package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/backoff"
	"berth/internal/process"
	"berth/structs"
)

// callTimeout bounds a call of a supervisor, which answers at once.
const callTimeout = 10 * time.Second

// dial connects to a socket through the descriptor of the task's directory, because the path of a socket has
// at most 108 bytes. Precondition means that the process that served it is gone.
func (t *task) dial(ctx context.Context, socket string) (net.Conn, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := unix.Open(t.dir, flags, 0)
	if err == nil {
		defer unix.Close(fd)
		path := fmt.Sprintf("/proc/self/fd/%d/%s", fd, socket)
		var conn net.Conn
		conn, err = new(net.Dialer).DialContext(ctx, "unix", path)
		if err == nil {
			return conn, nil
		}
	}

	if errors.Is(err, unix.ENOENT) ||
		errors.Is(err, unix.ECONNREFUSED) {
		return nil, structs.Preconditionf("task %q has ended", t.id)
	}

	if ctx.Err() != nil {
		return nil, t.unanswered(ctx)
	}

	return nil, structs.Unavailablef("connecting to the supervisor of task %q: %w", t.id, err)
}

// exchange sends a request and reads the answer, until ctx ends. Precondition means that the supervisor is
// gone.
func (t *task) exchange(
	ctx context.Context, req *request, read func(net.Conn) error,
) error {
	conn, err := t.dial(ctx, socketFile)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer interruptAtEnd(ctx, conn)()
	err = json.NewEncoder(conn).Encode(req)
	if err == nil {
		err = read(conn)
	}

	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return t.unanswered(ctx)
	}

	return structs.Preconditionf("task %q has ended", t.id) // and the supervisor with it
}

// unanswered returns the error of a call whose ctx has ended before the answer.
func (t *task) unanswered(ctx context.Context) error {
	return structs.Timeoutf("the supervisor of task %q does not answer: %w", t.id, ctx.Err())
}

// callSupervisor sends one request and returns the answer, or the supervisor's failure as the error.
func (t *task) callSupervisor(ctx context.Context, req *request) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r := &reply{}
	err := t.exchange(ctx, req, func(conn net.Conn) error {
		return json.NewDecoder(conn).Decode(r)
	})
	if err != nil {
		return nil, err
	}
	return r, r.err()
}

// waitSupervisor returns when the supervisor has ended, or with ctx's error.
func (t *task) waitSupervisor(ctx context.Context) error {
	wait := &request{Op: opWait}
	err := t.exchange(ctx, wait, func(conn net.Conn) error {
		_, err := io.Copy(io.Discard, conn) // until the supervisor ends, in whatever way
		return err
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil || structs.IsKind(err, structs.KindPrecondition):
		return t.awaitSupervisorEnd(ctx)
	}
	return err
}

// awaitSupervisorEnd waits until the supervisor, which has closed its socket, has ended, and reaps it.
func (t *task) awaitSupervisorEnd(ctx context.Context) error {
	for {
		alive, err := supervised(t.dir)
		if err != nil {
			return err
		}
		if !alive {
			break
		}
		if !backoff.Sleep(ctx, time.Millisecond) {
			return ctx.Err()
		}
	}
	t.reapChild()
	return t.awaitOther(ctx)
}

// awaitOther waits for the end of a supervisor that this agent did not start. Its lock ends before it and, in
// a sandbox, before the other processes of its task. Whether the record is damaged does not matter here.
func (t *task) awaitOther(ctx context.Context) error {
	r, err := readRecord(t.dir)
	if err != nil || r == nil || t.child != nil || t.isForeign(r) {
		return nil
	}
	now, err := r.thisBoot()
	if err != nil || !now {
		return err
	}
	return r.Supervisor.Wait(ctx)
}

func (t *task) reapChild() {
	if t.child != nil {
		t.reap.Do(func() {
			_ = t.child.Wait() // exit.json has more than this exit code
		})
	}
}

// kill ends the supervisor and everything of the task, and removes the cgroup. It needs only the directory.
func (t *task) kill(ctx context.Context) error {
	r, err := t.awaitRecord(ctx)
	if err != nil {
		return err
	}
	if r == nil { // the supervisor ended before it did anything
		t.reapChild()
		return nil
	}

	now, err := r.thisBoot()
	if err != nil || !now {
		return err
	}
	if t.isForeign(r) {
		return t.killForeign(ctx, r)
	}

	var started process.Ref

	// There is a moment between the start of the task and its record. A cgroup has the task from its fork on.
	if r.Task.PID == 0 && r.Cgroup.Empty() {
		started, err = startedBy(ctx, r.Supervisor)
		if err != nil {
			return err
		}
	}

	// The supervisor ends first, so that it starts nothing more.
	if err := r.Supervisor.Kill(ctx); err != nil {
		return err
	}
	t.reapChild()

	// The supervisor has ended, so this is its last record.
	r, err = readRecord(t.dir)
	if err != nil || r == nil {
		return err
	}
	if r.Task.PID == 0 {
		r.Task = started
	}

	return r.killTask(ctx)
}

// killTask ends all processes of a task whose supervisor has ended, and removes the cgroup.
func (r *record) killTask(ctx context.Context) error {
	if err := r.Task.Kill(ctx); err != nil {
		return err
	}
	reap(r.Task)

	if r.Cgroup.Empty() {
		return killSessions(ctx, append(r.Sessions, r.Task))
	}
	if err := r.Cgroup.Kill(ctx); err != nil {
		return err
	}
	return r.Cgroup.Remove()
}

// isForeign reports whether the pids of a record are of another namespace. An executable of an older version
// that this agent has isolated knows itself only as pid 1. Here these pids name other processes.
func (t *task) isForeign(r *record) bool {
	return r.Supervisor.PID == 1 || t.child != nil && t.child.Process.Pid != r.Supervisor.PID
}

// killForeign ends a task without the pids of its record. A supervisor ends after the processes of its task.
func (t *task) killForeign(ctx context.Context, r *record) error {
	if t.child != nil {
		_ = t.child.Process.Kill() // fails after its end
		t.reapChild()
	} else if r.Cgroup.Empty() {
		return structs.Preconditionf("an executable of another version has recorded the processes in %s: end them by hand", t.dir)
	}
	err := r.Cgroup.Kill(ctx)
	if err == nil {
		err = t.awaitSupervisorEnd(ctx)
	}
	return errors.Join(err, r.Cgroup.Remove())
}

// awaitRecord reads the record. It waits for a supervisor that lives and has not written one yet. A damaged
// record of an earlier boot counts as none, because nothing that it named is left.
func (t *task) awaitRecord(ctx context.Context) (*record, error) {
	for {
		alive, err := supervised(t.dir)
		if err != nil {
			return nil, err
		}

		r, err := readRecord(t.dir)
		if errors.Is(err, errDamaged) && !alive {
			lost, unknown := lostRecord(t.dir)
			if lost {
				return nil, nil
			}
			return nil, errors.Join(err, unknown)
		}

		if err != nil || r != nil || !alive {
			return r, err
		}

		if !backoff.Sleep(ctx, 5*time.Millisecond) {
			return nil, fmt.Errorf(
				"the supervisor in %s does not identify itself: %w", t.dir, ctx.Err())
		}
	}
}

// destroy ends everything of the task and removes its directory, file by file, so that it removes nothing
// that is a mount point.
func (t *task) destroy(ctx context.Context) error {
	if t.starting != nil {
		// A prepared supervisor waits for its spec, and ends without it.
		t.starting.close()
	}

	_, err := os.Stat(t.dir)
	if errors.Is(err, os.ErrNotExist) {
		t.reapChild()
		return nil
	}

	err = t.kill(ctx)
	if err != nil {
		return err
	}

	for _, name := range filesOfTask {
		err = os.Remove(filepath.Join(t.dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}

	return nil
}

// filesOfTask lists the files of a task's directory in the order of their removal, the directory last. The
// record is late, so that a later call can complete an interrupted removal.
var filesOfTask = []string{
	socketFile,
	sessionFile,
	exitFile,
	exitFile + ".tmp",
	logFile,
	recordFile + ".tmp",
	recordFile,
	lockFile,
	"",
}
