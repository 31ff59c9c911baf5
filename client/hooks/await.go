package hooks

import (
	"context"
	"fmt"
	"time"

	"berth/internal/backoff"
	"berth/structs"
)

// AwaitInterval is the time between two looks for the end of another allocation.
const AwaitInterval = 500 * time.Millisecond

// Await makes an allocation wait for the end of others of its node that keep something of it: the servers
// give it on when they stop an allocation, and only the node knows when that one has ended.
type Await struct {
	// Holder returns another allocation of this node that has not ended and keeps a part of the allocation,
	// "" if there is none.
	Holder func(a *structs.Allocation) (allocID string)
	// Progress receives the reason for which an allocation waits, "" once it no longer waits.
	Progress func(allocID, reason string)
	// Part names the part in the reason, for example "one of its devices".
	Part string
}

// End returns when no other allocation keeps the part, or with an error when ctx ends.
func (w Await) End(ctx context.Context, a *structs.Allocation) error {
	waited := ""
	for {
		holder := w.Holder(a)
		if holder == "" {
			break
		}

		if holder != waited {
			w.Progress(a.ID, fmt.Sprintf("waits for allocation %s, which still holds %s", holder, w.Part))
			waited = holder
		}

		if !backoff.Sleep(ctx, AwaitInterval) {
			return ctx.Err()
		}
	}

	if waited != "" {
		w.Progress(a.ID, "")
	}

	return nil
}
