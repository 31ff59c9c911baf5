package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"berth/structs"
	"berth/structs/access"
)

// AllocRestartRequest names the tasks of an allocation to restart: the one with the name, all with AllTasks,
// else the running ones. The dialect defines the keys.
type AllocRestartRequest struct {
	TaskName string
	AllTasks bool // also the ended ones, in the order of their lifecycles
}

// AllocSignalRequest names a signal and a task, "" for all that run. The dialect defines the keys.
type AllocSignalRequest struct {
	Task   string
	Signal string // for example SIGHUP or HUP
}

var allocRestart = NewEndpoint[struct{}](Put, "/v1/client/allocation/{id}/restart",
	func(c *Call) (any, error) {
		var req AllocRestartRequest
		err := c.DecodeOptionalBody(&req)
		if err == nil && req.AllTasks && req.TaskName != "" {
			err = structs.Invalidf("AllTasks and TaskName exclude each other")
		}
		if err != nil {
			return nil, err
		}
		return c.onNode(req, func() error {
			return c.Agent.AllocRestart(c.ID(), req)
		})
	}, Needs(access.NeedsLifecycle))

// AllocRestart restarts tasks of an allocation. The restarts do not count for the restart policy. It does not
// wait for them.
func (c *Client) AllocRestart(ctx context.Context, id string, req AllocRestartRequest) error {
	return allocRestart.route.exec(ctx, c, Request{ID: id, Body: req})
}

var allocSignal = NewEndpoint[struct{}](Put, "/v1/client/allocation/{id}/signal",
	func(c *Call) (any, error) {
		var req AllocSignalRequest
		err := c.DecodeBody(&req)
		if err == nil {
			_, err = structs.ParseSignal(req.Signal)
		}
		if err != nil {
			return nil, err
		}
		return c.onNode(req, func() error {
			return c.Agent.AllocSignal(c.Ctx(), c.ID(), req)
		})
	}, Needs(access.NeedsLifecycle))

// AllocSignal sends a signal to tasks of an allocation.
func (c *Client) AllocSignal(ctx context.Context, id string, req AllocSignalRequest) error {
	return allocSignal.route.exec(ctx, c, Request{ID: id, Body: req})
}

var (
	allocGC = NewEndpoint[struct{}](Put, "/v1/client/allocation/{id}/gc", serveAllocGC,
		Needs(access.NeedsLifecycle))
	// The dialect's clients remove an allocation with a GET.
	_ = Handle(Get, "/v1/client/allocation/{id}/gc", serveAllocGC, Needs(access.NeedsLifecycle))
)

// checkWriter rejects a page of another origin. The handler checks the methods that write; this is for a GET
// that writes.
func (c *Call) checkWriter() error {
	write := c.r.Clone(c.Ctx())
	write.Method = http.MethodPut
	err := c.origin.Check(write)
	if err != nil {
		return structs.Deniedf("a page of another origin may not change anything here: %w", err)
	}
	return nil
}

func serveAllocGC(c *Call) (any, error) {
	err := c.checkWriter()
	if err != nil {
		return nil, err
	}
	return c.onNode(nil, func() error {
		return c.Agent.AllocGC(c.Ctx(), c.ID())
	})
}

// AllocGC removes the directory of an allocation that has ended from its node.
func (c *Client) AllocGC(ctx context.Context, id string) error {
	return allocGC.route.exec(ctx, c, Request{ID: id})
}

var (
	nodeGC = NewEndpoint[NodeGC](Put, "/v1/client/gc", serveNodeGC, Needs(access.NeedsNodeWrite))
	// The dialect's clients collect garbage with a GET.
	_ = Handle(Get, "/v1/client/gc", serveNodeGCAsGet, Needs(access.NeedsNodeWrite))
)

// NodeGC is the outcome of the removal of the directories of ended allocations.
type NodeGC struct{ Removed int }

func serveNodeGC(c *Call) (any, error) {
	err := c.checkWriter()
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
func serveNodeGCAsGet(c *Call) (any, error) {
	answer, err := serveNodeGC(c)
	if err != nil || answer == nil {
		return nil, err
	}
	c.began = true
	c.w.Header().Set("Content-Length", "0")
	c.w.WriteHeader(http.StatusOK)
	return nil, nil
}

// NodeGC removes the directories of all allocations that have ended on a node, and returns their number. The
// id "" is the node of the called agent.
func (c *Client) NodeGC(ctx context.Context, id string) (int, error) {
	query := url.Values{}
	setGiven(query, "node_id", id)
	out, err := nodeGC.Send(ctx, c, Request{Query: query})
	return out.Removed, err
}

// onNode acts on an allocation of this agent's node. It forwards the request to the agent of another node,
// over one hop. body is the request's body, which has been read, or nil.
func (c *Call) onNode(body any, act func() error) (any, error) {
	err := act()
	if !structs.IsKind(err, structs.KindNotFound) || c.r.Header.Get(headerHops) != "" {
		return struct{}{}, err
	}
	if body != nil {
		encodeErr := Resend(c, body)
		if encodeErr != nil {
			return nil, encodeErr
		}
	}
	return nil, c.proxyToAlloc(err)
}

// Resend sets the body of a request, which has been read, before it is forwarded.
func Resend(c *Call, body any) error {
	text, err := json.Marshal(body)
	c.r.Body = io.NopCloser(bytes.NewReader(text))
	c.r.ContentLength = int64(len(text))
	c.r.TransferEncoding = nil
	return err
}
