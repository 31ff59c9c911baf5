package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"berth/internal/netfault"
	"berth/rpc"
	"berth/structs"
)

// headerHops marks a request that another agent has forwarded. It is not forwarded again. Two agents that
// take each other for the right one must not forward in a loop.
const headerHops = HeaderPassedOn

// The values of headerHops. A request that passed only because access control is off is marked: the next
// agent decides by its own configuration whether it is open for that.
const (
	hop       = "1"
	hopOfOpen = "open"
)

// forwardIfFar forwards a request to the agent of the allocation's node if err says that the allocation is
// not here (not-found) and no other agent has forwarded the request. Otherwise it returns err. The agent asks
// itself first, which costs no call.
func (c *Call) ForwardIfFar(err error) error {
	if structs.IsKind(err, structs.KindNotFound) &&
		c.Request.Header.Get(headerHops) == "" {
		return c.ProxyToAlloc(err)
	}
	return err
}

// proxyToAlloc forwards the request to the agent that runs the allocation, over one hop. It returns notHere
// if no agent does.
func (c *Call) ProxyToAlloc(notHere error) error {
	req := &structs.AllocGetRequest{
		AllocID:      c.ID(),
		QueryOptions: anyServer(c),
	}
	req.AuthToken = "" // the right of the route is enough
	alloc, err := rpc.Call(c.Ctx(), c.Own, structs.AllocGet, req)
	if err != nil {
		return err
	}

	if alloc.Alloc.NodeID == "" {
		return notHere
	}
	look := structs.CommandLine(alloc.Alloc.Namespace, "alloc status", structs.ShortID(alloc.Alloc.ID))
	return c.proxyToNode(alloc.Alloc.NodeID, look)
}

// ForwardToNode forwards a request for a node to its agent, over one hop, if err says that the node is not
// here (not-found) and the request names one. Otherwise it returns err.
func (c *Call) ForwardToNode(nodeID string, err error) error {
	if nodeID == "" ||
		!structs.IsKind(err, structs.KindNotFound) ||
		c.Request.Header.Get(headerHops) != "" {
		return err
	}
	return c.proxyToNode(nodeID, structs.CommandLine("", "node status", structs.ShortID(nodeID)))
}

// ForwardToServer forwards the request to the agent of a server, over one hop.
func ForwardToServer(c *Call, name, httpAddr string) error {
	if c.Request.Header.Get(headerHops) != "" || httpAddr == "" {
		return structs.NotFoundf("server %s is not at this agent, and has no other HTTP address", name)
	}
	c.proxyTo(&structs.Node{Name: name, HTTPAddr: httpAddr}, "server members")
	return nil
}

// proxyToNode forwards the request to the agent of a node. The command look shows whether it has taken
// effect.
func (c *Call) proxyToNode(nodeID, look string) error {
	req := &structs.NodeGetRequest{
		NodeID:       nodeID,
		QueryOptions: anyServer(c),
	}
	req.AuthToken = ""
	resp, err := rpc.Call(c.Ctx(), c.Own, structs.NodeGet, req)
	if err != nil {
		return err
	}

	n := &resp.Node.Node
	if n.HTTPAddr == "" {
		return structs.Preconditionf("the agent of node %s (%s) has no HTTP address; "+
			"set advertise { http } in its configuration", n.Name, n.ID)
	}
	c.proxyTo(n, look)
	return nil
}

// anyServer returns the options of a read that any server may answer. Stale reads serve: the node of an
// allocation does not change.
func anyServer(c *Call) structs.QueryOptions {
	return structs.QueryOptions{
		Region:     c.Param("region"),
		Namespace:  structs.AllNamespaces,
		AuthToken:  c.Token(),
		AllowStale: true,
	}
}

// rejectOthers rejects an answer by which a server of TLS rejects plain text. The errors of an agent have a
// kind.
func rejectOthers(resp *http.Response) error {
	resp.Header.Del(HeaderRequestID) // the answer of this agent has it
	if resp.StatusCode == http.StatusBadRequest && resp.Header.Get(HeaderErrorKind) == "" {
		return errNoAgent
	}
	return nil
}

