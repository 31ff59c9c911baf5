package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
	"berth/api/allocs"
	"berth/api/apitest"
	"berth/internal/logfile"
	"berth/structs"
)

// writeLogs lets the server's agent have the logs of the allocation "here".
func writeLogs(t *testing.T, s *server, parts ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for i, p := range parts {
		name := logfile.Name("t", "stdout", i)
		err := os.WriteFile(filepath.Join(dir, name), []byte(p), 0o600)
		if err != nil {
			t.Fatal(err)
		}
	}
	s.agent.Logs = func(allocID, task, kind string) (string, error) {
		if allocID != "here" || task != "t" {
			return "", structs.Errorf(structs.KindNotFound, "allocation %s has no task %s here", allocID, task)
		}
		return dir, nil
	}
	return dir
}

func TestLogs_BeginAtTheirOffset(t *testing.T) {
	s := newServer(t)
	writeLogs(t, s, "one\n", "two\n", "three\n")
	for query, want := range map[string]string{
		"":                       "one\ntwo\nthree\n",
		"&offset=6":              "o\nthree\n",
		"&origin=end&offset=6":   "three\n",
		"&origin=end&offset=99":  "one\ntwo\nthree\n",
		"&origin=end":            "",
		"&origin=start&offset=9": "hree\n",
	} {
		const path = "/v1/client/fs/logs/here?task=t&type=stdout"
		if _, body := s.do(t, "GET", path+"&plain=true"+query, ""); body != want {
			t.Errorf("%s: got %q, want %q", query, body, want)
		}
		_, body := s.do(t, "GET", path+query, "")
		if got := joinFrames(t, body); got != want {
			t.Errorf("%s in frames: got %q, want %q", query, got, want)
		}
	}
	resp, body := s.do(t, "GET", "/v1/client/fs/logs/here?task=t&type=stderr", "")
	if resp.StatusCode != 200 || joinFrames(t, body) != "" {
		t.Errorf("a log without files: got %d %q, want an empty log", resp.StatusCode, body)
	}
}

func joinFrames(t *testing.T, body string) string {
	t.Helper()
	var out strings.Builder
	dec := json.NewDecoder(strings.NewReader(body))
	for {
		var f api.Frame
		err := dec.Decode(&f)
		if err == io.EOF {
			return out.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		out.Write(f.Data)
		if f.Data != nil && f.Offset != int64(out.Len()) {
			t.Errorf("got the offset %d, want %d", f.Offset, out.Len())
		}
	}
}

func TestLogs_FollowARunningTask(t *testing.T) {
	s := newServer(t)
	dir := writeLogs(t, s, "one\n")
	c := api.NewClient(api.ClientConfig{Address: s.URL})
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log, err := allocs.Logs(ctx, c, "here", allocs.LogOptions{
		Task:   "t",
		Follow: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	lines := bufio.NewScanner(log)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q, error %v, want %q", lines.Text(), lines.Err(), want)
		}
	}
	next("one")
	f, err := os.OpenFile(filepath.Join(dir, "t.stdout.0"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("two\n"); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	next("two")
	err = os.WriteFile(filepath.Join(dir, "t.stdout.1"), []byte("three\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	next("three")
	cancel()
	if lines.Scan() {
		t.Errorf("got %q after the cancellation", lines.Text())
	}
}

// TestLogs_AreForwardedOnce checks that an agent forwards a request to the agent with the log, and that the
// second one never forwards it again.
func TestLogs_AreForwardedOnce(t *testing.T) {
	far, near := newServer(t), newServer(t)
	writeLogs(t, far, "from afar\n")
	addr := strings.TrimPrefix(far.URL, "http://")
	for _, s := range []*server{far, near} {
		apitest.Answer(s.caller, structs.AllocGet, structs.AllocGetResponse{
			Alloc: &structs.Allocation{ID: "here", NodeID: "n"},
		})
		apitest.Answer(s.caller, structs.NodeGet, structs.NodeGetResponse{
			Node: &structs.NodeDetail{Node: structs.Node{ID: "n", HTTPAddr: addr}},
		})
	}
	_, body := near.do(t, "GET", "/v1/client/fs/logs/here?task=t&type=stdout&plain=true&namespace=default", "")
	if body != "from afar\n" {
		t.Errorf("got %q, want the log of the other agent", body)
	}
	resp, body := near.do(t, "GET", "/v1/client/fs/logs/gone?task=t&type=stdout", "")
	if resp.StatusCode != 404 ||
		resp.Header.Get("X-Berth-Error-Kind") != "not-found" ||
		len(far.caller.Take()) != 0 {
		t.Errorf("an unknown allocation: got %d %q, want 404", resp.StatusCode, body)
	}
	http.DefaultClient.CloseIdleConnections()
	far.Close()
	apitest.Answer(near.caller, structs.NodeGet, structs.NodeGetResponse{
		Node: &structs.NodeDetail{Node: structs.Node{ID: "n", HTTPAddr: addr}},
	})
	resp, body = near.do(t, "GET", "/v1/client/fs/logs/here?task=t&type=stdout", "")
	if resp.StatusCode != 503 {
		t.Errorf("an agent that has stopped: got %d %q, want 503", resp.StatusCode, body)
	}
}
