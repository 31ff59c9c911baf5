package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/structs"
	"berth/structs/nodecalls"
)

// runsCommands lets the server's agent run a function as each command in the task web of the allocation here.
func runsCommands(s *server, run api.ExecFunc) {
	s.agent.Exec = func(allocID, task string) (api.ExecFunc, error) {
		switch {
		case allocID != "here":
			return nil, structs.NotFoundf("allocation %s is not here", allocID)
		case task != "" && task != "web":
			return nil, structs.Invalidf("no task %q; expected one of: web", task)
		}
		return run, nil
	}
}

// echo is a command that repeats its input, and tells its arguments before and the size of its terminal after
// it.
func echo(ctx context.Context, x *api.Exec) (int, error) {
	_, _ = io.WriteString(x.Stderr, strings.Join(x.Command, ","))
	_, err := io.Copy(x.Stdout, x.Stdin)
	if x.TTY {
		select {
		case size := <-x.Resize:
			_, _ = io.WriteString(x.Stdout, strings.Repeat("|", size.Width))
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return 7, err
}

func newClient(t *testing.T, s *server) *api.Client {
	c := api.NewClient(api.ClientConfig{Address: s.URL})
	t.Cleanup(c.Close)
	return c
}

// runExec runs a command in a task from its opening to its end.
func runExec(ctx context.Context, c *api.Client, id, task string, x *api.Exec) (exitCode int, err error) {
	run, err := api.OpenExec(ctx, c, id, task, x)
	if err != nil {
		return 0, err
	}
	return run(ctx)
}

// TestExec_RunsAtTheNodesAgent: another agent forwards the websocket, once.
func TestExec_RunsAtTheNodesAgent(t *testing.T) {
	far, near := newServer(t), newServer(t)
	runsCommands(far, echo)
	addr := strings.TrimPrefix(far.URL, "http://")
	placeOn(near, addr)
	placeOn(far, addr)
	text := strings.Repeat("0123456789", 50_000)
	for _, s := range []*server{far, near} {
		for _, task := range []string{"", "web"} {
			var out, errs bytes.Buffer
			code, err := runExec(t.Context(), newClient(t, s), "here", task, &api.Exec{
				Command: []string{"a b", `"c"`, "d&e"},
				Stdin:   strings.NewReader(text),
				Stdout:  &out,
				Stderr:  &errs,
			})
			if err != nil || code != 7 || out.String() != text || errs.String() != `a b,"c",d&e` {
				t.Errorf("task %q: %d, %v: %d bytes, %q", task, code, err, out.Len(), errs.String())
			}
		}
	}
}

func TestExec_SendsTheSizeOfTheTerminal(t *testing.T) {
	s := newServer(t)
	runsCommands(s, echo)
	sizes := make(chan nodecalls.TerminalSize, 1)
	sizes <- nodecalls.TerminalSize{Height: 2, Width: 3}
	var out bytes.Buffer
	_, err := runExec(t.Context(), newClient(t, s), "here", "", &api.Exec{
		Command: []string{"sh"},
		TTY:     true,
		Stdin:   strings.NewReader("x"),
		Stdout:  &out,
		Stderr:  io.Discard,
		Resize:  sizes,
	})
	if err != nil || out.String() != "x|||" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestExec_PassesErrorsOn(t *testing.T) {
	far, near := newServer(t), newServer(t)
	addr := strings.TrimPrefix(far.URL, "http://")
	placeOn(near, addr)
	long := strings.Repeat("ä", 200)
	runsCommands(far, func(context.Context, *api.Exec) (int, error) {
		return 0, structs.Conflictf("the task has ended: %s", long)
	})
	command := &api.Exec{Command: []string{"sh"}, Stdout: io.Discard, Stderr: io.Discard}
	for _, s := range []*server{far, near} {
		c := newClient(t, s)
		_, err := runExec(t.Context(), c, "here", "", command)
		if !structs.IsKind(err, structs.KindConflict) || !strings.HasPrefix(err.Error(), "the task has ended: ää") {
			t.Errorf("an error of the command: %v", err)
		}
		_, err = runExec(t.Context(), c, "here", "db", command)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), "expected one of: web") {
			t.Errorf("an unknown task: %v", err)
		}
		_, err = runExec(t.Context(), c, "here", "", &api.Exec{})
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("no command: %v", err)
		}
	}
	if _, err := runExec(t.Context(), newClient(t, near), "gone", "", command); !structs.IsKind(err,
		structs.KindNotFound) {
		t.Errorf("an allocation that no agent runs: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
	far.Close()
	_, err := runExec(t.Context(), newClient(t, near), "here", "", command)
	if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), addr) {
		t.Errorf("a node that cannot be reached: %v", err)
	}
}

// untilDone is a command that runs until its context ends.
type untilDone struct {
	began chan struct{}
	ended chan error
}

func newUntilDone() *untilDone { return &untilDone{make(chan struct{}), make(chan error, 1)} }

func (u *untilDone) run(ctx context.Context, _ *api.Exec) (int, error) {
	close(u.began)
	<-ctx.Done()
	u.ended <- context.Cause(ctx)
	return 0, ctx.Err()
}

func TestExec_EndsWithItsUser(t *testing.T) {
	far, near := newServer(t), newServer(t)
	placeOn(near, strings.TrimPrefix(far.URL, "http://"))
	for _, s := range []*server{far, near} {
		command := newUntilDone()
		runsCommands(far, command.run)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-command.began
			cancel()
		}()
		_, err := runExec(ctx, newClient(t, s), "here", "", &api.Exec{
			Command: []string{"sh"},
			Stdout:  io.Discard,
			Stderr:  io.Discard,
		})
		if !structs.IsKind(err, structs.KindTimeout) {
			t.Errorf("the user has %v", err)
		}
		if err := <-command.ended; err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("the command has %v, want that its user has gone", err)
		}
	}
}

