package loadshed

import (
	"context"
	"sync/atomic"
)

// Refused says why a read is refused, to people.
const Refused = "this server is asked for more than it can answer"

// Ticket says of the request that a connection carries whether a gate has let it in already. It travels in the
// contexts of the connection's requests, so that nobody asks again, who would refuse twice as many.
type Ticket struct{ in atomic.Bool }

// Set says whether the request that the connection carries from now on was let in.
func (t *Ticket) Set(in bool) {
	if t.in.Load() != in { // mostly it was not and is not
		t.in.Store(in)
	}
}

type ticketKey struct{}

// With puts a ticket into the context of a connection.
func (t *Ticket) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, ticketKey{}, t)
}

// Admitted reports whether the request whose context it is was let in already.
func Admitted(ctx context.Context) bool {
	t, ok := ctx.Value(ticketKey{}).(*Ticket)
	return ok && t.in.Load()
}
