package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"berth/internal/logfile"
	"berth/internal/netfault"
	"berth/rpc"
	"berth/structs"
)

var allocLogs = route[[]byte](get, "/v1/client/fs/logs/{id}", serveLogs, streams)

// Frame is a part of a streamed log: bytes of a file from an offset, or an event (a new file). An empty frame
// shows that the stream is alive.
type Frame struct {
	Offset    int64  `json:",omitempty"`
	Data      []byte `json:",omitempty"`
	File      string `json:",omitempty"`
	FileEvent string `json:",omitempty"`
}

// headerHops marks a request that another agent has forwarded. It is not forwarded again.
const headerHops = "X-Berth-Passed-On"

// logRequest has the parameters of a request for logs.
type logRequest struct {
	alloc, task, kind, origin string
	offset                    int64
	follow, plain             bool
}

// serveLogs streams the log of a task, in JSON frames as the dialect or as bytes (plain). Only the agent that
// runs the allocation serves it. Another agent forwards the request.
func serveLogs(c *call) (any, error) {
	req, err := bindLogs(c)
	if err != nil {
		return nil, err
	}
	dir, err := c.h.Agent.LogFiles(req.alloc, req.task, req.kind)
	if structs.IsKind(err, structs.KindNotFound) && c.r.Header.Get(headerHops) == "" {
		return nil, c.proxyLogs(req, err)
	}
	if err != nil {
		return nil, err
	}
	write, contentType := c.writeFrame, "application/json"
	if req.plain {
		write, contentType = c.writeData, "text/plain; charset=utf-8"
	}
	c.w.Header().Set("Content-Type", contentType)
	c.w.Header().Set("X-Content-Type-Options", "nosniff")
	return nil, streamLog(c.ctx(), logfile.Options{
		Dir:    dir,
		Task:   req.task,
		Kind:   req.kind,
		Origin: req.origin,
		Offset: req.offset,
		Follow: req.follow,
	}, write)
}

func (c *call) writeFrame(f Frame) error { return json.NewEncoder(c).Encode(f) }

func (c *call) writeData(f Frame) error {
	_, err := c.Write(f.Data)
	return err
}

const (
	heartbeatEvery = 10 * time.Second // interval of empty frames in an idle stream
	frameSize      = 64 << 10
)

// streamLog writes a log frame by frame. A log without files is empty.
func streamLog(ctx context.Context, o logfile.Options, write func(Frame) error) error {
	ctx, cancel := context.WithCancel(ctx)
	log, err := logfile.Open(ctx, o)
	if err != nil {
		cancel()
		if structs.IsKind(err, structs.KindNotFound) {
			return write(Frame{})
		}
		return err
	}
	chunks := make(chan []byte)
	ended := make(chan error, 1)
	go func() {
		defer close(chunks)
		ended <- readChunks(ctx, log, chunks)
	}()
	err = writeChunks(o.Task+"."+o.Kind, chunks, write)
	cancel()
	readErr := <-ended // the reader has ended, so the log may be closed
	return errors.Join(err, readErr, log.Close())
}

