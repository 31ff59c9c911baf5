package csihooks

import (
	"context"
	"fmt"
	"time"

	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
)

// newBackoff returns the delays between the calls of one wait.
func (h *volumesHook) newBackoff() backoff.Backoff {
	return backoff.Backoff{Min: h.RetryMin, Max: h.RetryMax}
}

// setProgress reports the reason for which the allocation waits.
func (h *volumesHook) setProgress(format string, args ...any) {
	h.Progress(h.alloc.ID, fmt.Sprintf(format, args...))
}

// callTimeout bounds a call of the servers that does not wait for a change.
const callTimeout = 15 * time.Second

// callOnce calls the servers once, within callTimeout.
func callOnce[Req, Resp any](
	ctx context.Context, h *volumesHook, m structs.Method[Req, Resp], req *Req,
) (*Resp, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return rpc.Call(ctx, h.Servers, m, req)
}

// callUntilFinal repeats a call of the servers until it succeeds, fails with a final error, or ctx ends.
func callUntilFinal[T any](
	ctx context.Context, h *volumesHook, doing string, call func() (*T, error),
) (*T, error) {
	pause := h.newBackoff()
	for {
		// Before the call, so that servers that come back during it end the pause.
		back := h.ServersBack.Next()
		resp, err := call()
		if err == nil {
			return resp, nil
		}

		err = fmt.Errorf("%s: %w", doing, err)
		if structs.KindOf(err).Final() {
			return nil, err
		}

		h.setProgress("%v", err)
		if !pause.SleepAfter(ctx, pause.After(err), err, back) {
			return nil, err
		}
	}
}
