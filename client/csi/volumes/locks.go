package volumes

import (
	"context"
	"errors"

	"berth/internal/keylock"
	"berth/structs"
)

// acquire takes the lock of a key. work describes the guarded work for users. An interrupted wait is an
// error, never a success: the holder of the lock has not finished.
func acquire(ctx context.Context, locks *keylock.Map, key, work string) (release func(), err error) {
	release, err = locks.Lock(ctx, work, key)
	var held *keylock.Error
	if errors.As(err, &held) {
		return nil, structs.Unavailablef(
			"%s was not begun: earlier work on it, %s since %s, is not complete: %w",
			work, held.Holder,
			clock(held.Since.UnixNano()), held.Err)
	}
	return release, err
}
