package agent

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"berth/internal/backoff"
	"berth/structs"
)

const (
	// addressPatience bounds the wait for an address in use. An agent that was killed may leave a child
	// between fork and exec, which holds copies of its sockets until it runs exec.
	addressPatience = 2 * time.Second
	addressInterval = 20 * time.Millisecond
)

// listenHTTP listens on a TCP address. It waits at most patience for an address in use.
func listenHTTP(network net.ListenConfig, addr string, patience time.Duration) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		// The context of the wait does not bound the call, which needs none: it resolves no name.
		ln, err := network.Listen(context.Background(), "tcp", addr)
		if err == nil {
			return ln, nil
		}

		// Any other error, such as an address that the machine does not have, is not one that passes.
		inUse := errors.Is(err, syscall.EADDRINUSE)
		if !inUse || !backoff.Sleep(ctx, addressInterval) {
			return nil, structs.Internalf("listening for HTTP: %w", err)
		}
	}
}
