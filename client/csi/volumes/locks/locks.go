// Package locks takes the locks of volumes with errors for users.
package locks

import (
	"context"
	"errors"
	"time"

	"berth/internal/keylock"
	"berth/structs"
)

// Acquire takes the lock of a key. work describes the guarded work for users. An interrupted wait is an
// error, never a success: the holder of the lock has not finished.
func Acquire(ctx context.Context, locks *keylock.Map, key, work string) (release func(), err error) {
	release, err = locks.Lock(ctx, work, key)
	var held *keylock.Error
	if errors.As(err, &held) {
		return nil, structs.Unavailablef(
			"%s was not begun: earlier work on it, %s since %s, is not complete: %w",
			work, held.Holder,
			Clock(held.Since.UnixNano()), held.Err)
	}
	return release, err
}

// Clock returns a time in Unix nanoseconds as users read it.
func Clock(nanos int64) string {
	return time.Unix(0, nanos).UTC().Format("15:04:05 UTC")
}
