package api

import (
	"context"
	"strings"
	"time"

	"berth/internal/opsocket"
	"berth/internal/pki"
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

// unconfirmed is how long a request lasts while no server answers whether its caller may go on.
const unconfirmed = 30 * time.Second

// authorize returns an error unless the caller has what a route needs. It ends a request that lasts when its
// caller has lost the right. stop ends the check. Root needs no token at its own agent, and a server that
// forwards a request has asked and asks again.
//
// Each agent asks, whatever its own configuration says: the servers know whether requests need tokens. An agent
// that reaches no server denies.
func authorize(c *call, route Route) (stop func(), err error) {
	stop = func() {}
	asks := route.Needs != "" && route.Needs != access.NeedsNothing
	if !asks || opsocket.Marked(c.ctx()) || c.fromServer() {
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
	open, err := askRight(c.ctx(), c, *req)
	if err != nil || open {
		return stop, err
	}

	// The first answer may be one of a moment ago. A server that is cut off would give it for ever.
	req.AllowStale = false
	ctx, cancel := context.WithCancelCause(c.ctx())
	c.r = c.r.WithContext(ctx)
	go rightWatch{c, req, cancel}.run(ctx)
	return func() { cancel(nil) }, nil
}

// askRight asks a server whether the caller may. open says that the servers let every request pass.
func askRight(ctx context.Context, c *call, req access.CheckRequest) (open bool, err error) {
	answer, err := rpc.Call(ctx, c.Caller, access.Check, &req)
	if notYet := structs.IsKind(err, structs.KindPrecondition); notYet && !c.ACL {
		return true, nil // a server of the cluster is older than access control, so there are no tokens
	}
	return err == nil && answer.Open, err
}

// fromServer reports whether a server has forwarded the request: its certificate proves it.
func (c *call) fromServer() bool {
	if c.r.Header.Get(headerHops) == "" || c.r.TLS == nil || len(c.r.TLS.PeerCertificates) == 0 {
		return false
	}
	id, err := pki.IdentityOf(c.r.TLS.PeerCertificates[0])
	return err == nil && id.Role == pki.RoleServer
}

// rightWatch ends a request whose caller has lost its right.
type rightWatch struct {
	call   *call
	req    *access.CheckRequest
	cancel context.CancelCauseFunc
}

// run asks again until ctx ends. An answer that says nothing, as one without a leader, changes nothing for a
// while.
func (w rightWatch) run(ctx context.Context) {
	again := time.NewTicker(recheck)
	defer again.Stop()
	confirmed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}

		asking, cancel := context.WithDeadline(ctx, confirmed.Add(unconfirmed))
		_, err := askRight(asking, w.call, *w.req)
		cancel()
		switch {
		case err == nil:
			confirmed = time.Now()
		case structs.IsKind(err, structs.KindDenied):
			w.cancel(err)
			return
		case time.Since(confirmed) >= unconfirmed:
			w.cancel(structs.Unavailablef("no server has confirmed the right of the caller for %s: %w",
				unconfirmed, err))
			return
		}
	}
}
