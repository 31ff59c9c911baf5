package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	"berth/client/drivers/sandbox"
	"berth/internal/process"
	"berth/structs"
)

// taskProcess is the program of a task with its other processes: a sandbox or a bare program.
type taskProcess interface {
	Signal(unix.Signal) error
	Kill() error // kills all other processes of a sandbox, and the first process of a bare program
	Wait() (sandbox.Exit, error)
}

// supervisor is the state of the process that Main is. Its working directory is the task's.
type supervisor struct {
	name       string // of the directory and the cgroup; it differs between data directories
	spec       *Spec
	record     *record
	group      *cgroups.Group
	out        *output
	ln         net.Listener
	sessions   *net.UnixListener // for commands beside the task's program
	proc       taskProcess
	commands   *sandbox.Sessions // run those commands
	endSignals chan os.Signal    // signals to end; the agent uses the socket instead

	stopping sync.Mutex  // guards stopSent
	stopSent unix.Signal // the last signal of stop, 0 before it
}

// startTask prepares the task, waits for the whole spec, and starts the task. If it fails it undoes its
// changes. It fails if the agent ends or gives the task up before.
func startTask(spec *Spec, specs *json.Decoder, name string) (*supervisor, error) {
	s := &supervisor{
		name:       name,
		spec:       spec,
		group:      &cgroups.Group{},
		endSignals: make(chan os.Signal, 4),
	}

	// Before the start of the task, so that a signal during the start does not end only the supervisor.
	signal.Notify(s.endSignals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	err := s.prepare()
	if err == nil && !spec.complete() {
		err = s.awaitProgram(specs)
	}
	if err == nil {
		err = s.launch()
	}
	if err != nil {
		return nil, errors.Join(err, s.undoStart())
	}

	return s, nil
}

// prepare writes the record, then makes the objects that it names.
func (s *supervisor) prepare() (err error) {
	if err := s.recordSelf(); err != nil {
		return err
	}

	if err := reserveExit("."); err != nil {
		return err
	}

	if c := s.spec.Cgroup; c != nil {
		// A machine without cgroups is an error: the task would run without its limits.
		group, err := c.Machine.New(c.Parent, s.name, c.Limits)
		if err != nil {
			return fmt.Errorf("limiting the task: %w", err)
		}

		s.group = group
	}

	s.out, err = openOutput(s.spec.Logs)
	if err != nil {
		return fmt.Errorf("opening the task's logs: %w", err)
	}

	s.ln, err = net.Listen("unix", socketFile)
	if err != nil {
		return err
	}

	s.sessions, err = net.ListenUnix("unix", &net.UnixAddr{Name: sessionFile})
	return err
}

// awaitProgram reads the whole spec of a prepared task.
func (s *supervisor) awaitProgram(specs *json.Decoder) error {
	spec, err := readSpec(specs)
	if err != nil {
		return err
	}
	if !spec.complete() {
		return structs.Internalf("the spec of task %q has no program", spec.TaskID)
	}
	s.spec = spec
	if spec.Cgroup == nil {
		return nil
	}
	return s.group.RestrictDevices(spec.Cgroup.Limits.Devices)
}

// recordSelf precedes all that it names, so that kill finds what a killed supervisor leaves. The name of the
// group follows from the directory.
func (s *supervisor) recordSelf() error {
	self, err := process.SelfRef()
	if err != nil {
		return err
	}

	boot, err := process.BootID()
	if err != nil {
		return err
	}

	s.record = &record{
		TaskID:     s.spec.TaskID,
		Driver:     s.spec.Driver,
		Boot:       boot,
		Supervisor: self,
	}

	if os.Getpid() == 1 { // of the namespaces of a sandbox, which ends with it
		s.record.Task = self
	}

	if c := s.spec.Cgroup; c != nil {
		s.record.Cgroup = *c.Machine.Path(c.Parent, s.name)
	}

	return s.record.writeRecord(".")
}

// launch starts the program. Its output belongs to the task from here on, also after a failure.
func (s *supervisor) launch() error {
	defer s.out.started()
	if s.spec.Sandbox == nil {
		return s.launchBare()
	}
	box, err := sandbox.Run(s.spec.Sandbox, s.out.stdout.w, s.out.stderr.w, s.group)
	if err != nil {
		return err
	}
	s.proc = box
	s.commands = box.Commands
	return nil
}

// launchBare starts the program and enters into the record which process the task ends with.
func (s *supervisor) launchBare() error {
	b, err := startBare(s.spec.Program, s.out, s.group)
	if err != nil {
		return err
	}

	s.proc = b
	s.commands = b.sessions
	if s.group.Empty() {
		b.sessions.Started = s.recordSession
	}

	s.record.Task, err = process.RefOf(b.pid)
	if err == nil {
		err = s.record.writeRecord(".")
	}
	if err != nil {
		s.kill()
		_, _ = b.Wait() // it was killed
	}

	return err
}

// undoStart undoes prepare. The agent removes the files in the directory.
func (s *supervisor) undoStart() error {
	var errs []error
	if s.ln != nil {
		errs = append(errs, s.ln.Close())
	}
	if s.sessions != nil {
		errs = append(errs, s.sessions.Close())
	}
	if s.out != nil {
		s.out.close(0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	errs = append(errs, s.group.Kill(ctx), s.group.Remove())
	return errors.Join(errs...)
}

// run serves until the task has ended, and records the exit result.
func (s *supervisor) run() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// These three end with the process, which is about to end when run returns.
	go s.handleSignals()
	go sandbox.AcceptAll(ctx, s.ln, s.serveConn)
	go s.commands.Serve(ctx, s.sessions)
	exit, err := s.proc.Wait()
	// The counter goes with the group, which sweep removes.
	oom := s.group.OOMKills()
	left := s.sweep()
	s.out.close(drainTimeout)
	result := &driver.ExitResult{
		ExitCode: exit.Code,
		Signal:   exit.Signal,
	}
	if err != nil {
		result.Err = err.Error()
	}

	result.OOMKilled = oom > 0 && !result.Successful()
	// The result comes last: once it is there, the agent takes the task and its output for ended.
	err = errors.Join(left, writeExit(".", result))
	if err != nil {
		fmt.Fprintln(os.Stderr, "executor:", err)
		return 1
	}

	return 0
}

// recordSession records a command, so that its processes are found if this process is killed. Its calls come
// one after the other.
func (s *supervisor) recordSession(pid int) error {
	ref, err := process.RefOf(pid)
	if err != nil {
		return err
	}
	all := append(s.record.Sessions, ref)
	s.record.Sessions = all[max(0, len(all)-maxRecorded):]
	return s.record.writeRecord(".")
}

// sweep ends the processes that the task's first process left, and removes the cgroup.
func (s *supervisor) sweep() error {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	err := s.group.Kill(ctx)
	if b, ok := s.proc.(*bare); ok {
		err = errors.Join(err, b.sweep(ctx))
	}
	return errors.Join(err, s.group.Remove())
}

// kill ends all processes of the task. run notices their end and completes it.
func (s *supervisor) kill() {
	if err := s.proc.Kill(); err != nil {
		fmt.Fprintln(os.Stderr, "executor: killing the task:", err)
	}
}

// stop sends the signal. It kills the task if that has not ended after the timeout. An agent repeats a
// request whose answer is late. The task gets the signal once nevertheless: many programs end at once,
// without their cleanup, when a second SIGINT or SIGTERM arrives.
func (s *supervisor) stop(sig unix.Signal, timeout time.Duration) error {
	s.stopping.Lock()
	defer s.stopping.Unlock()
	if sig != s.stopSent {
		err := s.proc.Signal(sig)
		if err != nil {
			return err
		}
		s.stopSent = sig
	}

	// Each request has its own timer, and the earliest one counts: a later stop can shorten the wait.
	time.AfterFunc(timeout, s.kill) // this process ends with the task
	return nil
}

// shutdownTimeout is the stop timeout of a task if a signal stops its supervisor, as at a shutdown of the
// machine.
const shutdownTimeout = 5 * time.Second

// handleSignals stops the task at a signal. It ends with the process.
func (s *supervisor) handleSignals() {
	for sig := range s.endSignals {
		if sig != unix.SIGHUP { // the end of the agent's session does not end the task
			_ = s.stop(unix.SIGTERM, shutdownTimeout)
		}
	}
}