// TestExec_EndsWithTheAgent: the context of the server ends, and Sessions waits for the command.
func TestExec_EndsWithTheAgent(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var sessions sync.WaitGroup
	s := &server{agent: newAgent()}
	command := newUntilDone()
	runsCommands(s, command.run)
	h := api.NewHandler(api.Config{
		Routes:   areas.Routes(),
		Caller:   &apitest.Caller{},
		Agent:    s.agent,
		Logger:   hclog.NewNullLogger(),
		Sessions: &sessions,
	})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(ctx))
	}))
	defer s.Close()
	go func() {
		<-command.began
		stop()
	}()
	_, err := runExec(t.Context(), newClient(t, s), "here", "", &api.Exec{
		Command: []string{"sh"},
		Stdout:  io.Discard,
		Stderr:  io.Discard,
	})
	if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), "the agent stops") {
		t.Errorf("the user has %v", err)
	}
	sessions.Wait()
	if err := <-command.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the command has %v", err)
	}
}

func execPath(command string) string {
	return "/v1/client/allocation/here/exec?" + url.Values{"command": {command}}.Encode()
}

func TestExec_RejectsBadRequests(t *testing.T) {
	s := newServer(t)
	runsCommands(s, echo)
	for name, c := range map[string]struct {
		path, header, value string
		status              int
		text                string
	}{
		"no websocket":  {execPath(`["sh"]`), "Upgrade", "", 400, "Upgrade: websocket"},
		"no key":        {execPath(`["sh"]`), "Sec-WebSocket-Key", "", 400, "Sec-WebSocket-Key"},
		"another page":  {execPath(`["sh"]`), "Origin", "http://evil.example", 403, "evil.example"},
		"an odd origin": {execPath(`["sh"]`), "Origin", "%zz", 403, "origin"},
		"no list":       {execPath(`sh`), "", "", 400, "a list in JSON"},
		"another list":  {execPath(`[1]`), "", "", 400, "a list in JSON"},
		"nothing":       {execPath(`[]`), "", "", 400, "empty"},
		"no program":    {execPath(`["","x"]`), "", "", 400, "empty"},
		"too many":      {execPath(`["x"` + strings.Repeat(`,""`, 2000) + `]`), "", "", 400, "more than 1024"},
		"no tty":        {execPath(`["sh"]`) + "&tty=maybe", "", "", 400, "tty"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{
			"Connection":            "Upgrade",
			"Upgrade":               "websocket",
			"Sec-WebSocket-Version": "13",
			"Sec-WebSocket-Key":     "dGhlIHNhbXBsZSBub25jZQ==",
		} {
			r.Header.Set(k, v)
		}
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || !strings.Contains(string(body), c.text) {
			t.Errorf("%s: %s %q, %v", name, resp.Status, body, err)
		}
	}
}

// dial opens the websocket of a command by hand.
func dial(t *testing.T, s *server) *websocket.Conn {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), s.URL+execPath(`["sh"]`), &websocket.DialOptions{
		HTTPHeader: http.Header{"Origin": {s.URL}}, // a page of the agent's own
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

// TestExec_SpeaksTheDialect compares every message with its shape on the wire.
func TestExec_SpeaksTheDialect(t *testing.T) {
	s := newServer(t)
	runsCommands(s, echo)
	ws := dial(t, s)
	for _, message := range []string{`{}`, `{"stdin":{"data":"aGk="}}`, `{"stdin":{"close":true}}`} {
		if err := ws.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		`{"stderr":{"data":"c2g="}}`,
		`{"stdout":{"data":"aGk="}}`,
		`{"stdout":{"close":true}}`,
		`{"stderr":{"close":true}}`,
		`{"exited":true,"result":{"exit_code":7}}`,
	}
	for _, w := range want {
		kind, got, err := ws.Read(t.Context())
		if err != nil || kind != websocket.MessageText || string(got) != w {
			t.Fatalf("got %v %s, %v, want %s", kind, got, err, w)
		}
	}
	_, _, err := ws.Read(t.Context())
	if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("the end is %v", err)
	}
}

// A message that is none, or too large, ends the command.
func TestExec_EndsAfterABadMessage(t *testing.T) {
	s := newServer(t)
	for name, message := range map[string]string{
		"no JSON":   "ls\n",
		"too large": `{"stdin":{"data":"` + strings.Repeat("A", 2<<20) + `"}}`,
	} {
		command := newUntilDone()
		runsCommands(s, command.run)
		ws := dial(t, s)
		_ = ws.Write(t.Context(), websocket.MessageText, []byte(message))
		if err := <-command.ended; err == nil {
			t.Errorf("%s: the command has no reason", name)
		}
		var out map[string]any
		if err := wsjson.Read(t.Context(), ws, &out); err == nil {
			t.Errorf("%s: got %v", name, out)
		}
	}
}

// Input that nobody reads holds up neither the end of the command nor that of the session.
func TestExec_DropsInputThatNobodyReads(t *testing.T) {
	s := newServer(t)
	runsCommands(s, func(context.Context, *api.Exec) (int, error) { return 3, nil })
	code, err := runExec(t.Context(), newClient(t, s), "here", "", &api.Exec{
		Command: []string{"true"},
		Stdin:   strings.NewReader(strings.Repeat("x", 1<<20)),
		Stdout:  io.Discard,
		Stderr:  io.Discard,
	})
	if err != nil || code != 3 {
		t.Errorf("got %d, %v", code, err)
	}
}
