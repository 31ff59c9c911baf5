package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/internal/process"
	"berth/structs"
)

// Session asks for a command to run beside the program of a task: with its user, environment, root,
// namespaces, cgroup and rights. It is the only message of the side that asks, as JSON. The session ends
// with the connection: the end of what that side sends kills the command.
type Session struct {
	Command []string
	TTY     bool
}

// SessionReport is a message to the side that asked for a session, as JSON. The first one has Started or
// Error. Files come with Started, as rights of the socket (unix(7)): the master of the terminal if there is
// one, else the other ends of the command's stdin, stdout and stderr. The last message has Exit.
type SessionReport struct {
	Started int    `json:",omitempty"` // the pid, in the namespace of the task
	Exit    *Exit  `json:",omitempty"`
	Error   string `json:",omitempty"` // of structs.ErrorToWire
}

// SessionFiles is the number of files of a session.
func SessionFiles(tty bool) int {
	if tty {
		return 1
	}
	return 3
}

const (
	// maxSession bounds the request for a session, in bytes. nodecalls.CheckExec allows far less.
	maxSession = 1 << 20
	// sessionWait bounds the wait for the request on a connection.
	sessionWait = 10 * time.Second
)

// Sessions runs commands beside a program, in the process that is the parent of the program.
type Sessions struct {
	Program  *Program
	Entry    *cgroups.Entry // of the program's cgroup; open as long as Serve runs
	Children *Children
	// Multiplexer makes the terminals, see package process.
	Multiplexer string
	// Started, if not nil, is called with the pid of each command, which leads a session of processes. An
	// error kills the command. The calls come one after the other, under the lock of Children.
	Started func(pid int) error
}

// Serve serves sessions until the process ends or the listener is closed (see AcceptAll).
func (s *Sessions) Serve(ctx context.Context, ln net.Listener) {
	AcceptAll(ctx, ln, func(conn net.Conn) { s.serve(conn.(*net.UnixConn)) })
}

// serve runs one session.
func (s *Sessions) serve(conn *net.UnixConn) {
	defer conn.Close()
	up := json.NewEncoder(conn)
	command, err := s.begin(conn)
	if err != nil {
		_ = up.Encode(&SessionReport{Error: structs.ErrorToWire(err)})
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, conn) // until the agent hangs up or ends
		s.Children.kill(command)
	}()
	// A command that the end of the task kills reports nothing here: the process ends, and the connection
	// with it.
	exit := <-command.ended
	_ = up.Encode(&SessionReport{Exit: &exit})
}

// begin reads the request, starts the command and hands its files over.
func (s *Sessions) begin(conn *net.UnixConn) (*child, error) {
	_ = conn.SetReadDeadline(time.Now().Add(sessionWait))
	var want Session
	err := json.NewDecoder(io.LimitReader(conn, maxSession)).Decode(&want)
	if err != nil {
		return nil, structs.Invalidf("reading the request for a session: %w", err)
	}

	if len(want.Command) == 0 || want.Command[0] == "" {
		return nil, structs.Invalidf("the command is empty; expected a program and its arguments")
	}

	// From here on, a read waits for the end of the session.
	_ = conn.SetReadDeadline(time.Time{})
	files := &sessionFiles{}
	defer files.close()
	// The end of the task closes its mounts, so a terminal is opened there, too, only before it.
	command, err := s.Children.start(func() (int, error) {
		err := s.openFiles(files, want.TTY)
		if err != nil {
			return 0, fmt.Errorf("opening the files of the command: %w", err)
		}
		return s.fork(&want, files.stdio)
	})
	if err != nil {
		return nil, err
	}

	err = files.handOver(conn, command.pid)
	if err != nil {
		s.Children.kill(command)
		return nil, err
	}

	return command, nil
}

func (s *Sessions) fork(want *Session, files stdio) (int, error) {
	pid, err := s.programOf(want).start(files, s.Entry)
	if err != nil || s.Started == nil {
		return pid, err
	}
	err = s.Started(pid)
	if err != nil {
		_ = unix.Kill(-pid, unix.SIGKILL) // a child that is not reaped, so the pid is its own
	}
	return pid, err
}

// programOf is the command with everything else of the program.
func (s *Sessions) programOf(want *Session) *Program {
	// A copy of the values: the program itself is shared by all sessions.
	p := *s.Program
	p.Command = want.Command[0]
	p.Args = want.Command[1:]
	hasTerm := slices.ContainsFunc(p.Env, func(e string) bool { return strings.HasPrefix(e, "TERM=") })
	if want.TTY && !hasTerm {
		p.Env = append(slices.Clone(p.Env), "TERM=xterm")
	}
	return &p
}

// sessionFiles are both ends of the files of a command.
type sessionFiles struct {
	stdio // the command's
	ours  []*os.File
}

func (s *Sessions) openFiles(f *sessionFiles, tty bool) error {
	if !tty {
		return f.openPipes()
	}
	err := s.openTerminal(f)
	if err == nil && s.Program.User != nil {
		// A program that opens its terminal by the path again needs to own it.
		err = f.in.Chown(int(s.Program.User.UID), int(s.Program.User.GID))
	}
	return err
}

// openTerminal opens a terminal among the mounts of the program.
func (s *Sessions) openTerminal(f *sessionFiles) error {
	var master, terminal *os.File
	var err error
	cgroups.OnOwnThread(func() {
		err = enterMounts(s.Program.mounts)
		if err == nil {
			master, terminal, err = process.OpenTerminal(s.Multiplexer)
		}
	})
	if err != nil {
		return err
	}
	f.ours = []*os.File{master}
	f.stdio = stdio{in: terminal, out: terminal, err: terminal, terminal: true}
	return nil
}

// openPipes enters each file as soon as it is open, so that close finds it after an error.
func (f *sessionFiles) openPipes() error {
	var in, out, errs *os.File
	var err error
	f.in, in, err = os.Pipe()
	if err != nil {
		return err
	}

	f.ours = append(f.ours, in)
	out, f.out, err = os.Pipe()
	if err != nil {
		return err
	}

	f.ours = append(f.ours, out)
	errs, f.err, err = os.Pipe()
	if err != nil {
		return err
	}

	f.ours = append(f.ours, errs)
	return nil
}

// close closes both ends here. The methods of a nil file only return an error, as does a second Close.
func (f *sessionFiles) close() {
	for _, file := range append(f.ours, f.in, f.out, f.err) {
		_ = file.Close()
	}
}

// handOver reports the start and sends our ends of the files along.
func (f *sessionFiles) handOver(conn *net.UnixConn, pid int) error {
	text, err := json.Marshal(&SessionReport{Started: pid})
	if err != nil {
		return err
	}
	var fds []int
	for _, file := range f.ours {
		fds = append(fds, int(file.Fd()))
	}

	// The message holds the files, so the caller may close its own at once.
	n, _, err := conn.WriteMsgUnix(text, unix.UnixRights(fds...), nil)
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	return err
}
