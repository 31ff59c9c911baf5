package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/cli/clitest"
	"berth/cli/command"
	"berth/structs"
)

// untilText is an output that tells when it has a text.
type untilText struct {
	text string
	has  chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

func (u *untilText) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := strings.Contains(u.out.String(), u.text)
	n, err := u.out.Write(p)
	if !before && strings.Contains(u.out.String(), u.text) {
		close(u.has)
	}
	return n, err
}

func (u *untilText) String() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.out.String()
}

// slowRequest is a request of a command. line is the command line, in which ADDR is the address of the agent.
type slowRequest struct {
	line string
	want string // the text about the wait, or the next step of the fault
	path string // the start of the path of the request; "" is that of every slow request
}

// matches reports whether an HTTP request is the slow one.
func (s slowRequest) matches(r *http.Request) bool {
	if s.path != "" {
		return strings.HasPrefix(r.URL.Path, s.path)
	}
	return r.Method != http.MethodGet || strings.HasSuffix(r.URL.Path, "/snapshot") ||
		strings.HasPrefix(r.URL.Path, "/v1/client/") || strings.HasPrefix(r.URL.Path, "/v1/volumes/external")
}

// args returns the words of the command line.
func (s slowRequest) args(addr string) []string {
	if !strings.Contains(s.line, "ADDR") {
		return append(strings.Fields(s.line), "-address", addr)
	}
	return strings.Fields(strings.ReplaceAll(s.line, "ADDR", addr))
}

// slowFiles writes a volume file and an archive.
func slowFiles(t *testing.T) (volume, archive string) {
	t.Helper()
	dir := t.TempDir()
	volume = filepath.Join(dir, "old.hcl")
	archive = filepath.Join(dir, "good.snap")
	clitest.WriteFile(t, volume, []byte(registeredVolume))
	clitest.WriteFile(t, archive, clitest.NewCluster(dir).Agent.Snapshot)
	return volume, archive
}

// TestRequests_SayWhatTheyWaitFor checks that commands whose request takes long say what they wait for: the
// agent answers only when they have. Only a command that changes something says so on its standard output,
// and not with -json.
func TestRequests_SayWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	volume, archive := slowFiles(t)
	const (
		node = "waits for the answer of the node of allocation a1a1a1a1"
		vote = "waits for the leader, which takes the vote of the server"
		keys = "waits for the servers, which change their keys"
	)
	for _, s := range []slowRequest{
		{"volume register " + volume, `waits for plugin "hostpath", which confirms the volume`, ""},
		{"volume detach data one", `Volume "data" on node 11111111: the claim of allocation a1a1a1a1: ` +
			"its node has not released it yet, Unavailable: the device is busy", ""},
		{"volume claim release data a1a1a1a1", `Volume "data" on node 11111111: the claim of`, ""},
		{"volume claim delete a1a1a1a1", `Volume "data" on node 11111111: the claim of`, ""},
		{"operator gossip keyring install " + gossipKey, keys, ""},
		{"operator gossip keyring remove " + gossipKey, keys, ""},
		{"operator root keyring rotate", "waits for the leader, which has its key-encryption key wrap", ""},
		{"alloc restart a1a1a1a1", node, ""},
		{"alloc signal a1a1a1a1", node, ""},
		{"alloc gc a1a1a1a1", node, ""},
		{"node gc one", "waits for the answer of node 11111111", ""},
		{"server join 10.0.0.2", "waits for the answers of the servers: 10.0.0.2", ""},
		{"server leave", "waits for the end of its leadership and of its vote", ""},
		{"server force-leave s2.global", vote, ""},
		{"system gc", "waits for the servers, which delete the rows", ""},
		{"operator raft remove-peer -peer-id s2", vote, ""},
		{"operator raft transfer-leadership -peer-id s2", "waits for server s2, which is to lead", ""},
		{"operator snapshot save " + archive + ".new", "waits for the servers, which send the state", ""},
		{"operator snapshot restore " + archive, "waits for the servers, which replace their state", ""},
	} {
		t.Run(s.line, func(t *testing.T) {
			t.Parallel()
			out := &untilText{text: s.want, has: make(chan struct{})}
			var errs bytes.Buffer
			runUntilSaid(t, s, out, command.Stdio{Out: out, Err: &errs})
		})
	}
	const (
		plugin = `waits for plugin "hostpath", which lists its volumes`
		agent  = "to see whether it has a leader: berth server members"
	)
	for _, s := range []slowRequest{
		{"alloc restart -json a1a1a1a1", node, ""},
		{"system gc -json", "waits for the servers, which delete the rows", ""},
		{"volume status -verbose", plugin, ""},
		{"volume status -verbose -json", plugin, ""},
		{"node status -stats one", "waits for the answer of node 11111111", ""},
		{"alloc status -stats a1a1a1a1", node, ""},
		{"alloc checks a1a1a1a1", node, ""},
		{"alloc checks -json a1a1a1a1", node, ""},
		{"alloc fs a1a1a1a1", node, ""},
		{"alloc fs -json a1a1a1a1", node, "/v1/client/fs/ls/"},
		{"alloc fs a1a1a1a1 server/lines.txt", node, "/v1/client/fs/cat/"},
		{"alloc fs -tail a1a1a1a1 server/lines.txt", node, "/v1/client/fs/stream/"},
		{"alloc logs a1a1a1a1", node, ""},
		{"alloc logs -stderr a1a1a1a1", node, ""},
		{"alloc logs -stdout -stderr a1a1a1a1", node, ""},
		{"alloc logs -f a1a1a1a1", node, ""},
		{"alloc exec -address ADDR a1a1a1a1 ls", node, ""},
		{"eval delete -json e1e1e1e1", "waits for the servers, which delete the evaluations", ""},
		{"operator gossip keyring list", "waits for the servers, which list their keys", "/v1/agent/keyring"},
		{"service info web", node, ""},
		{"job status web", agent, "/v1/job/"},
		{"node status", agent, "/v1/nodes"},
		{"volume status -json", agent, "/v1/volumes"},
		{"namespace apply extra", agent, "/v1/namespace"},
	} {
		t.Run(s.line+s.path, func(t *testing.T) {
			t.Parallel()
			errs := &untilText{text: s.want, has: make(chan struct{})}
			var out bytes.Buffer
			runUntilSaid(t, s, errs, command.Stdio{Out: &out, Err: errs})
			if strings.Contains(out.String(), "waits for") {
				t.Errorf("the standard output has the wait:\n%s", out.String())
			}
			if strings.Contains(s.line, "-json") && !json.Valid(out.Bytes()) {
				t.Errorf("the standard output is not JSON:\n%s", out.String())
			}
		})
	}
}

