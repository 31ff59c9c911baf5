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
	"berth/structs"
)

// askWithin bounds a request to a supervisor, which answers at once.
const askWithin = 10 * time.Second

// dial connects to the supervisor through its directory's descriptor: the path of a socket is bounded by 108
// bytes, that of a data directory is not. Precondition means that the supervisor is gone.
func (t *task) dial(ctx context.Context) (net.Conn, error) {
	fd, err := unix.Open(t.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
		var d net.Dialer
		var conn net.Conn
		conn, err = d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", fd, socketFile))
		if err == nil {
			return conn, nil
		}
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, structs.Preconditionf("task %q has ended", t.id)
	}
	return nil, structs.Unavailablef("connecting to the supervisor of task %q: %w", t.id, err)
}

// converse sends a request and reads the answer, until ctx ends. Precondition means that the supervisor is
// gone.
func (t *task) converse(ctx context.Context, req *request, read func(net.Conn) error) error {
	conn, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	err = json.NewEncoder(conn).Encode(req)
	if err == nil {
		err = read(conn)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return structs.Timeoutf("the supervisor of task %q does not answer: %w", t.id, ctx.Err())
	}
	return structs.Preconditionf("task %q has ended", t.id) // and the supervisor with it
}

// callSupervisor sends one request and returns the answer, or the supervisor's failure as the error.
func (t *task) callSupervisor(ctx context.Context, req *request) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	r := &reply{}
	err := t.converse(ctx, req, func(conn net.Conn) error { return json.NewDecoder(conn).Decode(r) })
	if err != nil {
		return nil, err
	}
	return r, r.err()
}

// waitSupervisor returns when the supervisor has ended, or with ctx's error.
func (t *task) waitSupervisor(ctx context.Context) error {
	err := t.converse(ctx, &request{Op: opWait}, func(conn net.Conn) error {
		_, err := io.Copy(io.Discard, conn) // ends with the supervisor, however it ends
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
	return nil
}

func (t *task) reapChild() {
	if t.child != nil {
		t.reap.Do(func() { _ = t.child.Wait() }) // exit.json has the information of the exit code
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
	if err := r.Supervisor.kill(ctx); err != nil {
		return err
	}
	t.reapChild()
	// The record's newest state is known only now.
	r, err = readRecord(t.dir)
	if err != nil || r == nil {
		return err
	}
	if err := r.Task.kill(ctx); err != nil {
		return err
	}
	r.Task.reap()
	if err := r.Cgroup.Kill(ctx); err != nil {
		return err
	}
	if r.Cgroup.Empty() {
		if err := killSession(ctx, r.Task); err != nil {
			return err
		}
	}
	return r.Cgroup.Remove()
}

// awaitRecord reads the record; a supervisor that lives and has none is about to write it.
func (t *task) awaitRecord(ctx context.Context) (*record, error) {
	for {
		alive, err := supervised(t.dir)
		if err != nil {
			return nil, err
		}
		if r, err := readRecord(t.dir); err != nil || r != nil || !alive {
			return r, err
		}
		if !backoff.Sleep(ctx, 5*time.Millisecond) {
			return nil, fmt.Errorf("the supervisor in %s does not identify itself: %w", t.dir, ctx.Err())
		}
	}
}

// destroy ends everything of the task and removes its directory, file by file: nothing is ever removed that
// something may still be mounted under.
func (t *task) destroy(ctx context.Context) error {
	if _, err := os.Stat(t.dir); errors.Is(err, os.ErrNotExist) {
		t.reapChild()
		return nil
	}
	if err := t.kill(ctx); err != nil {
		return err
	}
	names := []string{
		socketFile, exitFile, exitFile + ".tmp", logFile, RootDir, recordFile + ".tmp", recordFile, lockFile, "",
	}
	for _, name := range names { // the record late: a directory that is removed in part can be removed again
		if err := os.Remove(filepath.Join(t.dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
