package volumes

import (
	"context"
	"errors"
	"time"

	"berth/internal/keylock"
	"berth/structs"
)

// acquireLock takes the lock of a key. work describes the guarded work for users. An interrupted wait is an
// error, never a success: the holder of the lock has not finished.
func acquireLock(ctx context.Context, locks *keylock.Map, key, work string) (release func(), err error) {
	return acquireLocks(ctx, locks, []string{key}, work)
}

// acquireLocks is acquireLock for several keys. Its order of the keys is one for all callers, so
// none of two with keys in common waits for ever.
func acquireLocks(
	ctx context.Context, locks *keylock.Map, keys []string, work string,
) (release func(), err error) {
	release, err = locks.Lock(ctx, work, keys...)
	var held *keylock.Error
	if errors.As(err, &held) {
		return nil, structs.Unavailablef(
			"%s was not begun: earlier work on it, %s since %s, is not complete: %w",
			work, held.Holder,
			clockText(held.Since.UnixNano()), held.Err)
	}
	return release, err
}

// lockKeys returns the keys of the calls of a plugin for volumes.
func lockKeys(plugin string, volumes ...string) (keys []string) {
	for _, id := range volumes {
		keys = append(keys, plugin+"\x00"+id)
	}
	return keys
}

// clockText returns a time in Unix nanoseconds as users read it.
func clockText(nanos int64) string {
	return time.Unix(0, nanos).UTC().Format("15:04:05 UTC")
}
