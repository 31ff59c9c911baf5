// Package engine calls a docker daemon through its API. It bounds each call in time and each answer in size,
// and gives each error its kind:
//
//   - unavailable: the daemon cannot be reached, or went away during the call
//   - timeout: the daemon has not answered in time, and may have done what it was asked for
//   - invalid, not-found, conflict: the daemon's own answer
//   - precondition: any other rejection by the daemon, for example of a registry or for lack of disk space
//
// The API version is negotiated with each daemon that is found. A daemon needs at least version 1.40.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"berth/internal/netfault"
	"berth/structs"
)

const (
	// quickTimeout bounds a call that only reads.
	quickTimeout = 15 * time.Second
	// slowTimeout bounds a call that changes a container: the storage of some daemons copies whole images.
	slowTimeout = 2 * time.Minute
	// maxText bounds the daemon's text in an error.
	maxText = 2 << 10
)

// maxAnswer bounds the answer of a call that is no stream, in bytes. A test lowers it.
var maxAnswer int64 = 64 << 20

// Engine is one docker daemon. It is safe for concurrent use and holds no connection between two calls.
type Engine struct {
	endpoint string

	// It guards api. The negotiation itself runs without it, so a daemon that hangs delays only its own
	// callers.
	mu  sync.Mutex
	api *client.Client // nil until a version is negotiated
}

// moby is the library's client.
type moby = client.Client

// New makes the Engine of an endpoint, unix:///run/docker.sock for example. It does not connect.
func New(endpoint string) *Engine { return &Engine{endpoint: endpoint} }

// Endpoint is the address of the daemon.
func (e *Engine) Endpoint() string { return e.endpoint }

// connect returns a client that speaks the daemon's version. The library ignores a failed negotiation and
// calls the daemon with a version that it may reject, so connect negotiates before the first call.
func (e *Engine) connect(ctx context.Context) (*client.Client, error) {
	e.mu.Lock()
	api := e.api
	e.mu.Unlock()
	if api != nil {
		return api, nil
	}

	// Without kept connections nothing of the client outlives a call.
	plain := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: client.CheckRedirect,
	}

	api, err := client.New(
		client.WithHTTPClient(plain),
		client.WithHost(e.endpoint),
		client.WithScheme("http"), // the library takes a client of ours for one with TLS
		client.WithDialContext(e.dial))
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, quickTimeout)
	defer cancel()
	_, err = api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err != nil {
		return nil, err
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	e.api = api
	return api, nil
}

// forget makes the next call negotiate again: the next daemon may be another version.
func (e *Engine) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.api = nil
}

// call makes a call within a time and classifies its error. doing describes the call in errors.
func (e *Engine) call(
	ctx context.Context, doing string, limit time.Duration, fn func(context.Context, *moby) error,
) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errNoAnswer)
	defer cancel()
	return e.callUnbounded(bounded(ctx), doing, fn)
}

// callUnbounded is call for streams and waits, whose time the caller bounds.
func (e *Engine) callUnbounded(
	ctx context.Context, doing string, fn func(context.Context, *moby) error,
) error {
	api, err := e.connect(ctx)
	if err == nil {
		err = fn(ctx, api)
	}

	if err == nil {
		return nil
	}

	err = e.classify(ctx, doing, err)
	if structs.IsKind(err, structs.KindUnavailable) {
		e.forget()
	}

	return err
}

var errNoAnswer = errors.New("the docker daemon does not answer")

// classify gives an error its kind.
func (e *Engine) classify(ctx context.Context, doing string, err error) error {
	text := structs.Cut(err.Error(), maxText)
	switch {
	case isLate(ctx):
		return structs.Timeoutf("docker: %s: the daemon at %s does not answer", doing, e.endpoint)
	case ctx.Err() != nil:
		return fmt.Errorf("docker: %s: %w", doing, context.Cause(ctx))
	// An error with a kind is of this package: a bound that the answer has exceeded.
	case structs.KindOf(err) != structs.KindInternal:
		return err
	case isDisconnected(err):
		return structs.Unavailablef("docker: %s: the daemon at %s cannot be reached: %w", doing, e.endpoint,
			netfault.Plain(err))
	case errdefs.IsNotFound(err):
		return structs.NotFoundf("docker: %s: %s", doing, text)
	case errdefs.IsConflict(err):
		return structs.Conflictf("docker: %s: %s", doing, text)
	case errdefs.IsInvalidArgument(err):
		return structs.Invalidf("docker: %s: %s", doing, text)
	}

	return structs.Preconditionf("docker: %s: %s", doing, text)
}

// isLate reports whether the time of a call is over: this package's bound, or the bound of a caller that
// gives no reason.
func isLate(ctx context.Context) bool {
	why := context.Cause(ctx)
	return errors.Is(why, errNoAnswer) || errors.Is(why, context.DeadlineExceeded)
}

// isDisconnected reports whether a call failed because no daemon is there, or it has ended during the call.
func isDisconnected(err error) bool {
	_, broken := errors.AsType[*net.OpError](err)
	return broken || client.IsErrConnectionFailed(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// boundKey marks the context of a call whose answer is bounded.
type boundKey struct{}

// bounded bounds the answer of a call. A connection serves one call, so a bound of the one is a bound of the
// other.
func bounded(ctx context.Context) context.Context { return context.WithValue(ctx, boundKey{}, true) }

// dial connects to the daemon.
func (e *Engine) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: quickTimeout}
	conn, err := dialer.DialContext(ctx, "unix", strings.TrimPrefix(e.endpoint, "unix://"))
	if err != nil || ctx.Value(boundKey{}) == nil {
		return conn, err
	}
	return &boundedConn{Conn: conn, left: maxAnswer}, nil
}

// boundedConn fails after a number of bytes.
type boundedConn struct {
	net.Conn
	left int64
}

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, structs.Preconditionf("the answer of the docker daemon has more than %d bytes", maxAnswer)
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}
