package access

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"berth/api"
	accessapi "berth/api/access"
	"berth/cli/command"
	"berth/internal/backoff"
	"berth/internal/boottime"
	"berth/structs"
	"berth/structs/access"
)

var lockCommand = command.Command{
	Name:     "lock",
	Args:     "<variable> <command>...",
	Synopsis: "Run a command while it holds the lock of a variable",
	Help: `
The command waits for the lock, then runs the child, and gives the lock back
at its end. If the lock is lost, or the command itself is killed, or is
stopped (Ctrl-Z) for longer than the TTL, the child and its own children get
SIGTERM, and five seconds later SIGKILL: before anybody else gets the lock.
The exit code is the child's, and 5 if the lock was lost. @FILE after the
path, or in its place, is a specification whose items are written with the
lock. Options come before the variable. The child runs in the shell of SHELL,
or /bin/sh.`,
	Verbatim: true,
	Flags: []command.Flag{
		{
			Name:    "ttl",
			Kind:    command.Duration,
			Value:   "duration",
			Default: "15s",
			Usage:   "The lock ends if it is not renewed within it",
		},
		{
			Name:    "delay",
			Kind:    command.Duration,
			Value:   "duration",
			Default: "15s",
			Usage:   "Nobody gets the lock for that time after an end without a release",
		},
		{
			Name:    "max-retry",
			Kind:    command.Number,
			Value:   "number",
			Default: "5",
			Usage:   "The lock counts as lost after that many failed renewals in a row, and at its end anyway",
		},
		{Name: "shell", Default: "true", Usage: "Run the child in a shell"},
		inFlag,
	},
	Run: lockVariable,
	Examples: "berth var lock app/leader ./migrate.sh\n" +
		"berth var lock -ttl 30s -shell=false app/leader /usr/bin/migrate -all",
}

// killAfter is the time that the child has after SIGTERM.
const killAfter = 5 * time.Second

// lockVariable waits for the lock of a variable, runs a program while it holds the lock, and ends with the
// code of the program. A lock that is lost ends the program, and its loss is the error.
func lockVariable(ctx context.Context, c *command.Call) error {
	s, child, err := readVariableSpec(c, c.Args)
	if err != nil {
		return err
	}

	if len(child) == 0 {
		return command.BadUsage("a command to run is missing")
	}

	h := &lockHolder{
		c:        c,
		spec:     s,
		failures: int(c.Number("max-retry")),
		lock: &access.VariableLock{
			TTL:       c.Duration("ttl"),
			LockDelay: c.Duration("delay"),
		},
	}

	err = h.acquire(ctx)
	if err != nil {
		return h.waitFault(ctx, err)
	}
	defer h.release()

	guards, err := h.openGuard()
	if err != nil {
		return err
	}
	defer guards.Close()
	defer h.guard.Close()

	held, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	var renewing sync.WaitGroup
	defer renewing.Wait()
	renewing.Go(func() { lose(h.renew(held)) })
	err = h.runChild(held, guards, child)
	lost := context.Cause(held)
	lose(nil)
	if ctx.Err() == nil && lost != nil {
		return lost
	}

	return err
}

// lockHolder holds the lock of a variable.
type lockHolder struct {
	c        *command.Call
	spec     *variableSpec
	failures int // failed renewals in a row after which the lock counts as lost
	lock     *access.VariableLock
	until    boottime.Instant // the lock lasts as long, unless it is renewed
	guard    *os.File         // the pipe to the guard of the command
	left     error            // the processes of the command that do not end
}

func (h *lockHolder) write(
	ctx context.Context, op string, items access.VariableItems,
) (*access.OpenVariable, error) {
	return accessapi.WriteVariable(ctx, h.c.API, accessapi.VariableWrite{
		Op:        op,
		Namespace: h.spec.Namespace,
		Path:      h.spec.Path,
		Items:     items,
		Lock:      h.lock,
	})
}

