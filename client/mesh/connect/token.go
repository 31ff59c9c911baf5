// Package connect has the hooks that prepare a task for the service mesh of Consul, as the block `connect`
// of its service asks for: NewToken its token, NewEnvoy the configuration of Envoy, and NewNative the
// variables of a task that takes part by itself. Sockets leads to Consul from a network namespace.
package connect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/client/hooks/secrets"
	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

// timeLimit bounds the wait for a token, as in the dialect. A task that has none then has failed.
const timeLimit = 5 * time.Minute

// callTimeout bounds one call of the servers: they ask Consul.
const callTimeout = time.Minute

// aclsTimeout bounds one wait for Consul, so that the allocation tells soon why it waits.
const aclsTimeout = 10 * time.Second

// The delays between calls, as in the dialect.
const (
	firstDelay = 100 * time.Millisecond
	delayStep  = 5 * time.Second
	maxDelay   = 3 * time.Minute
)

// MaxToken bounds the bytes of a token.
const MaxToken = structs.MaxName

// TokenConfig has the parts of the agent that the hook needs.
type TokenConfig struct {
	Region   string
	NodeID   string
	SecretID string
	Servers  rpc.Caller
	// ServersBack, if not nil, is announced when the servers can be reached again after a cut.
	ServersBack *backoff.Recovery
	// ACLs reports whether the ACLs of the node's Consul are on. It may wait for Consul.
	ACLs   func(ctx context.Context) (bool, error)
	Logger hclog.Logger
	// Progress receives the reason for which an allocation waits, "" once it no longer waits.
	Progress func(allocID, reason string)
}

type siToken struct {
	cfg    TokenConfig
	alloc  string
	task   string
	logger hclog.Logger
}

// NewToken gives a task in the service mesh its token of Consul, where Consul's ACLs are on: the servers
// make it, with the rights of the task's service and no others. The hook puts it into secrets/si_token
// before the proxy, or the task, needs it.
//
// A token that is there is kept, also over restarts of the task and of the agent: each allocation needs one
// token for each task. The servers revoke it when the allocation has ended. The hook is nil for a task
// outside of the service mesh.
func NewToken(cfg TokenConfig, env *hooks.AllocEnv, task *structs.Task) hooks.Task {
	if !task.Kind.UsesConnect() {
		return nil
	}
	return &siToken{
		cfg:    cfg,
		alloc:  env.Alloc.ID,
		task:   task.Name,
		logger: cfg.Logger.With("alloc_id", env.Alloc.ID, "task", task.Name),
	}
}

// Name implements hook.Task.
func (*siToken) Name() string { return "consul_si_token" }

// Up returns when the token is in its file, or at once if the task needs none. An error fails the task for
// good. The end of ctx, for example with the agent, is no failure.
func (h *siToken) Up(ctx context.Context, env *hooks.TaskEnv) error {
	if env.Running {
		return nil
	}
	err := h.provide(ctx, env)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return &hooks.Failure{
		Event: structs.TaskEventSetupFailure,
		Final: true,
		Err:   fmt.Errorf("getting a service-identity token of Consul: %w", err),
	}
}

// Down has nothing to undo: the secrets end with the allocation.
func (*siToken) Down(context.Context) error { return nil }

// provide writes the token into its file, unless it is there or the task needs none.
func (h *siToken) provide(ctx context.Context, env *hooks.TaskEnv) error {
	dirs := env.Config.Dirs
	_, err := ReadToken(dirs)
	// Without an error the task has its token already.
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	wait := hooks.Wait{
		AllocID:  h.alloc,
		Task:     h.task,
		For:      "its token of Consul",
		Progress: h.cfg.Progress,
		Emit:     env.Emit,
	}

	wait.Begin()
	token, err := h.await(ctx, wait.Tell)
	wait.End()
	if err != nil || token == "" {
		return err
	}

	return secrets.Write(dirs, driver.SITokenFile, token)
}

