package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/operator"
	"berth/api/volumes"
	"berth/internal/opsocket"
	"berth/rpc"
	"berth/structs"
)

// overSocket returns a client of the operator socket in a data directory.
func overSocket(t *testing.T, dataDir string) *api.Client {
	t.Helper()
	c := api.NewClient(api.ClientConfig{Address: "unix://" + filepath.Join(dataDir, "berth.sock")})
	t.Cleanup(c.Close)
	return c
}

// shortDir returns a directory whose path is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestOperatorSocket_ServesTheAPIUntilTheEndOfTheAgent(t *testing.T) {
	dir := shortDir(t)
	_, _, stop := startServer(t, "-data-dir", dir)
	path := filepath.Join(dir, "berth.sock")
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Fatalf("got %v, error %v", info, err)
	}

	self, err := operator.ReadAgent(t.Context(), overSocket(t, dir))
	if err != nil || self.Config["DataDir"] != dir {
		t.Errorf("got the agent %+v, error %v", self, err)
	}

	if code := stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestOperatorSocket_RejectsASecondAgentOnTheDirectory(t *testing.T) {
	dir := shortDir(t)
	startServer(t, "-data-dir", dir)
	log := newLogBuffer()
	args := append([]string{"-http-port", "0", "-data-dir", dir}, onLoopback...)
	code := runCommandLine(t.Context(), newLogBuffer(), log, args...)
	if code != structs.KindPrecondition.ExitCode() {
		t.Errorf("the second agent ended with %d", code)
	}
	log.await(t, "another agent uses it")
	if _, err := operator.ReadAgent(t.Context(), overSocket(t, dir)); err != nil {
		t.Errorf("the first agent: %v", err)
	}
}

func TestOperatorSocket_KeepsAnotherFileAtItsPath(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "berth.sock")
	if err := os.Symlink("/dev/null", path); err != nil {
		t.Fatal(err)
	}
	log := newLogBuffer()
	args := append([]string{"-http-port", "0", "-data-dir", dir}, onLoopback...)
	code := runCommandLine(t.Context(), newLogBuffer(), log, args...)
	if code != structs.KindPrecondition.ExitCode() {
		t.Errorf("the agent ended with %d", code)
	}
	log.await(t, "no socket has this path")
	if target, err := os.Readlink(path); target != "/dev/null" {
		t.Errorf("the link leads to %q, error %v", target, err)
	}
}

func TestConfig_BoundsThePathOfTheOperatorSocket(t *testing.T) {
	long := "/" + strings.Repeat("x", 110)
	for _, c := range []struct{ dataDir, socket, want string }{
		{"/data", "", ""},
		{long, "", "operator_socket"},
		{long, "/run/berth.sock", ""},
		{"/data", "run/berth.sock", "operator_socket"},
	} {
		cfg := DefaultConfig()
		cfg.Server.Enabled = true
		cfg.BindAddr = "127.0.0.1"
		cfg.DataDir = c.dataDir
		cfg.OperatorSocket = c.socket
		err := cfg.Finish()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("data_dir %s, socket %q: got %v, want %q", c.dataDir, c.socket, err, c.want)
		}
		if c.want == "" && cfg.Server.OperatorSocket != cfg.OperatorSocket {
			t.Errorf("the server names the socket %q, the agent has %q", cfg.Server.OperatorSocket, cfg.OperatorSocket)
		}
	}
}

// overRPC calls a method of a server as any client of the network can.
func overRPC(t *testing.T, addr string, req *structs.VolumeClaimReleaseRequest) error {
	t.Helper()
	pool := rpc.NewPool(rpc.Dial, hclog.NewNullLogger(), nil)
	t.Cleanup(pool.Close)
	_, err := rpc.Call(opsocket.Mark(t.Context()), pool.At(addr), structs.VolumeClaimForce, req)
	return err
}

// TestOperatorSocket_AloneTakesWhatNobodyCanProve sends one request by every way to a server: the claim does
// not exist, so the request is denied, or it is served and finds nothing.
func TestOperatorSocket_AloneTakesWhatNobodyCanProve(t *testing.T) {
	dir := shortDir(t)
	addr, _, _ := startServer(t, "-data-dir", dir)
	self := getJSON[api.AgentSelf](t, addr+"/v1/agent/self")
	get(t, addr+"/v1/volumes/claims") // there is a leader
	release := volumes.ClaimReleaseOptions{AllocID: "a1", Force: true, Reason: "off"}
	socket := filepath.Join(dir, "berth.sock")

	tcp := api.NewClient(api.ClientConfig{Address: addr})
	t.Cleanup(tcp.Close)
	_, err := volumes.ReleaseClaim(t.Context(), tcp, "v", release)
	wantDenied(t, "HTTP over TCP", err, socket)

	req, err := http.NewRequest(http.MethodDelete,
		addr+"/v1/volume/csi/v/claim/force?alloc_id=a1&reason=off&forwarded=true&operator=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"X-Berth-Operator-Socket", "X-Berth-Passed-On", "X-Forwarded-For"} {
		req.Header.Set(name, socket)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("forged headers: got %s", resp.Status)
	}

	byRPC := self.Member.Tags["rpc_addr"]
	for _, forwarded := range []bool{false, true} {
		err := overRPC(t, byRPC, &structs.VolumeClaimReleaseRequest{
			VolumeID:     "v",
			AllocID:      "a1",
			Reason:       "off",
			WriteOptions: structs.WriteOptions{Forwarded: forwarded},
		})
		wantDenied(t, fmt.Sprintf("RPC with Forwarded %t", forwarded), err, socket)
	}

	_, err = volumes.ReleaseClaim(t.Context(), overSocket(t, dir), "v", release)
	if !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("over the socket: got %v (%s), want not-found", err, structs.KindOf(err))
	}
}

func wantDenied(t *testing.T, way string, err error, socket string) {
	t.Helper()
	if !structs.IsKind(err, structs.KindDenied) || structs.SocketOf(err) != socket {
		t.Errorf("%s: got %v (%s) with the socket %q", way, err, structs.KindOf(err), structs.SocketOf(err))
	}
}
