package client

import (
	"context"
	"time"

	"berth/internal/backoff"
)

// serverRetry paces attempts to reach the servers. leaseRetry paces those on which the lease depends. Their
// pauses are shorter, because a lease ends within seconds.
var (
	serverRetry = backoff.Backoff{
		Min: 250 * time.Millisecond,
		Max: 10 * time.Second,
	}
	leaseRetry = backoff.Backoff{
		Min: 100 * time.Millisecond,
		Max: 2 * time.Second,
	}
)

// retry calls attempt until it succeeds. It logs each failure as msg and pauses after it. A heartbeat that
// reaches the servers again ends the pause, and the attempt in flight (see backoff.Attempt). A pause that the
// servers have asked for does not end early. It reports false if ctx ended first.
func (c *Client) retry(ctx context.Context, msg string, attempt func(context.Context) error) bool {
	pause := serverRetry
	for {
		back := c.serversBack.Next() // before the attempt: they may come back during it
		err := backoff.Attempt(ctx, back, attempt)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		wait := pause.After(err)
		c.logger.Warn(msg, "retry_in", wait, "error", err)
		if !pause.SleepAfter(ctx, wait, err, back) {
			return false
		}
	}
}