// ReadToken returns the token of a task. Without one the error is fs.ErrNotExist.
func ReadToken(dirs driver.Dirs) (string, error) {
	token, err := secrets.Read(dirs, driver.SITokenFile, MaxToken)
	if err == nil {
		err = check(token)
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", driver.SITokenFile, err)
	}
	return token, nil
}

func check(token string) error {
	// A token becomes a part of a header and of a variable.
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return structs.Preconditionf("its content is no token")
	}
	return nil
}

// answer is the result of the worker, or the fault of an attempt that it repeats.
type answer struct {
	token  string // "": the task needs none
	err    error
	repeat bool
}

// await returns the answer of a worker, or an error at the time limit, also if a call does not end with its
// context. The worker reports and decides nothing. tell takes the reason of the wait.
func (h *siToken) await(ctx context.Context, tell func(reason string)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	answers := make(chan answer, 1)
	go h.work(ctx, answers)
	var last error
	for {
		var a answer
		select {
		case a = <-answers:
		case <-ctx.Done():
			select {
			case a = <-answers: // of the same moment
			default:
				a.err = ctx.Err()
			}
		}

		if a.err == nil && !a.repeat {
			return a.token, nil
		}

		if ctx.Err() != nil {
			return "", tooLate(last, a.err)
		}

		if !a.repeat {
			return "", a.err
		}

		last = a.err
		tell(last.Error())
	}
}

// tooLate returns the error for the time limit, with the best reason: the newest that is not about the limit.
func tooLate(faults ...error) error {
	for _, err := range slices.Backward(faults) {
		if err != nil && !isLate(err) {
			return structs.Timeoutf("there is none after %s; the last attempt: %w", timeLimit, err)
		}
	}
	return structs.Timeoutf("there is none after %s, and no answer", timeLimit)
}

// work asks the servers until they have made the token, an error is final, or ctx ends. No send waits for a
// reader after ctx: the channel holds one.
func (h *siToken) work(ctx context.Context, answers chan<- answer) {
	report := func(a answer) {
		select {
		case answers <- a:
		case <-ctx.Done():
			select {
			case answers <- a:
			default:
			}
		}
	}

	on, err := h.acls(ctx)
	for ; err != nil && ctx.Err() == nil; on, err = h.acls(ctx) {
		report(answer{err: err, repeat: true})
		backoff.Sleep(ctx, firstDelay)
	}

	// Without ACLs a task needs no token.
	if err != nil || !on {
		report(answer{err: err})
		return
	}

	failed := 0
	for ctx.Err() == nil {
		back := h.cfg.ServersBack.Next()
		token, err := h.ask(ctx)
		if err == nil || isFinal(err) {
			report(answer{token: token, err: err})
			return
		}

		h.logger.Warn("failed to get a service-identity token, retrying", "error", err)
		report(answer{err: err, repeat: true})
		failed++
		if backoff.EndsEarly(ctx, delay(failed), err, back) {
			// The servers are back, so the delays begin again.
			failed = 0
		}
	}
}

func (h *siToken) acls(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, aclsTimeout)
	defer cancel()
	return h.cfg.ACLs(ctx)
}

// isFinal reports whether another call would fail likewise. One that has only taken too long would not.
func isFinal(err error) bool { return structs.KindOf(err).Final() && !isLate(err) }

// isLate reports whether an error is the end of a context.
func isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// delay returns the time before a call, after a number of failed ones.
func delay(failed int) time.Duration {
	if failed <= 1 {
		return firstDelay
	}
	return min(time.Duration(failed)*delayStep, maxDelay)
}

func (h *siToken) ask(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := &access.DeriveSITokenRequest{
		NodeID:   h.cfg.NodeID,
		SecretID: h.cfg.SecretID,
		AllocID:  h.alloc,
		Tasks:    []string{h.task},
	}

	req.Region = h.cfg.Region
	resp, err := rpc.Call(ctx, h.cfg.Servers, access.NodeDeriveSIToken, req)
	if err != nil {
		return "", err
	}

	token := resp.Tokens[h.task]
	if len(token) > MaxToken || check(token) != nil {
		return "", structs.Internalf("the servers answered without a token for the task")
	}

	return token, nil
}
