package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
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

var allocLogs = route[[]byte](get, "/v1/client/fs/logs/{id}",
	serveLogs, streams)

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

// serveLogs streams the log of a task as JSON frames, the format of the dialect, or as bytes (plain). Only
// the agent that runs the allocation serves it. Another agent forwards the request.
func serveLogs(c *call) (any, error) {
	o, plain, err := bindLogs(c)
	if err != nil {
		return nil, err
	}
	o.Dir, err = c.Agent.LogFiles(c.id(), o.Task, o.Kind)
	if structs.IsKind(err, structs.KindNotFound) &&
		c.r.Header.Get(headerHops) == "" {
		return nil, c.proxyToAlloc(err)
	}
	if err != nil {
		return nil, err
	}
	write, contentType := c.writeFrame, "application/json"
	if plain {
		write, contentType = c.writeData, "text/plain; charset=utf-8"
	}
	c.w.Header().Set("Content-Type", contentType)
	c.w.Header().Set("X-Content-Type-Options", "nosniff")
	return nil, streamLog(c.ctx(), o, write)
}

func (c *call) writeFrame(f Frame) error {
	return json.NewEncoder(c).Encode(f)
}

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

// bindLogs reads the options of a log except its directory. plain asks for bytes instead of frames.
func bindLogs(c *call) (o logfile.Options, plain bool, err error) {
	o.Task = c.param("task")
	o.Kind = c.param("type")
	o.Origin = c.param("origin")
	if o.Task == "" {
		return o, false, badParam("task", "", "the name of a task")
	}
	if o.Kind != logfile.Stdout && o.Kind != logfile.Stderr {
		return o, false, badParam("type", o.Kind, "stdout or stderr")
	}
	if o.Origin != "" &&
		o.Origin != logfile.FromStart &&
		o.Origin != logfile.FromEnd {
		return o, false, badParam("origin", o.Origin, "start or end")
	}
	var faults [3]error
	o.Offset, faults[0] = numberParam[int64](c, "offset", 63)
	o.Follow, faults[1] = c.flag("follow")
	plain, faults[2] = c.flag("plain")
	return o, plain, cmp.Or(faults[:]...)
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
	proxy.ServeHTTP(c.w, c.r)
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
func (c *Client) AllocLogs(ctx context.Context, id string, o LogOptions) (
	io.ReadCloser, error,
) {
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
