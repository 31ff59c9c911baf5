package ui

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"berth/api"
	"berth/api/apitest"
	"berth/structs"
	"berth/structs/access"
)

const anAlloc = "53b92b20-9e1f-4c35-8a0e-2f3d1c7b5e66"

// withLog returns the page of an agent that has the log of a task.
func withLog(t *testing.T, text string) (http.Handler, *apitest.Caller, *apitest.Agent) {
	t.Helper()
	dir := t.TempDir()
	err := os.WriteFile(filepath.Join(dir, "web.stdout.0"), []byte(text), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	servers := &apitest.Caller{}
	agent := &apitest.Agent{
		SelfIs: &api.AgentSelf{},
		Logs: func(allocID, task, kind string) (string, error) {
			if allocID != anAlloc || task != "web" || kind != "stdout" {
				return "", structs.Invalidf("there is no log %s of %s in %s", kind, task, allocID)
			}
			return dir, nil
		},
	}
	return pageOf(servers, agent), servers, agent
}

func TestLog_ShowsTheLastLinesAsText(t *testing.T) {
	h, _, _ := withLog(t, "first\n<script>alert(1)</script>\n")
	resp, body := get(t, h, "/ui/logs?id="+anAlloc+"&task=web")
	wants(t, body, "first\n&lt;script&gt;alert(1)&lt;/script&gt;", "berth alloc logs -f "+anAlloc+" web",
		"/ui/logs/stream?id="+anAlloc, "type=stderr")
	if resp.StatusCode != http.StatusOK || strings.Contains(body, "hx-get") {
		t.Errorf("got %d:\n%s", resp.StatusCode, body)
	}
}

func TestLog_IsFollowed(t *testing.T) {
	h, _, agent := withLog(t, "one\ntwo\n")
	ended := make(chan struct{})
	agent.LogsEnd = ended
	srv := httptest.NewServer(h)
	defer srv.Close()
	defer http.DefaultClient.CloseIdleConnections()
	resp, err := http.Get(srv.URL + "/ui/logs/stream?id=" + anAlloc + "&task=web")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for _, want := range []string{"one", "two"} {
		if !lines.Scan() || lines.Text() != want {
			t.Errorf("got %q, want %q (%v)", lines.Text(), want, lines.Err())
		}
	}
	close(ended)
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("after the end of the task got %q, %v", lines.Text(), lines.Err())
	}
	if resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("the headers are %v", resp.Header)
	}
}

func TestLog_RejectsOtherAddresses(t *testing.T) {
	h, _, _ := withLog(t, "")
	for _, query := range []string{
		"", "id=" + anAlloc, "id=..%2F..%2Fjobs&task=web", "id=A&task=web", "id=" + anAlloc + "&task=web&type=x",
	} {
		for _, path := range []string{"/ui/logs", "/ui/logs/stream", "/ui/exec", "/ui/exec/socket"} {
			resp, body := get(t, h, path+"?"+query)
			if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "names no log") {
				t.Errorf("%s?%s: got %d %s", path, query, resp.StatusCode, body)
			}
		}
	}
	resp, body := get(t, h, "/ui/logs?id="+anAlloc+"&task=web&type=stderr")
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "there is no log stderr") {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
}

// echo runs a command that says in which terminal it runs, and repeats its input.
func echo(ctx context.Context, x *api.Exec) (int, error) {
	size := <-x.Resize
	_, err := fmt.Fprintf(x.Stdout, "%s in a terminal (%t) of %d rows and %d columns\n",
		strings.Join(x.Command, " "), x.TTY, size.Height, size.Width)
	if err == nil {
		_, err = io.Copy(x.Stdout, x.Stdin)
	}
	return 3, err
}

// message is a message of the websocket, in both directions.
type message struct {
	Size   map[string]int `json:"tty_size,omitempty"`
	Stdin  *chunk         `json:"stdin,omitempty"`
	Stdout *chunk         `json:"stdout,omitempty"`
	Exited bool           `json:"exited,omitempty"`
}

type chunk struct {
	Data  []byte `json:"data,omitempty"`
	Close bool   `json:"close,omitempty"`
}

func TestExec_RunsACommandWithTheTokenOfTheCaller(t *testing.T) {
	h, servers, agent := withLog(t, "")
	agent.Exec = func(allocID, task string) (api.ExecFunc, error) { return echo, nil }
	var tokens []string
	apitest.On(servers, access.Check, func(_ context.Context, q *access.CheckRequest) (
		*access.CheckResponse, error,
	) {
		tokens = append(tokens, q.AuthToken)
		return &access.CheckResponse{}, nil
	})
	srv := httptest.NewServer(h)
	defer srv.Close()

	dial := func(origin string) (*websocket.Conn, *http.Response, error) {
		return websocket.Dial(t.Context(), srv.URL+"/ui/exec/socket?id="+anAlloc+"&task=web&line=cat+-",
			&websocket.DialOptions{HTTPHeader: http.Header{
				"Cookie": {loggedIn(h, "s.operator")},
				"Origin": {origin},
			}})
	}
	_, resp, err := dial("http://evil.example")
	if err == nil || resp.StatusCode != http.StatusForbidden {
		t.Fatalf("another origin gets %v, %v", resp, err)
	}

	ws, _, err := dial(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	for _, in := range []message{
		{Size: map[string]int{"height": 40, "width": 100}},
		{Stdin: &chunk{Data: []byte("hello\n")}},
		{Stdin: &chunk{Close: true}},
	} {
		err := wsjson.Write(t.Context(), ws, in)
		if err != nil {
			t.Fatal(err)
		}
	}
	var output strings.Builder
	for {
		var m message
		err := wsjson.Read(t.Context(), ws, &m)
		if err != nil {
			t.Fatal(err)
		}
		if m.Stdout != nil {
			output.Write(m.Stdout.Data)
		}
		if m.Exited {
			break
		}
	}
	if got := output.String(); got != "/bin/sh -c cat - in a terminal (true) of 40 rows and 100 columns\nhello\n" {
		t.Errorf("the output is %q", got)
	}
	for _, token := range tokens {
		if token != "s.operator" {
			t.Errorf("a right was asked with the token %q", token)
		}
	}
	if len(tokens) == 0 {
		t.Error("no right was asked")
	}
}

func TestAllocation_LeadsToLogsAndCommands(t *testing.T) {
	links := taskLinks(&structs.Allocation{ID: anAlloc, TaskStates: map[string]*structs.TaskState{
		"ended": {State: "dead"},
		"web":   {State: "running"},
	}})
	if got := strings.Join(names(links), ", "); got != "Log of ended, Log of web, Command in web" {
		t.Errorf("got %s", got)
	}
}
