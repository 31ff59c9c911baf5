package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/coder/websocket"

	"berth/structs"
	"berth/structs/access"
	"berth/structs/jobaction"
	"berth/structs/nodecalls"
)

// Exec is a command that runs in a task. It has the fields of driver.ExecConfig.
type Exec struct {
	Command []string // the program and its arguments
	TTY     bool     // the command has a terminal, and all output goes to Stdout
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Resize  <-chan nodecalls.TerminalSize // of the terminal; may be nil
}

// ExecFunc runs a command in a task and returns its exit code: 128 and the number of the signal if one ended
// it. The end of ctx kills the command.
type ExecFunc func(ctx context.Context, x *Exec) (exitCode int, err error)

// maxForwarded bounds the commands that an agent forwards at a time: each holds two connections.
const maxForwarded = 2 * structs.MaxExecs

// sessions has the routes of sessions in tasks.
var sessions Table

// SessionRoutes returns the routes of sessions in tasks.
func SessionRoutes() []*Route { return sessions.Routes() }

var allocExec = NewEndpoint[struct{}](&sessions, Get, "/v1/client/allocation/{id}/exec",
	serveExec, Streams, Needs(access.NeedsAllocExec))

// serveExec runs a command in a task over a websocket. It forwards the request to the agent of another node,
// over one hop. Every error that is known before the command starts is an answer as on other routes.
// A later one closes the websocket, see closeWith.
func serveExec(c *Call) (any, error) {
	x, err := bindExec(c)
	if err != nil {
		return nil, err
	}

	run, err := c.Agent.AllocExec(jobaction.Target{
		AllocID:   c.ID(),
		Task:      c.Param("task"),
		Action:    c.Param("action"),
		Namespace: c.Param("namespace"),
		JobID:     c.Param("job"),
		Group:     c.Param("group"),
	})
	// An agent that has got the request from another one does not forward it again.
	far := structs.IsKind(err, structs.KindNotFound) && c.Request.Header.Get(headerHops) == ""
	if err != nil && !far {
		return nil, err
	}

	// Sessions is counted before the check of the context: an agent that stops ends the context and then
	// waits, so it either waits for this session or this session sees the end.
	c.Sessions.Add(1)
	defer c.Sessions.Done()
	if c.Ctx().Err() != nil {
		return nil, structs.Unavailablef("the agent stops")
	}

	if far {
		select {
		case c.forwarded <- struct{}{}:
			defer func() { <-c.forwarded }()
		default:
			return nil, structs.Unavailablef("this agent forwards %d commands to other nodes, its most; "+
				"end one of them, or use the agent of the node (-address)", c.MaxForwarded)
		}

		c.Request.Header.Del("Origin") // it is checked, and the other agent has another name
		return nil, c.ProxyToAlloc(err)
	}

	return nil, c.serveSession(run, x)
}

// ServeExec serves a request as one for a command in an allocation, with its rights and its audit lines.
func ServeExec(c *Call, allocID string, q url.Values) (any, error) {
	c.Began = true
	c.Request.URL.Path = strings.Replace(allocExec.route.Path, "{id}", allocID, 1)
	c.Request.URL.RawPath = ""
	c.Request.URL.RawQuery = q.Encode()
	c.mux.ServeHTTP(c.Writer, c.Request)
	return nil, nil
}

// bindExec reads the command of a request. Everything that can be wrong is found before the connection is
// taken over: after that there is no status.
func bindExec(c *Call) (*Exec, error) {
	if !strings.EqualFold(c.Request.Header.Get("Upgrade"), "websocket") {
		return nil, structs.Invalidf("a command in a task is a websocket; expected the header Upgrade: websocket")
	}

	err := checkOrigin(c.Request)
	if err != nil {
		return nil, err
	}

	x := &Exec{}
	text := c.Param("command")
	if c.Param("action") == "" {
		err = json.Unmarshal([]byte(text), &x.Command)
		if err != nil {
			return nil, BadParam("command", text, `a list in JSON such as ["ls","-l"]`)
		}

		err = nodecalls.CheckExec(x.Command)
	} else if text != "" && text != "[]" && text != "null" {
		err = structs.Invalidf("an action has its own command; leave the parameter command out")
	}
	if err != nil {
		return nil, err
	}

	x.TTY, err = c.Flag("tty")
	return x, err
}

// checkOrigin rejects a web page of another origin: browsers let every page open websockets.
func checkOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || !strings.EqualFold(u.Host, r.Host) {
		return structs.Deniedf("a page of another origin may not run commands: %q",
			structs.Cut(origin, structs.MaxQuoted))
	}
	return nil
}

// serveSession takes the connection over and runs the command. net/http has nothing to do with the connection
// from then on. The errors go to the client by closeWith.
func (c *Call) serveSession(run ExecFunc, x *Exec) error {
	c.Began = true
	ws, err := websocket.Accept(c.Writer, c.Request, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // see checkOrigin
	})
	if err == nil {
		ws.SetReadLimit(maxMessage)
		s := &execSession{ws: ws}
		err = s.serve(c.Ctx(), run, x)
	}
	if err != nil {
		c.Logger.Debug("session failed", "path", c.Request.URL.Path, "error", err)
	}
	return nil
}
