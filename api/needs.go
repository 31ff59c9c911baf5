package api

import (
	"context"
	"strings"

	"berth/internal/opsocket"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

// Needs is the option of a route that the agent serves itself, and not by a method of the servers, which have
// rights of their own.
func Needs(n access.Needs) func(*Route) {
	return func(r *Route) { r.Needs = n }
}

// authorize returns an error unless the caller has what a route needs. It ends a request that lasts when its
// caller has lost the right. stop ends the check. rootCaller needs no token at its own agent, and a server
// that forwards a request has asked and asks again.
//
// Each agent asks, whatever its own configuration says: the servers know whether requests need tokens. While
// an agent reaches no server, their last answer counts if it was that access control is off, also over a
// restart. Before the first answer an agent without certificates of a cluster, and without the block acl,
// lets requests pass: an operator looks at an agent and at logs when the servers are down. Otherwise the
// agent denies.
func authorize(c *Call, route Route) (stop func(), err error) {
	stop = func() {}
	asks := route.Needs != "" && route.Needs != access.NeedsNothing
	if !asks || opsocket.Marked(c.Ctx()) || isFromServer(c.Request) {
		return stop, nil
	}

	req := &access.CheckRequest{
		Needs:        route.Needs,
		QueryOptions: anyServer(c),
	}
	req.Namespace = c.Param("namespace")
	if strings.HasPrefix(route.Path, "/v1/client/") {
		req.AllocID = c.ID()
		req.Task = c.Param("task")
	}
	answer, err := askRight(c.Ctx(), c, *req)
	if err != nil {
		return stop, err
	}
	c.caller = answer.Caller
	if answer.Open {
		return stop, nil
	}

	// The first answer may be one of a moment ago. A server that is cut off would give it for ever.
	req.AllowStale = false
	ctx, cancel := context.WithCancelCause(c.Ctx())
	c.Request = c.Request.WithContext(ctx)
	ask := func(ctx context.Context) error {
		_, err := askRight(ctx, c, *req)
		return err
	}
	go watchRight(ctx, ask, cancel)
	return func() { cancel(nil) }, nil
}

// IsOpen reports whether the request passes only because access control is off: its caller is not root at
// this agent or at the server that has forwarded it, and has no token.
func IsOpen(c *Call) bool {
	if isFromServer(c.Request) {
		return c.Request.Header.Get(headerHops) == hopOfOpen
	}
	return c.wasOpen.Load() && !opsocket.Marked(c.Ctx())
}

// askRight asks a server whether the caller may.
func askRight(ctx context.Context, c *Call, req access.CheckRequest) (*access.CheckResponse, error) {
	answer, err := rpc.Call(ctx, c.Caller, access.Check, &req)
	if err == nil && answer.Open && req.AllowStale && !c.wasOpen.confirmed.Load() {
		// A server that has just joined lacks the mode of the cluster, and so it would let everybody pass.
		req.AllowStale = false
		answer, err = rpc.Call(ctx, c.Caller, access.Check, &req)
	}
	if notYet := structs.IsKind(err, structs.KindPrecondition); notYet && !c.ACL {
		// A server of the cluster is older than access control, so there are no tokens.
		return &access.CheckResponse{Open: true}, nil
	}

	if structs.IsKind(err, structs.KindUnavailable) && c.wasOpen.Load() {
		return &access.CheckResponse{Open: true}, nil
	}
	switch {
	case err == nil:
		c.wasOpen.note(answer.Open)
	case structs.IsKind(err, structs.KindDenied):
		c.wasOpen.note(false)
	}
	return answer, err
}
