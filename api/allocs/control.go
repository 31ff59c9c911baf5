package allocs

import (
	"context"
	"net/http"
	"net/url"

	"berth/api"
	"berth/structs"
	"berth/structs/access"
)

var allocRestart = api.NewEndpoint[struct{}](&table, api.Put, "/v1/client/allocation/{id}/restart",
	func(c *api.Call) (any, error) {
		var req api.AllocRestartRequest
		err := c.DecodeOptionalBody(&req)
		if err == nil && req.AllTasks && req.TaskName != "" {
			err = structs.Invalidf("AllTasks and TaskName exclude each other")
		}
		if err != nil {
			return nil, err
		}
		return c.OnNode(req, func() error {
			return c.Agent.AllocRestart(c.ID(), req)
		})
	}, api.Needs(access.NeedsLifecycle))

// Restart restarts tasks of an allocation. The restarts do not count for the restart policy. It does not
// wait for them.
func Restart(ctx context.Context, c *api.Client, id string, req api.AllocRestartRequest) error {
	return allocRestart.Exec(ctx, c, api.Request{ID: id, Body: req})
}

var allocSignal = api.NewEndpoint[struct{}](&table, api.Put, "/v1/client/allocation/{id}/signal",
	func(c *api.Call) (any, error) {
		var req api.AllocSignalRequest
		err := c.DecodeBody(&req)
		if err == nil {
			_, err = structs.ParseSignal(req.Signal)
		}
		if err != nil {
			return nil, err
		}
		return c.OnNode(req, func() error {
			return c.Agent.AllocSignal(c.Ctx(), c.ID(), req)
		})
	}, api.Needs(access.NeedsLifecycle))

// Signal sends a signal to tasks of an allocation.
func Signal(ctx context.Context, c *api.Client, id string, req api.AllocSignalRequest) error {
	return allocSignal.Exec(ctx, c, api.Request{ID: id, Body: req})
}

var (
	allocGC = api.NewEndpoint[struct{}](&table, api.Put, "/v1/client/allocation/{id}/gc", serveAllocGC,
		api.Needs(access.NeedsLifecycle))
	// The dialect's clients remove an allocation with a GET.
	_ = table.Handle(api.Get, "/v1/client/allocation/{id}/gc", serveAllocGC, api.Needs(access.NeedsLifecycle))
)

func serveAllocGC(c *api.Call) (any, error) {
	err := c.CheckWriter()
	if err != nil {
		return nil, err
	}
	return c.OnNode(nil, func() error {
		return c.Agent.AllocGC(c.Ctx(), c.ID())
	})
}

// GC removes the directory of an allocation that has ended from its node.
func GC(ctx context.Context, c *api.Client, id string) error {
	return allocGC.Exec(ctx, c, api.Request{ID: id})
}

var (
	nodeGC = api.NewEndpoint[NodeGC](&table, api.Put, "/v1/client/gc", serveNodeGC, api.Needs(access.NeedsNodeWrite))
	// The dialect's clients collect garbage with a GET.
	_ = table.Handle(api.Get, "/v1/client/gc", serveNodeGCAsGet, api.Needs(access.NeedsNodeWrite))
)

// NodeGC is the outcome of the removal of the directories of ended allocations.
type NodeGC struct{ Removed int }

func serveNodeGC(c *api.Call) (any, error) {
	err := c.CheckWriter()
	if err != nil {
		return nil, err
	}
	id := c.Param("node_id")
	removed, err := c.Agent.NodeGC(c.Ctx(), id)
	if err != nil {
		return nil, c.ForwardToNode(id, err)
	}
	return NodeGC{removed}, nil
}

// serveNodeGCAsGet answers with an empty body: the dialect's clients reject any other here.
func serveNodeGCAsGet(c *api.Call) (any, error) {
	answer, err := serveNodeGC(c)
	if err != nil || answer == nil {
		return nil, err
	}
	c.Began = true
	c.Writer.Header().Set("Content-Length", "0")
	c.Writer.WriteHeader(http.StatusOK)
	return nil, nil
}

// GCNode removes the directories of all allocations that have ended on a node, and returns their number. The
// id "" is the node of the called agent.
func GCNode(ctx context.Context, c *api.Client, id string) (int, error) {
	query := url.Values{}
	api.SetGiven(query, "node_id", id)
	out, err := nodeGC.Send(ctx, c, api.Request{Query: query})
	return out.Removed, err
}