// unreachable is the error of a request for a node whose agent does not answer.
const unreachable = "%s: its agent cannot be reached at its HTTP address %s: %w; see that its agent runs, " +
	"and that this agent can connect to that port; if others reach it elsewhere, " +
	"set advertise { http } in its configuration"

// unanswered is the error of a request that the agent of a node may have got.
const unanswered = "%s: its agent did not answer at its HTTP address %s: %w; " +
	"the request may have taken effect; before you repeat it, look at: %s"

// forwardFault classifies the fault of a forwarded request. Without a connection to an agent nothing was
// done. Else the outcome is unknown: a client that repeats the request may restart or signal a task twice.
func forwardFault(n *structs.Node, look string, err error) error {
	// Only a dial that failed is proof that nothing was sent.
	var op *net.OpError
	if errors.Is(err, errNoAgent) || errors.As(err, &op) && op.Op == "dial" {
		return structs.Unavailablef(unreachable, agentOf(n), n.HTTPAddr, netfault.Plain(err))
	}
	return structs.Timeoutf(unanswered, agentOf(n), n.HTTPAddr, netfault.Plain(err), look)
}

// agentOf names the node or server of a forwarded request. A server has no ID here.
func agentOf(n *structs.Node) string {
	if n.ID == "" {
		return "server " + n.Name
	}
	return fmt.Sprintf("node %s (%s, status %s)", n.Name, n.ID, n.Status)
}

// proxyTo forwards the request to the agent of a node and returns its answer to the client.
func (c *Call) proxyTo(n *structs.Node, look string) {
	// From here on the proxy writes the answer, also after an error.
	c.Began = true
	passes := hop
	if IsOpen(c) {
		passes = hopOfOpen
	}
	c.Request.Header.Set(HeaderStreamCaller, string(streamCaller(c)))
	c.Request.Header.Set(headerHops, passes)
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1, // at once, because a user may follow the log
		// The connection is checked against the certificate of that node.
		Transport: NodeTransport(c.Connect, n.ID),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{
				Scheme: "http",
				Host:   n.HTTPAddr,
			})
			if c.HidesTokens {
				for _, name := range tokenHeaders {
					r.Out.Header.Del(name)
				}
			}
		},
		ModifyResponse: rejectOthers,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			renderError(w, forwardFault(n, look, err))
		},
	}
	// The deadline of the last write must not end the next request of the connection.
	defer func() { _ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Time{}) }()
	defer tellCut(c)

	proxy.ServeHTTP(stallWriter{c.Writer, c.StreamStall}, c.Request)
}

// tellCut tells the reader of plain bytes that they were cut because its right has ended. The proxy breaks
// off an answer that is cut.
func tellCut(c *Call) {
	fault := recover()
	lost := LostRight(c.Ctx())
	plain, _ := c.Flag("plain")
	switch {
	case fault == nil:
	case lost != nil && plain:
		tellEnd(c.Writer, lost)
	default:
		panic(fault)
	}
}

// checkWriter rejects a page of another origin. The handler checks the methods that write; this is for a GET
// that writes.
func (c *Call) CheckWriter() error {
	write := c.Request.Clone(c.Ctx())
	write.Method = http.MethodPut
	err := c.origin.Check(write)
	if err != nil {
		return structs.Deniedf("a page of another origin may not change anything here: %w", err)
	}
	return nil
}

// onNode acts on an allocation of this agent's node. It forwards the request to the agent of another node,
// over one hop. body is the request's body, which has been read, or nil.
func (c *Call) OnNode(body any, act func() error) (any, error) {
	err := act()
	if !structs.IsKind(err, structs.KindNotFound) || c.Request.Header.Get(headerHops) != "" {
		return struct{}{}, err
	}
	if body != nil {
		encodeErr := Resend(c, body)
		if encodeErr != nil {
			return nil, encodeErr
		}
	}
	return nil, c.ProxyToAlloc(err)
}

// Resend sets the body of a request, which has been read, before it is forwarded.
func Resend(c *Call, body any) error {
	text, err := json.Marshal(body)
	c.Request.Body = io.NopCloser(bytes.NewReader(text))
	c.Request.ContentLength = int64(len(text))
	c.Request.TransferEncoding = nil
	return err
}