// runUntilSaid runs a command whose request is answered when said has its text.
func runUntilSaid(t *testing.T, s slowRequest, said *untilText, std command.Stdio) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	addr := clitest.ServeSlowly(t, s.matches, func(w http.ResponseWriter, r *http.Request, h http.Handler) {
		select {
		case <-said.has:
		case <-ctx.Done():
		}
		h.ServeHTTP(w, r)
	})
	std.In = strings.NewReader("")
	code := Run(ctx, s.args(addr), std)
	if code != 0 || !strings.Contains(said.String(), s.want) {
		t.Errorf("exit code %d; want %q in\n%s", code, s.want, said)
	}
}

// TestRequests_NameTheNextStepOfAFault checks the end of commands whose request is rejected.
func TestRequests_NameTheNextStepOfAFault(t *testing.T) {
	t.Parallel()
	volume, archive := slowFiles(t)
	const (
		plugins = "to see the plugins: berth plugin status"
		why     = "to see why: berth volume why data"
		alloc   = "to see its state: berth alloc status a1a1a1a1"
		node    = "to see its state: berth node status 11111111"
		servers = "to see the servers: berth server members"
		peers   = "to see the servers: berth operator raft list-peers"
	)
	for _, s := range []slowRequest{
		{"volume create " + volume, plugins, ""},
		{"volume register " + volume, plugins, ""},
		{"volume delete data", why, ""},
		{"volume deregister data", why, ""},
		{"volume retry data", why, ""},
		{"volume detach data one", why, ""},
		{"volume claim release data a1a1a1a1", why, ""},
		{"volume claim delete a1a1a1a1", why, ""},
		{"volume status -verbose", "to see its instances: berth plugin status hostpath", ""},
		{"alloc restart a1a1a1a1", alloc, ""},
		{"alloc signal a1a1a1a1", alloc, ""},
		{"alloc gc a1a1a1a1", alloc, ""},
		{"alloc status -stats a1a1a1a1", alloc, ""},
		{"alloc checks a1a1a1a1", alloc, ""},
		{"alloc fs a1a1a1a1", alloc, ""},
		{"alloc fs a1a1a1a1", alloc, "/v1/client/fs/ls/"},
		{"alloc fs a1a1a1a1 server/lines.txt", alloc, "/v1/client/fs/cat/"},
		{"alloc fs -tail a1a1a1a1 server/lines.txt", alloc, "/v1/client/fs/stream/"},
		{"alloc logs a1a1a1a1", alloc, ""},
		{"alloc logs -stderr a1a1a1a1", alloc, ""},
		{"alloc logs -f a1a1a1a1", alloc, ""},
		{"alloc exec -address ADDR a1a1a1a1 ls", alloc, ""},
		{"node gc one", node, ""},
		{"node fence test one", node, ""},
		{"node status -stats one", node, ""},
		{"server join 10.0.0.2", servers, ""},
		{"server leave", servers, ""},
		{"server force-leave s2.global", servers, ""},
		{"system gc", servers, ""},
		{"eval delete e1e1e1e1", servers, ""},
		{"operator snapshot save " + archive, servers, ""},
		{"operator gossip keyring list", servers, "/v1/agent/keyring"},
		{"operator gossip keyring install " + gossipKey, servers, ""},
		{"operator gossip keyring use " + gossipKey, servers, ""},
		{"operator gossip keyring remove " + gossipKey, servers, ""},
		{"operator root keyring rotate -full", servers, ""},
		{"operator raft remove-peer -peer-id s2", peers, ""},
		{"operator raft transfer-leadership -peer-id s2", peers, ""},
		{"operator snapshot restore " + archive, servers, ""},
	} {
		for kind, status := range map[structs.Kind]int{
			structs.KindPrecondition: http.StatusPreconditionFailed,
			structs.KindTimeout:      http.StatusGatewayTimeout,
		} {
			t.Run(fmt.Sprint(s.line, s.path, " ", status), func(t *testing.T) {
				t.Parallel()
				reject := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
					w.Header().Set("X-Berth-Error-Kind", string(kind))
					http.Error(w, "not now", status)
				}
				addr := clitest.ServeSlowly(t, s.matches, reject)
				code, _, errs := runArgs(t, s.args(addr))
				if code == 0 || !strings.HasSuffix(strings.TrimSpace(errs), "not now; "+s.want) {
					t.Errorf("exit code %d, %q; want %q at its end", code, errs, s.want)
				}
			})
		}
	}
}

