package sandbox

import (
	"context"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// rejecting is a listener whose accepts end with these errors, one after the other, nil for a connection.
// Later ones end with net.ErrClosed.
type rejecting struct {
	net.Listener
	errs  []error
	times []time.Time // of the accepts
}

func (r *rejecting) Accept() (net.Conn, error) {
	r.times = append(r.times, time.Now())
	n := len(r.times)
	if n > len(r.errs) {
		return nil, net.ErrClosed
	}
	if err := r.errs[n-1]; err != nil {
		return nil, &net.OpError{Op: "accept", Err: err}
	}
	return &net.UnixConn{}, nil
}

func TestAcceptAll_PausesAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := &rejecting{errs: slices.Repeat([]error{unix.EMFILE}, 10)}
		ln.errs = append(ln.errs, nil, unix.ENFILE, unix.ECONNABORTED)
		served := make(chan net.Conn, 1)
		AcceptAll(t.Context(), ln, func(conn net.Conn) { served <- conn })
		if <-served == nil {
			t.Error("no connection after the failures")
		}
		var pauses []int
		for i, at := range ln.times[1:] {
			pauses = append(pauses, int(at.Sub(ln.times[i]).Milliseconds()))
		}
		want := []int{5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000, 0, 5, 10}
		if !slices.Equal(pauses, want) {
			t.Errorf("got the pauses %d in ms, want %d", pauses, want)
		}
	})
}

func TestAcceptAll_EndsInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		ln := &rejecting{errs: slices.Repeat([]error{unix.EMFILE}, 10)}
		began := time.Now()
		AcceptAll(ctx, ln, func(net.Conn) {})
		if took := time.Since(began); took != 100*time.Millisecond || len(ln.times) != 5 {
			t.Errorf("it ended after %s and %d accepts", took, len(ln.times))
		}
	})
}
