package operator

import (
	"context"

	"berth/api"
	"berth/structs/cluster"
)

var clockGet = api.NewEndpoint(&table, api.Get, "/v1/operator/clock",
	api.ServeMethod(cluster.ClockGet, nil, wholeClock))

func wholeClock(a *cluster.ClockResponse) *cluster.ClockResponse { return a }

// ListClocks reads the cluster time and the clocks of the servers, as the leader sees them.
func ListClocks(ctx context.Context, c *api.Client, q *api.Query) (*cluster.ClockResponse, *api.Meta, error) {
	return clockGet.Fetch(ctx, c, "", q)
}

var clockAccept = api.NewEndpoint(&table, api.Put, "/v1/operator/clock/accept",
	api.ServeMethod(cluster.ClockAccept, nil, api.Whole))

// AcceptClock sets the cluster time to the leader's wall clock.
func AcceptClock(ctx context.Context, c *api.Client) error {
	return clockAccept.Exec(ctx, c, api.Request{})
}
