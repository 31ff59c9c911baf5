package loadshed

import (
	"context"
	"testing"
	"time"
)

func TestATicketIsOfOneRequest(t *testing.T) {
	var ticket Ticket
	ctx, cancel := context.WithCancel(ticket.With(t.Context()))
	defer cancel()
	for _, in := range []bool{false, true, true, false} {
		if ticket.Set(in); Admitted(ctx) != in {
			t.Errorf("let in: %v, want %v", !in, in)
		}
	}
	ticket.Set(true)
	if Admitted(t.Context()) || !Admitted(ctx) {
		t.Error("it is another's ticket")
	}
}

func TestAGateSaysWhetherToAsk(t *testing.T) {
	g := New(DefaultConfig())
	for n, want := range []bool{false, true, true} { // the first time may be chance
		g.Observe(Sample{Took: time.Second, Seen: 1000, In: 1000, Delay: time.Minute})
		if g.Refuses() != want {
			t.Errorf("after %d windows it refuses: %v", n+1, !want)
		}
	}
}
