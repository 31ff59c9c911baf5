package sandbox

import (
	"context"
	"errors"
	"net"
	"time"

	"berth/internal/backoff"
)

// acceptPace is the pause after an accept that fails: a machine may have no free file for a while.
var acceptPace = backoff.Backoff{
	Min: 5 * time.Millisecond,
	Max: time.Second,
}

// AcceptAll calls serve with each connection, in a goroutine of its own, until the listener is closed. An
// accept that fails otherwise is repeated after a pause, unless ctx has ended.
// Nobody waits for the goroutines of serve: the process of each caller ends with its task.
func AcceptAll(ctx context.Context, ln net.Listener, serve func(net.Conn)) {
	pace := acceptPace
	for {
		conn, err := ln.Accept()
		if err == nil {
			pace.Reset()
			go serve(conn)
			continue
		}
		if errors.Is(err, net.ErrClosed) || !pace.Wait(ctx) {
			return
		}
	}
}
