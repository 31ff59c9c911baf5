package api

import (
	"context"
	"strings"
	"time"

	"berth/internal/opsocket"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

// recheck is how often a request that lasts asks again whether its caller may go on.
const recheck = 2 * time.Second

// needs is the option of a route that the agent serves itself, and not by a method of the servers, which have
// rights of their own.
func needs(n access.Needs) func(*Route) {
	return func(r *Route) { r.Needs = n }
}

// authorize returns an error unless the caller has what a route needs. It ends a request that lasts when its
// caller has lost the right. stop ends the check. Root needs no token at its own agent.
func authorize(c *call, route Route) (stop func(), err error) {
	stop = func() {}
	asks := route.Needs != "" && route.Needs != access.NeedsNothing
	if !c.ACL || !asks || opsocket.Marked(c.ctx()) {
		return stop, nil
	}

	req := &access.CheckRequest{
		Needs:        route.Needs,
		QueryOptions: c.anyServer(),
	}
	req.Namespace = c.param("namespace")
	if strings.HasPrefix(route.Path, "/v1/client/") {
		req.AllocID = c.id()
		req.Task = c.param("task")
	}
	err = askRight(c.ctx(), c, req)
	if err != nil {
		return stop, err
	}

	ctx, cancel := context.WithCancelCause(c.ctx())
	c.r = c.r.WithContext(ctx)
	go rightWatch{c, req, cancel}.run(ctx)
	return func() { cancel(nil) }, nil
}

func askRight(ctx context.Context, c *call, req *access.CheckRequest) error {
	asked := *req
	_, err := rpc.Call(ctx, c.Caller, access.Check, &asked)
	return err
}

// rightWatch ends a request whose caller has lost its right.
type rightWatch struct {
	call   *call
	req    *access.CheckRequest
	cancel context.CancelCauseFunc
}

// run asks again until ctx ends. An answer that says nothing, as one without a leader, changes
// nothing.
func (w rightWatch) run(ctx context.Context) {
	again := time.NewTicker(recheck)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}

		err := askRight(ctx, w.call, w.req)
		if structs.IsKind(err, structs.KindDenied) {
			w.cancel(err)
			return
		}
	}
}
