package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/client/drivers/sandbox"
	"berth/internal/process"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Exec implements driver.Execer. The parent of the task's program starts the command (see sandbox.Sessions)
// and hands its files over, so the data does not pass through another process.
func (ts *Tasks) Exec(ctx context.Context, id string, x *driver.ExecConfig) (*driver.ExitResult, error) {
	t, err := ts.findTask(id)
	if err != nil {
		return nil, err
	}
	err = nodecalls.CheckExec(x.Command)
	if err != nil {
		return nil, err
	}
	s, err := t.openSession(ctx, x)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return s.run(ctx, x)
}

// session is a command that runs in a task.
type session struct {
	task    *task
	conn    *net.UnixConn
	reports *json.Decoder
	files   []*os.File // see sandbox.SessionReport
	tty     bool
}

// openSession starts the command. callTimeout bounds it.
func (t *task) openSession(ctx context.Context, x *driver.ExecConfig) (*session, error) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := t.dial(limited, sessionFile)
	if err != nil {
		return nil, t.noSession(err)
	}

	s := &session{task: t, conn: conn.(*net.UnixConn), tty: x.TTY}
	stop := interruptAtEnd(limited, conn)
	err = s.begin(x)
	// If limited has ended, its deadline is on the connection or will be, so the session cannot be used.
	if !stop() && err == nil {
		err = limited.Err()
	}

	switch {
	case err == nil:
		return s, nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case limited.Err() != nil:
		err = structs.Timeoutf("task %q did not start the command within %s", t.id, callTimeout)
	}

	s.close()
	return nil, err
}

// noSession describes why no process serves the sessions of a task.
func (t *task) noSession(err error) error {
	if structs.IsKind(err, structs.KindPrecondition) {
		return t.hasEnded()
	}
	return err
}

func (t *task) hasEnded() error { return structs.Conflictf("task %q has ended", t.id) }

// begin sends the request and receives the files of the command.
func (s *session) begin(x *driver.ExecConfig) error {
	err := json.NewEncoder(s.conn).Encode(&sandbox.Session{Command: x.Command, TTY: x.TTY})
	if err != nil {
		return s.task.hasEnded()
	}

	text := make([]byte, structs.MaxErrorText)
	rights := make([]byte, unix.CmsgSpace(4*sandbox.SessionFiles(false)))
	// The files come with the first bytes of the first report. The decoder gets these bytes, then the
	// connection.
	n, rn, _, _, err := s.conn.ReadMsgUnix(text, rights)
	if err != nil || n == 0 {
		return s.task.hasEnded()
	}

	err = s.takeFiles(rights[:rn])
	if err != nil {
		return err
	}

	s.reports = json.NewDecoder(io.MultiReader(bytes.NewReader(text[:n]), s.conn))
	first, err := s.report()
	if err == nil && (first.Started == 0 || len(s.files) != sandbox.SessionFiles(x.TTY)) {
		err = structs.Internalf("task %q: the command was started without all of its files", s.task.id)
	}

	return err
}

// takeFiles opens the received files so that a Close ends their reads and writes.
func (s *session) takeFiles(rights []byte) error {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return err
	}

	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return err
		}

		for _, fd := range fds {
			err = errors.Join(err, unix.SetNonblock(fd, true))
			s.files = append(s.files, os.NewFile(uintptr(fd), "session"))
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// report reads the next report, or the error in it.
func (s *session) report() (*sandbox.SessionReport, error) {
	r := &sandbox.SessionReport{}
	err := s.reports.Decode(r)
	if err != nil {
		return nil, s.task.hasEnded() // and the process that served the session with it
	}
	if r.Error != "" {
		return nil, structs.ErrorFromWire(r.Error)
	}
	return r, nil
}

func (s *session) close() {
	_ = s.conn.Close()
	for _, f := range s.files {
		_ = f.Close()
	}
}

// stdin is the terminal, or the file that the command reads.
func (s *session) stdin() *os.File { return s.files[0] }

// outputs are the terminal, or the files that the command writes: stdout and stderr.
func (s *session) outputs() []*os.File {
	if s.tty {
		return s.files
	}
	return s.files[1:]
}

// run copies input and output until the command has ended and its output is copied.
func (s *session) run(ctx context.Context, x *driver.ExecConfig) (*driver.ExitResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, s.hangUp)()
	var output, input sync.WaitGroup
	writers := []io.Writer{x.Stdout, x.Stderr}
	for i, f := range s.outputs() {
		output.Go(func() {
			err := copyOutput(writers[i], f)
			if err != nil {
				cancel(fmt.Errorf("passing the output of the command on: %w", err))
			}
		})
	}

	sizing, stopSizing := context.WithCancel(ctx)
	defer stopSizing()
	input.Go(func() { x.CopyInput(s.stdin(), s.stdin().Close) })
	input.Go(func() { x.FollowSize(sizing, s.setSize) })
	// The steps after the report have an order: the output is complete before the files close, the close ends
	// a write of input that waits, and CloseInput a read of it.
	last, err := s.report()
	stopSizing()
	for _, f := range s.outputs() {
		_ = f.SetReadDeadline(time.Unix(1, 0)) // tells copyOutput
	}

	output.Wait()
	s.close() // ends a write into the command
	x.CloseInput()
	input.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case last.Exit == nil:
		return nil, structs.Internalf("task %q: the end of the command was not reported", s.task.id)
	}

	return &driver.ExitResult{ExitCode: last.Exit.Code, Signal: last.Exit.Signal}, nil
}

// hangUp makes the other side kill the command. It still reports the end.
func (s *session) hangUp() {
	_ = s.conn.CloseWrite()
	_ = s.conn.SetReadDeadline(time.Now().Add(killTimeout))
}

// copyOutput copies until the end of the output, or until a deadline in the past tells that the command has
// ended: then the rest of the output follows.
func copyOutput(to io.Writer, from *os.File) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			_, writeErr := to.Write(buf[:n])
			if writeErr != nil {
				return writeErr
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return drainOutput(to, from, buf)
		}
		if err != nil {
			return nil // the end, or EIO of a terminal
		}
	}
}

// maxDrain is more than a pipe or a terminal holds of a command that has ended.
const maxDrain = 1 << 20

// drainOutput copies the rest of the output of a command that has ended. There may be no end of it: a process
// that the command has left behind may keep the file open. The output of a terminal arrives with a delay.
func drainOutput(to io.Writer, from *os.File, buf []byte) error {
	raw, err := from.SyscallConn()
	if err != nil {
		return err
	}

	paused := false
	for drained := 0; drained < maxDrain; {
		var n int
		var readErr error
		err = raw.Control(func(fd uintptr) { n, readErr = unix.Read(int(fd), buf) }) // it does not block
		switch {
		case err != nil:
			return err
		case readErr == nil && n > 0:
			drained += n
			_, err = to.Write(buf[:n])
			if err != nil {
				return err
			}

		case errors.Is(readErr, unix.EAGAIN) && !paused:
			paused = true
			time.Sleep(drainPause)
		case !errors.Is(readErr, unix.EINTR):
			return nil
		}
	}

	return nil
}

// setSize sets the size of the terminal.
func (s *session) setSize(size driver.TerminalSize) {
	_ = process.ResizeTerminal(s.stdin(), uint16(size.Height), uint16(size.Width)) // fails after the end
}
