package fencing

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxGrace is the most time between SIGTERM and SIGKILL.
	maxGrace = 2 * time.Second
	// outputDelay bounds the wait for the output after the end of an agent. A process that has left the group
	// may hold it open.
	outputDelay = time.Second
	// deathDelay bounds the wait for the death of a killed agent, and for a start. A file system that does
	// not answer delays both.
	deathDelay = 5 * time.Second
)

// noExit is the exit code of an agent that did not end by itself.
const noExit = -1

// run runs an agent for one action and returns its exit code. The error says why there is none. It returns
// after the agent and its process group have ended, or cannot be ended. The timeout has the grace in it.
func (a *fenceAgent) run(ctx context.Context, action string) (code int, err error) {
	grace := min(a.timeout/5, maxGrace)
	late := fmt.Errorf("the agent did not end within %s", a.timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, a.timeout-grace, late)
	defer cancel()
	if ctx.Err() != nil {
		return noExit, stopped(ctx)
	}

	p := &process{
		cmd:     a.command(action),
		grace:   grace,
		started: make(chan error, 1),
		exited:  make(chan struct{}),
	}

	type end struct {
		code int
		err  error
	}

	// The buffer lets the goroutine end also after the wait for it has ended.
	ended := make(chan end, 1)
	go func() {
		code, err := p.run(ctx)
		ended <- end{code, err}
	}()

	select {
	case e := <-ended:
		return e.code, e.err
	case <-ctx.Done():
	}

	select {
	case e := <-ended:
		return e.code, e.err
	case <-time.After(grace + outputDelay + deathDelay):
		return noExit, fmt.Errorf("%w, and the agent cannot be killed: it may act later", stopped(ctx))
	}
}

// stopped says why an agent was ended.
func stopped(ctx context.Context) error {
	err := context.Cause(ctx)
	if errors.Is(err, context.Canceled) {
		err = errors.New("the server has stopped the agent")
	}
	return err
}

// command returns the command of an action. The secrets are in its input alone.
func (a *fenceAgent) command(action string) *exec.Cmd {
	// It has no context: the group gets a SIGTERM first, which exec would not send to all of it.
	cmd := exec.Command(a.program)
	cmd.Dir = "/"
	cmd.Env = environment()
	cmd.Stdin = strings.NewReader(a.input(action))
	cmd.Stdout = a.output
	cmd.Stderr = a.output
	cmd.WaitDelay = outputDelay
	cmd.SysProcAttr = &unix.SysProcAttr{
		Setsid:    true, // a group of its own, and no terminal to ask for a password
		Pdeathsig: unix.SIGKILL,
	}

	return cmd
}

// process is a running agent.
type process struct {
	cmd     *exec.Cmd
	grace   time.Duration
	started chan error
	exited  chan struct{} // closed when the agent has exited. It is a zombie then, until Wait
}

// run starts the agent and waits until it and its group have ended. At the end of ctx it ends them. The exit
// code of an agent that it has begun to end counts for nothing: the agent may exit with any then.
func (p *process) run(ctx context.Context) (code int, err error) {
	go p.start()
	err = <-p.started
	if err != nil {
		return noExit, fmt.Errorf("starting the agent: %w", err)
	}

	byItself := p.await(ctx)
	p.signal(unix.SIGKILL) // ends the processes that the agent leaves, too
	<-p.exited
	err = p.cmd.Wait()
	var exit *exec.ExitError
	switch {
	case !byItself:
		return noExit, stopped(ctx)
	case err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay):
		return noExit, fmt.Errorf("the agent: %w", err)
	case !p.cmd.ProcessState.Exited():
		return noExit, fmt.Errorf("the agent ended by a signal: %s", p.cmd.ProcessState)
	}

	return p.cmd.ProcessState.ExitCode(), nil
}

// start starts the agent and waits for its exit. The death signal of the agent is about the thread that
// started it, which therefore must live until then.
func (p *process) start() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	p.started <- err
	if err != nil {
		return
	}

	// The agent stays a zombie: no other process can get the number of its group.
	const options = unix.WEXITED | unix.WNOWAIT
	err = unix.EINTR
	for errors.Is(err, unix.EINTR) {
		err = unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, options, nil)
	}

	close(p.exited)
}

// await waits for the exit of the agent, and asks it to exit at the end of ctx. It reports whether the agent
// exited without that.
func (p *process) await(ctx context.Context) (byItself bool) {
	select {
	case <-p.exited:
		return true
	case <-ctx.Done():
	}

	p.signal(unix.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(p.grace):
	}

	return false
}

// signal signals all processes of the group. It must come before Wait.
func (p *process) signal(s unix.Signal) {
	_ = unix.Kill(-p.cmd.Process.Pid, s)
}
