// Package helper runs the processes that touch mounted file systems in place of the agent, and has their
// programs: Cut, Fitrim, Probe and Statfs. The server of a file system may have failed: then a system call
// on it never ends, and SIGKILL may not end the process either.
//
// A Pool bounds the processes, also endless ones, and waits for none of them. Each kind of work on
// a node has a pool of its own: see Pools.
//
// The supervisor of tasks has the programs, so the package imports little.
package helper

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"berth/structs"
)

// Max bounds the processes of a pool, also endless ones.
const Max = 8

// maxOutput bounds the output of a process that Output returns.
const maxOutput = 4 << 10

// Pool starts the processes.
type Pool struct {
	// Grace is how long Output waits for the end of a process that it has killed. It is set before the first
	// use.
	Grace time.Duration

	command []string
	running atomic.Int32
}

// Pools are the pools of a node. The processes of a file system whose server does not answer may stay for
// ever. Processes that measure its use take no place of processes that find dead mounts or end their
// connections, so the mounts of others are still found and healed.
type Pools struct {
	Use    *Pool // measures the use of volumes
	Health *Pool // asks mounts whether they answer
	Heal   *Pool // ends the connections of dead mounts
}

// NewPools makes the pools of a node. command is as in New.
func NewPools(command []string) Pools {
	return Pools{
		Use:    New(command),
		Health: New(command),
		Heal:   New(command),
	}
}

// New makes a pool. command is the supervisor's program with its arguments; the arguments of a work follow
// them.
func New(command []string) *Pool { return &Pool{command: command} }

// Running returns the number of the processes that have not ended.
func (p *Pool) Running() int { return int(p.running.Load()) }

// make returns the command of a work, with a place in the pool. It is unavailable if Max processes run.
func (p *Pool) make(args []string) (*exec.Cmd, error) {
	if p.running.Add(1) > Max {
		p.running.Add(-1)
		return nil, structs.Unavailablef("%d processes that ask file systems do not end; "+
			"unmount those whose server has failed", Max)
	}
	all := append(p.command[1:len(p.command):len(p.command)], args...)
	return exec.Command(p.command[0], all...), nil
}

// start starts a command that has a place, and calls read beside it. The place is free after the end of both.
// The channel has the error of the process then.
func (p *Pool) start(cmd *exec.Cmd, read func()) (<-chan error, error) {
	err := cmd.Start()
	if err != nil {
		p.running.Add(-1)
		return nil, fmt.Errorf("starting a process for file systems: %w", err)
	}

	ended := make(chan error, 1)
	// It stays as long as the kernel holds the process.
	go func() {
		read()
		err := cmd.Wait()
		p.running.Add(-1)
		ended <- err
		close(ended)
	}()
	return ended, nil
}

// Output runs a process and returns its output. At the end of ctx it kills the process and returns a timeout,
// also if the process does not end. A process that fails is unavailable.
func (p *Pool) Output(ctx context.Context, args ...string) ([]byte, error) {
	cmd, err := p.make(args)
	if err != nil {
		return nil, err
	}

	out := &limited{}
	cmd.Stdout = out
	cmd.Stderr = out
	ended, err := p.start(cmd, func() {})
	if err != nil {
		return nil, err
	}

	select {
	case err = <-ended:
	case <-ctx.Done():
		_ = cmd.Process.Kill() // it may have ended
		p.awaitEnd(ended)
		return nil, structs.Timeoutf("%s does not end: the server of its file system may have failed",
			strings.Join(args, " "))
	}
	if err != nil {
		return nil, structs.Unavailablef("%s (%w)", structs.Printable(strings.TrimSpace(out.String())), err)
	}
	return out.Bytes(), nil
}

// awaitEnd waits for the end of a process, at most for the grace.
func (p *Pool) awaitEnd(ended <-chan error) {
	if p.Grace == 0 {
		return
	}
	limit := time.NewTimer(p.Grace)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C:
	}
}

// limited keeps the first bytes of an output.
type limited struct{ bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	left := max(0, maxOutput-l.Len())
	_, _ = l.Buffer.Write(b[:min(left, len(b))]) // it never fails
	return len(b), nil
}

// Stream is a process that answers piece by piece.
type Stream[T any] struct {
	// Answers has what the process says. It is closed when the process says no more.
	Answers <-chan T
	// Ended has the error of the process and is closed at its end. The kernel may hold the process for ever.
	Ended <-chan error

	kill func()
}

// Close kills the process. It does not wait for its end.
func (s *Stream[T]) Close() { s.kill() }

// Start starts a process, which gets a question in JSON on its standard input, and whose answers are JSON on
// its standard output. The input stays open until Close or the end of the agent, so a process that waits for
// the end of its input ends with the agent. The caller has to receive the answers until there are no more.
func Start[T any](p *Pool, question any, args ...string) (*Stream[T], error) {
	text, err := json.Marshal(question)
	if err != nil {
		return nil, structs.Internalf("the question for a process: %w", err)
	}
	cmd, err := p.make(args)
	if err != nil {
		return nil, err
	}

	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if errIn != nil || errOut != nil {
		p.running.Add(-1)
		return nil, fmt.Errorf("a pipe for a process: %w, %w", errIn, errOut)
	}
	answers := make(chan T)
	ended, err := p.start(cmd, func() {
		defer close(answers)
		go func() { _, _ = in.Write(text) }() // a process that does not read it gives no answer
		decode(out, answers)
	})
	if err != nil {
		return nil, err
	}
	return &Stream[T]{
		Answers: answers,
		Ended:   ended,
		kill: func() {
			_ = cmd.Process.Kill() // it may have ended
			_ = in.Close()
			_ = out.Close() // the kernel may hold the process, and with it the other end
		},
	}, nil
}

// decode sends the answers of an output. A text that is no answer ends it.
func decode[T any](out io.Reader, answers chan<- T) {
	d := json.NewDecoder(out)
	for {
		var a T
		if err := d.Decode(&a); err != nil {
			return
		}
		answers <- a
	}
}