// TestRequests_SayThatAReadIsInterrupted checks that the interrupt of a read does not speak of an operation
// that may continue, and that the interrupt of a followed log is its end.
func TestRequests_SayThatAReadIsInterrupted(t *testing.T) {
	t.Parallel()
	for _, s := range []slowRequest{
		{"alloc checks a1a1a1a1", "Error: interrupted; to see its state: berth alloc status a1a1a1a1\n", ""},
		{"alloc gc a1a1a1a1", "Error: interrupted; the operation may continue; " +
			"to see its state: berth alloc status a1a1a1a1\n", ""},
		{"alloc logs -f a1a1a1a1", "", ""},
		{"service info web", "Error: interrupted; to see its state: berth alloc status a1a1a1a1\n", ""},
	} {
		t.Run(s.line, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancel(t.Context())
			interrupted := func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
				interrupt()
				<-r.Context().Done()
			}
			addr := clitest.ServeSlowly(t, s.matches, interrupted)
			var errs bytes.Buffer
			code := Run(ctx, s.args(addr),
				command.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: &errs})
			if errs.String() != s.want || (code == 0) != (s.want == "") {
				t.Errorf("exit code %d, %q; want %q", code, errs.String(), s.want)
			}
		})
	}
}

// slowArchive is a pipe with an archive, whose end is written when write ends.
func slowArchive(t *testing.T, write <-chan struct{}) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slow.snap")
	err := unix.Mkfifo(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	archive := clitest.StateArchive(clitest.ValidState())
	half := len(archive) / 2
	_, err = pipe.Write(archive[:half])
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-write:
		case <-time.After(time.Minute): // the command says nothing
		}
		_, _ = pipe.Write(archive[half:])
		_ = pipe.Close()
	}()
	t.Cleanup(func() { <-done })
	return path
}

// TestSnapshotInspect_SaysThatItReads reads an archive that arrives slowly.
func TestSnapshotInspect_SaysThatItReads(t *testing.T) {
	t.Parallel()
	errs := &untilText{text: "waits for the end of the archive", has: make(chan struct{})}
	path := slowArchive(t, errs.has)
	var out bytes.Buffer
	code := Run(t.Context(), []string{"operator", "snapshot", "inspect", "-json", path},
		command.Stdio{In: strings.NewReader(""), Out: &out, Err: errs})
	if code != 0 || !json.Valid(out.Bytes()) {
		t.Errorf("exit code %d, %s, %s", code, out.String(), errs)
	}
}

// TestSnapshotRestore_EndsWhileItReads interrupts the command before its request has begun.
func TestSnapshotRestore_EndsWhileItReads(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	out := &untilText{text: "waits for the end of the archive", has: make(chan struct{})}
	path := slowArchive(t, ctx.Done())
	go func() {
		<-out.has
		interrupt()
	}()
	var errs bytes.Buffer
	code := Run(ctx, []string{"operator", "snapshot", "restore", path},
		command.Stdio{In: strings.NewReader(""), Out: out, Err: &errs})
	if code == 0 || !strings.HasSuffix(errs.String(), "slow.snap: interrupted\n") {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
}

// gossipKey is a key that the gossip of the servers has not.
const gossipKey = "MTIzNDU2Nzg5MDEyMzQ1Ng=="

// registeredVolume is the file of a volume that its plugin has.
const registeredVolume = `
id          = "old"
name        = "old"
type        = "csi"
plugin_id   = "hostpath"
external_id = "vol-old"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`

// A denial names the missing right. The state of the volume is no answer to it, and its caller may not
// see that either.
func TestRequests_NameNoNextStepOfADenial(t *testing.T) {
	t.Parallel()
	s := slowRequest{"volume delete data", "", ""}
	deny := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("X-Berth-Error-Kind", string(structs.KindDenied))
		http.Error(w, "this needs volume: write", http.StatusForbidden)
	}
	code, _, errs := runArgs(t, s.args(clitest.ServeSlowly(t, s.matches, deny)))
	isLast := strings.HasSuffix(strings.TrimSpace(errs), "this needs volume: write")
	if code != structs.KindDenied.ExitCode() || !isLast {
		t.Errorf("exit code %d, %q; want the denial alone", code, errs)
	}
}
