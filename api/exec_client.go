package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"berth/internal/netfault"
	"berth/structs"
	"berth/structs/nodecalls"
)

// OpenExec starts a command in a running task of an allocation, "" for its only task or its leader. It
// returns when the node has taken the command. run passes the streams on and returns the exit code. It
// returns when the command has ended, or with ctx, whose end kills the command. A Read of Stdin that waits
// outlasts it.
func OpenExec(ctx context.Context, c *Client, id, task string, x *Exec) (
	run func(context.Context) (exitCode int, err error), err error,
) {
	// The servers check the same. This saves a connection.
	err = nodecalls.CheckExec(x.Command)
	if err != nil {
		return nil, err
	}

	command, err := json.Marshal(x.Command)
	if err != nil {
		return nil, structs.Internalf("encoding the command: %w", err)
	}

	query := url.Values{"command": {string(command)}}
	SetGiven(query, "task", task)
	return allocExec.route.OpenSession(ctx, c, Request{ID: id, Query: query}, x)
}

// OpenSession is OpenExec for any route with the websocket of a command.
func (r *Route) OpenSession(ctx context.Context, c *Client, req Request, x *Exec) (
	run func(context.Context) (exitCode int, err error), err error,
) {
	req.route = r
	req.Query.Set("tty", strconv.FormatBool(x.TTY))
	ws, err := c.dialExec(ctx, req)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (int, error) { return c.runExec(ctx, ws, x) }, nil
}

// runExec passes the streams of a command on until its end.
func (c *Client) runExec(ctx context.Context, ws *websocket.Conn, x *Exec) (exitCode int, err error) {
	defer func() { _ = ws.CloseNow() }()
	ctx, cancel := context.WithCancelCause(ctx)
	var sending sync.WaitGroup
	// The defers run from the last one: cancel ends the goroutines below, and Wait returns when they have.
	defer sending.Wait()
	defer cancel(nil)
	sending.Go(func() { _ = heartbeat(ctx, ws, nodecalls.ExecInput{}) }) // the reads fail, too
	sending.Go(func() { sendSizes(ctx, ws, x.Resize) })
	from := x.Stdin
	// Without input the command reads an end at once, and does not wait for it.
	if from == nil {
		from = strings.NewReader("")
	}

	// Nothing waits for this goroutine: a read of a terminal cannot be ended.
	go func() {
		if err := sendInput(ctx, ws, from); err != nil {
			cancel(structs.Unavailablef("reading the input of the command: %w", err))
		}
	}()

	exitCode, err = receive(ctx, ws, x)

	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}

	return exitCode, c.sessionError(err)
}

// dialExec opens the websocket of a command.
func (c *Client) dialExec(ctx context.Context, r Request) (*websocket.Conn, error) {
	if c.bad != nil {
		return nil, c.bad
	}

	header := http.Header{}
	if c.cfg.Token != "" {
		header.Set("X-Berth-Token", c.cfg.Token)
	}

	// The URL comes from the route, so it has the namespace and the region of the client.
	ws, resp, err := websocket.Dial(ctx, c.urlOf(r), &websocket.DialOptions{
		HTTPClient: c.http,
		HTTPHeader: header,
	})
	switch {
	case err != nil && resp != nil:
		return nil, errorOf(resp)
	case err != nil:
		return nil, c.agent.Explain(ctx, err)
	}

	ws.SetReadLimit(maxMessage)
	return ws, nil
}

// sendInput sends the input of the command and its end.
func sendInput(ctx context.Context, ws *websocket.Conn, from io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		// The command may have ended while the read waited.
		if ctx.Err() != nil {
			return nil
		}
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		in := nodecalls.ExecInput{Stdin: &nodecalls.ExecData{Data: buf[:n], Close: end}}
		err = writeMessage(ctx, ws, in)
		if err != nil || end {
			return nil // the reads fail, too
		}
	}
}

// sendSizes sends the sizes of the terminal.
func sendSizes(ctx context.Context, ws *websocket.Conn, sizes <-chan nodecalls.TerminalSize) {
	for {
		select {
		case size, more := <-sizes:
			if !more || writeMessage(ctx, ws, nodecalls.ExecInput{Size: &size}) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// receive passes the output of the command on, and returns its exit code.
func receive(ctx context.Context, ws *websocket.Conn, x *Exec) (int, error) {
	for {
		var out nodecalls.ExecOutput
		err := readMessage(ctx, ws, &out)
		switch {
		case err != nil:
		case out.Stdout != nil:
			_, err = x.Stdout.Write(out.Stdout.Data)
		case out.Stderr != nil:
			_, err = x.Stderr.Write(out.Stderr.Data)
		case out.Exited && out.Result != nil:
			// The agent waits for this close.
			_ = ws.Close(websocket.StatusNormalClosure, "")
			return out.Result.ExitCode, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// sessionError gives the end of a session without an exit code its kind. See closeWith.
func (c *Client) sessionError(err error) error {
	var closed websocket.CloseError
	isClosed := errors.As(err, &closed)
	switch {
	case err == nil || structs.KindOf(err) != structs.KindInternal:
		return err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return structs.Timeoutf("the command was cancelled: %w", err)
	case isClosed && closed.Code >= closeCodes:
		kind := structs.KindFromHTTP(int(closed.Code) - closeCodes)
		return &structs.Error{Kind: kind, Text: closed.Reason}
	case isClosed:
		return structs.Unavailablef("the agent at %s has ended the command: %s", c.cfg.Address, closed.Reason)
	}
	return structs.Unavailablef("the connection to the agent at %s was lost: %w",
		c.cfg.Address, netfault.Plain(err))
}
