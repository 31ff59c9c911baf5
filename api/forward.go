package api

import (
	"cmp"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"berth/internal/netfault"
	"berth/rpc"
	"berth/structs"
)

// headerHops marks a request that another agent has forwarded. It is not forwarded again.
const headerHops = "X-Berth-Passed-On"

// forwardIfFar forwards a request to the agent of the allocation's node if err says that the allocation is
// not here (not-found) and no other agent has forwarded the request. Otherwise it returns err.
func (c *call) forwardIfFar(err error) error {
	if structs.IsKind(err, structs.KindNotFound) &&
		c.r.Header.Get(headerHops) == "" {
		return c.proxyToAlloc(err)
	}
	return err
}

// proxyToAlloc forwards the request to the agent that runs the allocation, over one hop. It returns notHere
// if no agent does.
func (c *call) proxyToAlloc(notHere error) error {
	req := &structs.AllocGetRequest{
		AllocID:      c.id(),
		QueryOptions: c.anyServer(),
	}
	alloc, err := rpc.Call(c.ctx(), c.Caller, structs.AllocGet, req)
	if err != nil {
		return err
	}
	if alloc.Alloc.NodeID == "" {
		return notHere
	}
	addr, err := c.agentOfNode(alloc.Alloc.NodeID)
	if err != nil || addr == "" {
		return cmp.Or(err, notHere)
	}
	c.proxyTo(addr)
	return nil
}

// agentOfNode returns the HTTP address of a node's agent.
func (c *call) agentOfNode(nodeID string) (string, error) {
	req := &structs.NodeGetRequest{
		NodeID:       nodeID,
		QueryOptions: c.anyServer(),
	}
	node, err := rpc.Call(c.ctx(), c.Caller, structs.NodeGet, req)
	if err != nil {
		return "", err
	}
	return node.Node.HTTPAddr, nil
}

// anyServer returns the options of a read that any server may answer.
func (c *call) anyServer() structs.QueryOptions {
	return structs.QueryOptions{
		Region:     c.param("region"),
		Namespace:  structs.AllNamespaces,
		AuthToken:  c.token(),
		AllowStale: true,
	}
}

// proxyTransport carries the requests to other agents.
var proxyTransport = &http.Transport{
	DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext, // the machine may be off
	ResponseHeaderTimeout: 30 * time.Second,
	DisableKeepAlives:     true, // such requests are rare, and the handler has no Close
}

// proxyTo forwards the request to another agent and returns its answer to the client.
func (c *call) proxyTo(addr string) {
	c.began = true
	c.r.Header.Set(headerHops, "1")
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1, // at once, because a user may follow the log
		Transport:     proxyTransport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{
				Scheme: "http",
				Host:   addr,
			})
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			err = structs.Unavailablef("the node's agent at %s cannot be reached: %w",
				addr, netfault.Plain(err))
			renderError(w, err)
		},
	}
	defer func() { _ = http.NewResponseController(c.w).SetWriteDeadline(time.Time{}) }()
	proxy.ServeHTTP(stallWriter{c.w, c.StreamStall}, c.r)
}