// acquire waits until it gets the lock. While another one has it, it waits for a change of the variable.
func (h *lockHolder) acquire(ctx context.Context) error {
	said := ""
	for {
		sent := boottime.Now()
		v, err := h.write(ctx, access.VariableAcquire, h.spec.Items)
		conflict, isConflict := errors.AsType[*accessapi.VariableConflict](err)
		switch {
		case err == nil:
			h.lock = v.Lock
			h.until = sent.Add(v.Lock.TTL)
			return nil
		case !isConflict:
			return err
		}
		text := holderText(conflict.Present)
		if text != said {
			said = text
			h.say("waiting for the lock of the variable %q: %s", h.spec.Path, text)
		}

		q := &api.Query{
			Namespace: h.spec.Namespace,
			MinIndex:  max(1, conflict.Present.ModifyIndex),
			MaxWait:   time.Minute,
		}
		_, _, err = accessapi.Variable(ctx, h.c.API, h.spec.Path, q)
		switch structs.KindOf(err) {
		case "", structs.KindNotFound, structs.KindUnavailable:
		default:
			return err
		}
		if !backoff.Sleep(ctx, time.Second) { // others of the queue ask at the same time
			return ctx.Err()
		}
	}
}

// holderText describes the holder of a lock that others wait for. The time changes with the holder.
func holderText(v *access.OpenVariable) string {
	if v.Lock == nil {
		return "nobody has it now; after a holder that did not renew it, nobody gets it during its delay"
	}
	return "another one has it; the variable changed at " + time.Unix(0,
		v.ModifyTime).UTC().Format(time.RFC3339)
}

// waitFault is the fault of the wait for the lock: of a request, or of the user, with the next step.
func (h *lockHolder) waitFault(ctx context.Context, err error) error {
	if structs.IsKind(err, structs.KindInvalid) {
		return err
	}

	if ctx.Err() == nil {
		return structs.Errorf(structs.KindOf(err), "%w; %s", err, h.nextStep())
	}

	return structs.Timeoutf("interrupted while it waited for the lock of the variable %q; %s",
		h.spec.Path, h.nextStep())
}

func (h *lockHolder) nextStep() string {
	return "to see the variable: " + structs.CommandLine(h.spec.Namespace, "var get", h.spec.Path)
}

func (h *lockHolder) say(format string, args ...any) {
	fmt.Fprintf(command.Printable{To: h.c.Err}, format+"\n", args...)
}

// renew renews the lock three times in its TTL until it is lost, and returns the reason. It returns nil if
// ctx ends before.
func (h *lockHolder) renew(ctx context.Context) error {
	failed := 0
	for backoff.Sleep(ctx, min(h.lock.TTL/3, max(0, h.until.Sub(boottime.Now())))) {
		sent := boottime.Now()
		attempt, cancel := context.WithTimeout(ctx, max(0, h.until.Sub(sent)))
		_, err := h.write(attempt, "lock-renew", nil)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			failed = 0
			h.until = sent.Add(h.lock.TTL)
			h.tellGuard()
			continue
		}

		failed++
		if structs.IsKind(err, structs.KindConflict) || failed > h.failures || boottime.Now() >= h.until {
			return structs.Conflictf("the lock of the variable %q is lost, and the command was ended: %w; %s",
				h.spec.Path, err, h.nextStep())
		}
	}

	return nil
}

// release gives the lock back, also if the command was interrupted. A lock that is lost is no error.
func (h *lockHolder) release() {
	if h.left != nil {
		h.say("the lock of the variable %q is not released, and ends after %s: %v; %s",
			h.spec.Path, h.lock.TTL, h.left, h.nextStep())
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), killAfter)
	defer cancel()
	_, err := h.write(ctx, access.VariableRelease, nil)
	if err != nil && !structs.IsKind(err, structs.KindConflict) {
		h.say("failed to release the lock of the variable %q, which ends after %s: %v; %s",
			h.spec.Path, h.lock.TTL, err, h.nextStep())
	}
}
