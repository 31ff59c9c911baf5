package disk

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"berth/internal/backoff"
)

// Faultf makes an error with a gRPC code. %w wraps the cause.
func Faultf(code codes.Code, format string, args ...any) error {
	return &failure{code, fmt.Errorf(format, args...)}
}

// Invalidf makes the error of a request that is invalid in every state of the driver.
func Invalidf(format string, args ...any) error {
	return Faultf(codes.InvalidArgument, format, args...)
}

// Preconditionf makes the error of a request that the present state does not allow.
func Preconditionf(format string, args ...any) error {
	return Faultf(codes.FailedPrecondition, format, args...)
}

type failure struct {
	code codes.Code
	err  error
}

func (f *failure) Error() string {
	return f.err.Error()
}
func (f *failure) Unwrap() error { return f.err }

// CodeOf classifies an error: by the outermost failure, else by the system's error.
func CodeOf(err error) codes.Code {
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

// IsCode reports whether an error has a code.
func IsCode(err error, code codes.Code) bool {
	return err != nil && CodeOf(err) == code
}

// RetryBusy retries a busy operation for a while. If it is still busy when the driver ends, the error is
// unavailable.
func RetryBusy(ctx context.Context, try func() error) error {
	err := backoff.RetryEBUSY(ctx, try)
	if ctx.Err() != nil && errors.Is(err, unix.EBUSY) {
		return Faultf(codes.Unavailable, "the driver ends: %w", err)
	}
	return err
}
