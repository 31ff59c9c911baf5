package api

import (
	"context"

	"berth/structs/cluster"
)

var clockGet = NewEndpoint(Get, "/v1/operator/clock", ServeMethod(cluster.ClockGet, nil, wholeClock))

func wholeClock(a *cluster.ClockResponse) *cluster.ClockResponse { return a }

// Clocks reads the cluster time and the clocks of the servers, as the leader sees them.
func (c *Client) Clocks(ctx context.Context, q *Query) (*cluster.ClockResponse, *Meta, error) {
	return clockGet.Fetch(ctx, c, "", q)
}

var clockAccept = NewEndpoint(Put, "/v1/operator/clock/accept", ServeMethod(cluster.ClockAccept, nil, Whole))

// AcceptClock sets the cluster time to the leader's wall clock.
func (c *Client) AcceptClock(ctx context.Context) error {
	return clockAccept.route.exec(ctx, c, Request{})
}