func readChunks(ctx context.Context, log io.Reader, chunks chan<- []byte) error {
	for {
		buf := make([]byte, frameSize)
		n, err := log.Read(buf)
		if n > 0 {
			select {
			case chunks <- buf[:n]:
			case <-ctx.Done():
				return nil
			}
		}
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func writeChunks(name string, chunks <-chan []byte, write func(Frame) error) error {
	idle := time.NewTicker(heartbeatEvery)
	defer idle.Stop()
	frame := Frame{File: name}
	if err := write(Frame{}); err != nil { // sends the headers to a follower of an empty log
		return err
	}
	for {
		select {
		case data, more := <-chunks:
			if !more {
				return nil
			}
			frame.Data = data
			frame.Offset += int64(len(data))
			if err := write(frame); err != nil {
				return err
			}
			idle.Reset(heartbeatEvery)
		case <-idle.C:
			if err := write(Frame{}); err != nil {
				return err
			}
		}
	}
}

// Write sends bytes to the client at once.
func (c *call) Write(p []byte) (int, error) {
	c.began = true
	n, err := c.w.Write(p)
	if err == nil {
		err = http.NewResponseController(c.w).Flush()
	}
	return n, err
}

func bindLogs(c *call) (logRequest, error) {
	req := logRequest{alloc: c.id(), task: c.param("task"), kind: c.param("type"), origin: c.param("origin")}
	if req.task == "" {
		return req, badParam("task", "", "the name of a task")
	}
	if req.kind != logfile.Stdout && req.kind != logfile.Stderr {
		return req, badParam("type", req.kind, "stdout or stderr")
	}
	if req.origin != "" && req.origin != logfile.FromStart && req.origin != logfile.FromEnd {
		return req, badParam("origin", req.origin, "start or end")
	}
	var faults [3]error
	req.offset, faults[0] = number[int64](c, "offset", 63)
	req.follow, faults[1] = c.flag("follow")
	req.plain, faults[2] = c.flag("plain")
	return req, cmp.Or(faults[:]...)
}

// proxyLogs forwards the request to the agent that runs the allocation, over one hop.
func (c *call) proxyLogs(req logRequest, notHere error) error {
	addr, err := c.agentOf(req.alloc)
	if err != nil {
		return err
	}
	if addr == "" {
		return notHere
	}
	c.proxyTo(addr)
	return nil
}

// proxyTo forwards the request to another agent and returns its answer to the client.
func (c *call) proxyTo(addr string) {
	c.began = true
	c.r.Header.Set(headerHops, "1")
	ctx := context.WithValue(c.ctx(), proxyTarget{}, addr)
	c.h.proxy.ServeHTTP(c.w, c.r.WithContext(ctx))
}

// agentOf returns the HTTP address of the agent that runs an allocation, or "" if none does.
func (c *call) agentOf(allocID string) (string, error) {
	opts := structs.QueryOptions{
		Region:     c.param("region"),
		Namespace:  structs.AllNamespaces,
		AuthToken:  c.token(),
		AllowStale: true,
	}
	req := &structs.AllocGetRequest{AllocID: allocID, QueryOptions: opts}
	alloc, err := rpc.Call(c.ctx(), c.h.Caller, structs.AllocGet, req)
	if err != nil || alloc.Alloc.NodeID == "" {
		return "", err
	}
	return c.agentOfNode(alloc.Alloc.NodeID, opts)
}

// agentOfNode returns the HTTP address of a node's agent.
func (c *call) agentOfNode(nodeID string, opts structs.QueryOptions) (string, error) {
	req := &structs.NodeGetRequest{NodeID: nodeID, QueryOptions: opts}
	node, err := rpc.Call(c.ctx(), c.h.Caller, structs.NodeGet, req)
	if err != nil {
		return "", err
	}
	return node.Node.HTTPAddr, nil
}

type proxyTarget struct{}

// newProxy returns a handler that forwards requests to the agent that their context names.
func newProxy() http.Handler {
	return &httputil.ReverseProxy{
		FlushInterval: -1, // at once, because a person may follow the log
		Rewrite: func(r *httputil.ProxyRequest) {
			addr, _ := r.In.Context().Value(proxyTarget{}).(string)
			r.SetURL(&url.URL{Scheme: "http", Host: addr})
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			addr, _ := r.Context().Value(proxyTarget{}).(string)
			renderError(w, structs.Unavailablef(
				"the node's agent at %s cannot be reached: %w", addr, netfault.Plain(err)))
		},
		Transport: &http.Transport{
			ResponseHeaderTimeout: 30 * time.Second,
			DisableKeepAlives:     true, // such requests are rare, and the handler has no Close
		},
	}
}

// LogOptions select a log and a position in it. Offset counts bytes from the start, or back from the end with
// FromEnd.
type LogOptions struct {
	Task    string
	Stderr  bool
	Follow  bool
	FromEnd bool
	Offset  int64
}

// AllocLogs streams the log of a task as bytes. The caller closes the stream.
func (c *Client) AllocLogs(ctx context.Context, id string, o LogOptions) (io.ReadCloser, error) {
	kind, origin := "stdout", "start"
	if o.Stderr {
		kind = "stderr"
	}
	if o.FromEnd {
		origin = "end"
	}
	resp, err := allocLogs.open(ctx, c, request{
		id: id,
		query: url.Values{
			"task":   {o.Task},
			"type":   {kind},
			"origin": {origin},
			"plain":  {"true"},
			"offset": {strconv.FormatInt(o.Offset, 10)},
			"follow": {strconv.FormatBool(o.Follow)},
		},
	})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
