package api

import (
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

// Frame is one piece of a streamed log: bytes of a file from an offset, or an event (a new file). An
// empty frame only shows that the stream lives.
type Frame struct {
	Offset    int64  `json:",omitempty"`
	Data      []byte `json:",omitempty"`
	File      string `json:",omitempty"`
	FileEvent string `json:",omitempty"`
}

// headerHops marks a request that another agent passed on, which must not be passed on again.
const headerHops = "X-Berth-Passed-On"

// logRequest is what a request for logs says.
type logRequest struct {
	alloc, task, kind, origin string
	offset                    int64
	follow, plain             bool
}

// serveLogs streams a task's log: framed JSON as the dialect has it, or the bytes alone (plain). It is
// served by the agent that runs the allocation; any other passes the request on to that one.
func serveLogs(c *call) (any, error) {
	req, err := bindLogs(c)
	if err != nil {
		return nil, err
	}
	dir, err := c.h.Agent.LogFiles(req.alloc, req.task, req.kind)
	if structs.IsKind(err, structs.KindNotFound) && c.r.Header.Get(headerHops) == "" {
		return nil, c.passOn(req, err)
	}
	if err != nil {
		return nil, err
	}
	write, contentType := c.framed, "application/json"
	if req.plain {
		write, contentType = c.unframed, "text/plain; charset=utf-8"
	}
	c.w.Header().Set("Content-Type", contentType)
	c.w.Header().Set("X-Content-Type-Options", "nosniff")
	return nil, streamLog(c.ctx(), logfile.Options{
		Dir: dir, Task: req.task, Kind: req.kind, Origin: req.origin, Offset: req.offset, Follow: req.follow,
	}, write)
}

func (c *call) framed(f Frame) error { return json.NewEncoder(c).Encode(f) }

func (c *call) unframed(f Frame) error {
	_, err := c.Write(f.Data)
	return err
}

const (
	heartbeatEvery = 10 * time.Second // how often an idle stream shows that it lives
	frameSize      = 64 << 10
)

// streamLog writes a log frame by frame. A log of which there is nothing yet is an empty one.
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
	chunks, ended := make(chan []byte), make(chan error, 1)
	go func() {
		defer close(chunks)
		ended <- readChunks(ctx, log, chunks)
	}()
	err = writeChunks(o.Task+"."+o.Kind, chunks, write)
	cancel()
	readErr := <-ended // after it nobody reads, so that the log may be closed
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
	if err := write(Frame{}); err != nil { // the headers, for one who follows a log that is still empty
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

// Write lets a stream be written to its client piece by piece.
func (c *call) Write(p []byte) (int, error) {
	c.began = true
	n, err := c.w.Write(p)
	if err == nil {
		err = http.NewResponseController(c.w).Flush()
	}
	return n, err
}

func bindLogs(c *call) (req logRequest, err error) {
	req = logRequest{alloc: c.id(), task: c.param("task"), kind: c.param("type"), origin: c.param("origin")}
	if req.task == "" {
		return req, badParam("task", "", "the name of a task")
	}
	if req.kind != logfile.Stdout && req.kind != logfile.Stderr {
		return req, badParam("type", req.kind, "stdout or stderr")
	}
	if req.origin != "" && req.origin != logfile.FromStart && req.origin != logfile.FromEnd {
		return req, badParam("origin", req.origin, "start or end")
	}
	if req.offset, err = number[int64](c, "offset", 63); err != nil {
		return req, err
	}
	if req.follow, err = c.flag("follow"); err != nil {
		return req, err
	}
	req.plain, err = c.flag("plain")
	return req, err
}

// passOn finds the agent that runs the allocation and passes the request on to it, one hop.
func (c *call) passOn(req logRequest, notHere error) error {
	addr, err := c.agentOf(req.alloc)
	if err != nil {
		return err
	}
	if addr == "" {
		return notHere
	}
	c.passOnTo(addr)
	return nil
}

// passOnTo lets another agent answer the request.
func (c *call) passOnTo(addr string) {
	c.began = true
	c.r.Header.Set(headerHops, "1")
	ctx := context.WithValue(c.ctx(), proxyTarget{}, addr)
	c.h.proxy.ServeHTTP(c.w, c.r.WithContext(ctx))
}

// agentOf is the HTTP address of the agent that an allocation is on.
func (c *call) agentOf(allocID string) (string, error) {
	opts := structs.QueryOptions{
		Region:     c.param("region"),
		Namespace:  structs.AllNamespaces,
		AuthToken:  c.token(),
		AllowStale: true,
	}
	alloc, err := rpc.Call(c.ctx(), c.h.Caller, structs.AllocGet,
		&structs.AllocGetRequest{AllocID: allocID, QueryOptions: opts})
	if err != nil {
		return "", err
	}
	if alloc.Alloc.NodeID == "" {
		return "", nil
	}
	node, err := rpc.Call(c.ctx(), c.h.Caller, structs.NodeGet,
		&structs.NodeGetRequest{NodeID: alloc.Alloc.NodeID, QueryOptions: opts})
	if err != nil {
		return "", err
	}
	return node.Node.HTTPAddr, nil
}

type proxyTarget struct{}

// newProxy passes requests on to the agent that their context names.
func newProxy() http.Handler {
	return &httputil.ReverseProxy{
		FlushInterval: -1, // at once: a followed log is watched by a person
		Rewrite: func(r *httputil.ProxyRequest) {
			addr, _ := r.In.Context().Value(proxyTarget{}).(string)
			r.SetURL(&url.URL{Scheme: "http", Host: addr})
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			addr, _ := r.Context().Value(proxyTarget{}).(string)
			renderError(w, structs.Errorf(structs.KindUnavailable,
				"the node's agent at %s cannot be reached: %w", addr, netfault.Plain(err)))
		},
		Transport: &http.Transport{
			ResponseHeaderTimeout: 30 * time.Second,
			DisableKeepAlives:     true, // such requests are rare, and nobody would close idle connections
		},
	}
}

// LogOptions say which log, and from where. Offset counts bytes from the start or, with FromEnd, back
// from the end.
type LogOptions struct {
	Task    string
	Stderr  bool
	Follow  bool
	FromEnd bool
	Offset  int64
}

// AllocLogs streams a task's log as plain bytes; the caller closes it.
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
			"task": {o.Task}, "type": {kind}, "origin": {origin}, "plain": {"true"},
			"offset": {strconv.FormatInt(o.Offset, 10)}, "follow": {strconv.FormatBool(o.Follow)},
		},
	})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
