package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/api"
	"berth/cli"
	"berth/cli/command"
	"berth/structs"
)

// logBuffer lets a test wait for the output of an agent.
type logBuffer struct {
	mu      sync.Mutex
	seen    strings.Builder
	changed chan struct{}
}

func newLogBuffer() *logBuffer {
	return &logBuffer{changed: make(chan struct{}, 1)}
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return l.seen.Write(p)
}

// await returns the first line that has the text.
func (l *logBuffer) await(t *testing.T, text string) string {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		l.mu.Lock()
		all := l.seen.String()
		l.mu.Unlock()
		for s := bufio.NewScanner(strings.NewReader(all)); s.Scan(); {
			if strings.Contains(s.Text(), text) {
				return s.Text()
			}
		}
		select {
		case <-l.changed:
		case <-deadline:
			t.Fatalf("the output lacks %q:\n%s", text, all)
		}
	}
}

// runCommandLine runs `berth agent` with arguments and returns the exit code.
func runCommandLine(ctx context.Context, out, log io.Writer, args ...string) int {
	std := command.Stdio{
		In:  strings.NewReader(""),
		Out: out,
		Err: log,
	}
	return cli.Run(ctx, append([]string{"agent"}, args...), std, Command())
}

// onLoopback has the options of an agent with only a server, which needs no root.
var onLoopback = []string{
	"-server",
	"-bind", "127.0.0.1",
	"-rpc-port", "0",
	"-serf-port", "0",
}

// startServer runs an agent with only a server, through the command line.
func startServer(t *testing.T, args ...string) (addr string, log *logBuffer, stop func() int) {
	t.Helper()
	out, log := newLogBuffer(), newLogBuffer()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	args = slices.Concat(onLoopback, []string{"-http-port", "0"}, args)
	go func() { ended <- runCommandLine(ctx, out, log, args...) }()
	stop = sync.OnceValue(func() int {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	_, addr, _ = strings.Cut(out.await(t, "HTTP API:"), "HTTP API:")
	return strings.TrimSpace(addr), log, stop
}

// get reads a URL. It repeats the request while the servers have no leader, which a busy machine elects late.
func get(t *testing.T, url string) (body []byte) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, _ = io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return body
		}
		if resp.StatusCode != http.StatusServiceUnavailable || time.Now().After(deadline) {
			t.Fatalf("%s: %s: %s", url, resp.Status, body)
		}
	}
}

func getJSON[T any](t *testing.T, url string) (v T) {
	t.Helper()
	body := get(t, url)
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%s: %v in %s", url, err, body)
	}
	return v
}

