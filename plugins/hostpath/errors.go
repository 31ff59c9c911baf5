package hostpath

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/backoff"
	"berth/internal/keylock"
)

// failf makes an error with a gRPC code. %w wraps the cause.
func failf(code codes.Code, format string, args ...any) error {
	return &failure{code, fmt.Errorf(format, args...)}
}

// invalidf makes the error of a request that is invalid in every state of the driver.
func invalidf(format string, args ...any) error {
	return failf(codes.InvalidArgument, format, args...)
}

// preconditionf makes the error of a request that the present state does not allow.
func preconditionf(format string, args ...any) error {
	return failf(codes.FailedPrecondition, format, args...)
}

type failure struct {
	code codes.Code
	err  error
}

func (f *failure) Error() string {
	return f.err.Error()
}
func (f *failure) Unwrap() error { return f.err }

// codeOf classifies an error: by the outermost failure, else by the system's error.
func codeOf(err error) codes.Code {
	var f *failure
	switch {
	case errors.As(err, &f):
		return f.code
	case errors.Is(err, unix.ENOSPC),
		errors.Is(err, unix.EDQUOT),
		errors.Is(err, unix.EMFILE),
		errors.Is(err, unix.ENFILE):
		return codes.ResourceExhausted
	case errors.Is(err, unix.EBUSY),
		errors.Is(err, context.Canceled):
		return codes.Unavailable
	}
	return codes.Internal
}

// retryEBUSY retries a busy operation for a while. If it is still busy when the driver ends, the error is
// unavailable.
func retryEBUSY(ctx context.Context, try func() error) error {
	err := backoff.RetryEBUSY(ctx, try)
	if ctx.Err() != nil && errors.Is(err, unix.EBUSY) {
		return failf(codes.Unavailable, "the driver ends: %w", err)
	}
	return err
}

// earlyCalls lists the calls that the driver serves before it is ready.
var earlyCalls = []string{"Probe", "GetPluginInfo", "GetPluginCapabilities"}

// intercept handles every call: it rejects the call if the driver is not ready, logs it, gives its error a
// code, and turns a panic into an error of this call.
func (d *driver) intercept(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, serve grpc.UnaryHandler,
) (resp any, err error) {
	method := path.Base(info.FullMethod)
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			d.logger.Error("csi call panicked",
				"method", method, "panic", p,
				"stack", string(debug.Stack()))
			err = failf(codes.Internal, "%s panicked: %v", method, p)
		}

		took := time.Since(start)
		if err == nil {
			d.logger.Debug("csi call", "method", method, "took", took)
			return
		}

		code := codeOf(err)
		d.logger.Warn("csi call failed",
			"method", method, "code", code.String(),
			"error", err, "took", took)
		resp = nil
		err = status.Error(code, err.Error())
	}()

	if !d.ready.Load() && !slices.Contains(earlyCalls, method) {
		return nil, failf(codes.Unavailable, "the driver is starting")
	}

	return serve(ctx, req)
}

// lockKeys locks all keys or none. If a key is in use the error is ABORTED, as the specification demands.
func (d *driver) lockKeys(keys ...string) (release func(), err error) {
	release, err = d.locks.Lock(d.ctx, "a call", keys...)
	var used *keylock.Error
	if errors.As(err, &used) {
		return nil, failf(codes.Aborted, "another call works on %s", used.Key)
	}
	return release, err
}
