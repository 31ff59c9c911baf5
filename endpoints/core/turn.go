package core

import (
	"context"
	"errors"

	"berth/internal/keylock"
	"berth/internal/loadshed"
	"berth/structs"
)

// AwaitTurn waits until no other request records one of the rows, and locks them. It waits no longer than
// WritePatience, and not at all while Settings.TurnQueue requests wait. The error then has the time
// after which to retry.
func AwaitTurn(
	ctx context.Context,
	locks *keylock.Map,
	rows ...string,
) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, WritePatience)
	defer cancel()
	unlock, err = locks.Lock(ctx, "", rows...)
	var held *keylock.Error
	if !errors.As(err, &held) {
		return unlock, err
	}

	limit := "turn patience"
	if errors.Is(held, keylock.ErrFull) {
		limit = "turn full"
	}

	loadshed.CountRejected(limit, 1)
	return nil, structs.Busy(WritePatience,
		"the request was not executed: others are changing %q and more wait for it",
		held.Key)
}