// putJob registers a job and returns the status and the text of the answer.
func putJob(t *testing.T, addr, body string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPut, addr+"/v1/jobs", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func TestAgent_ServerKeepsItsStateOverARestart(t *testing.T) {
	dir := t.TempDir()
	addr, _, stop := startServer(t, "-data-dir", dir)
	getJSON[[]*structs.NodeListStub](t, addr+"/v1/nodes") // waits for a leader
	body := `{"Job": {"ID": "web", "Name": "web", "TaskGroups": [
		{"Name": "g", "Tasks": [{"Name": "t", "Driver": "exec", "Config": {"command": "true"}}]}]}}`
	status, text := putJob(t, addr, body)
	if status != http.StatusOK {
		t.Fatalf("got status %d, want 200: %s", status, text)
	}
	if code := stop(); code != 0 {
		t.Fatalf("got exit code %d, want 0", code)
	}
	info, err := os.Stat(filepath.Join(dir, "server"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("other users may read the state: %v, %v", info.Mode(), err)
	}
	addr, _, _ = startServer(t, "-data-dir", dir)
	job := getJSON[*structs.Job](t, addr+"/v1/job/web")
	if job.ID != "web" {
		t.Errorf("got the job %+v, want web", job)
	}
	peers := getJSON[[]string](t, addr+"/v1/status/peers")
	if len(peers) != 1 {
		t.Errorf("got the peers %v, want one", peers)
	}
}

func TestAgent_ReloadsTheLogLevelOnSIGHUP(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.hcl")
	set := func(level string) {
		text := fmt.Sprintf("log_level = %q\n", level)
		err := os.WriteFile(file, []byte(text), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		err = syscall.Kill(os.Getpid(), syscall.SIGHUP)
		if err != nil {
			t.Fatal(err)
		}
	}
	err := os.WriteFile(file, []byte("log_level = \"info\"\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, log, _ := startServer(t, "-data-dir", t.TempDir(), "-config", file)
	log.await(t, "server started")
	set("loud")
	log.await(t, "failed to reload the configuration")
	log.await(t, "agent.hcl:1,1: log_level is")
	set("debug")
	log.await(t, `configuration reloaded: changed=["log_level"]`)
	log.await(t, "[DEBUG]")
}

func TestAgent_DescribesItself(t *testing.T) {
	addr, _, _ := startServer(t, "-data-dir", t.TempDir(), "-name", "alone")
	getJSON[[]*structs.NodeListStub](t, addr+"/v1/nodes")
	self := getJSON[*api.AgentSelf](t, addr+"/v1/agent/self")
	if self.Config["NodeName"] != "alone" ||
		self.Stats["raft"]["state"] != "Leader" ||
		self.Stats["nomad"]["leader"] != "true" ||
		self.Member == nil {
		t.Errorf("got the agent %+v", self)
	}
	health := getJSON[*api.AgentHealth](t, addr+"/v1/agent/health")
	if health.Server == nil || !health.Server.OK || health.Client != nil {
		t.Errorf("got the health %+v, want a healthy server", health)
	}
}

// The peer's command for monitoring reads these values of a node.
func TestAgent_DescribesItsNode(t *testing.T) {
	file := newConfigFile(t, nodeText("info", "", ""))
	addr, log, _ := startServer(t, "-data-dir", t.TempDir(), "-config", file.path)
	log.await(t, "node registered")
	var node map[string]string
	awaitCondition(t, "the node has a lease", func() bool {
		node = getJSON[*api.AgentSelf](t, addr+"/v1/agent/self").Stats["client"]
		ttl, err := time.ParseDuration(node["heartbeat_ttl"])
		return err == nil && ttl > 0
	})
	if node["known_servers"] != "1" {
		t.Errorf("it knows %q servers, want 1", node["known_servers"])
	}
	if _, err := time.ParseDuration(node["last_heartbeat"]); err != nil {
		t.Errorf("last_heartbeat: %v", err)
	}
}

func TestAgent_NamesAPortInUse(t *testing.T) {
	addr, _, _ := startServer(t, "-data-dir", t.TempDir())
	port := addr[strings.LastIndex(addr, ":")+1:]
	out, log := newLogBuffer(), newLogBuffer()
	code := runCommandLine(t.Context(), out, log,
		append(onLoopback, "-http-port", port, "-data-dir", t.TempDir())...)
	if code == 0 {
		t.Fatal("the agent ran on a port in use")
	}
	text := log.await(t, "listening for HTTP")
	if !strings.Contains(text, port) {
		t.Errorf("the message lacks the port %s: %s", port, text)
	}
}

// TestAgent_ClosesItsPartsIfItCannotStart checks that the server closes if the node cannot open, so that
// another agent can use the directory.
func TestAgent_ClosesItsPartsIfItCannotStart(t *testing.T) {
	dir := t.TempDir()
	inTheWay := filepath.Join(dir, "client")
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code := runCommandLine(t.Context(), io.Discard, io.Discard,
		append(onLoopback, "-client", "-http-port", "0", "-data-dir", dir)...)
	if code == 0 {
		t.Fatal("the agent ran without the directory of its node")
	}
	addr, _, _ := startServer(t, "-data-dir", dir)
	getJSON[[]*structs.NodeListStub](t, addr+"/v1/nodes")
}
