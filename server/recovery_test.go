package server

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/internal/agenttest"
	"berth/rpc"
	"berth/state"
	"berth/structs"
)

func writePeers(t *testing.T, cfg Config, text string) (path string) {
	t.Helper()
	path = filepath.Join(cfg.DataDir, "raft", peersFile)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRecovery_ReplacesTheMembersAndKeepsTheState(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	cfg.HeartbeatTTL, cfg.HeartbeatGrace = 10*time.Minute, time.Minute
	s := run(t, cfg)
	s.register("before")
	if err := s.SnapshotSave(t.Context(), io.Discard); err != nil { // its state is in a snapshot and in the log
		t.Fatal(err)
	}
	s.register("after")
	node := &structs.Node{
		ID:       "n1",
		SecretID: "secret",
		Name:     "n1",
		Status:   structs.NodeReady,
	}
	req := &structs.NodeRegisterRequest{Node: node}
	agenttest.Stamp(req)
	if _, err := rpc.Call(t.Context(), s, structs.NodeRegister, req); err != nil {
		t.Fatal(err)
	}
	// Two more servers have a vote and never existed: without a majority this server cannot lead.
	for i := range 2 {
		id := raft.ServerID(fmt.Sprint("dead", i))
		_ = s.consensus.AddVoter(id, raft.ServerAddress(fmt.Sprint("127.0.0.1:", i+1)), 0,
			0) // the last one is never committed
	}
	s.until("the server has lost leadership", func() bool {
		_, leads, _, _ := s.Leader()
		return !leads
	})
	id := s.id
	s.stop()

	info, err := os.ReadFile(filepath.Join(cfg.DataDir, "raft", infoFile))
	for _, want := range []string{id, s.RPCAddr(), peersFile, "server-id"} {
		if err != nil || !strings.Contains(string(info), want) {
			t.Errorf("%s does not say %q: %v\n%s", infoFile, want, err, info)
		}
	}
	path := writePeers(t, cfg, fmt.Sprintf(`[{"id": %q, "address": %q, "non_voter": false}]`, id, s.RPCAddr()))
	s = run(t, cfg)
	if !s.has("before") || !s.has("after") {
		t.Errorf("job before recovery: %v, job after: %v, want both", s.has("before"), s.has("after"))
	}
	if servers := s.Configuration(); len(servers) != 1 || servers[0].ID != id {
		t.Errorf("got members %v", servers)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("%s still exists: %v", path, err)
	}
	if n := state.Node(s.store.Read(), "n1"); n == nil || !n.Unaccounted {
		t.Errorf("node is not unaccounted: %+v", n)
	}
	s.register("on")
	s.stop()

	s = run(t, cfg) // once is enough
	if !s.has("before") || !s.has("on") {
		t.Errorf("after another start: job before %v, job on %v, want both", s.has("before"), s.has("on"))
	}
}

func TestRecovery_RejectsAFileThatDoesNotFit(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	s := run(t, cfg)
	s.register("one")
	s.stop()
	for name, text := range map[string]string{
		"no JSON":        "hello",
		"no servers":     "[]",
		"another server": `[{"id": "a", "address": "127.0.0.1:1"}]`,
		"no vote": fmt.Sprintf(`[{"id": "a", "address": "127.0.0.1:1"}, {"id": %q, "address": "127.0.0.1:2", "non_voter": true}]`,
			s.id),
		"one address twice": fmt.Sprintf(`[{"id": "a", "address": "127.0.0.1:1"}, {"id": %q, "address": "127.0.0.1:1"}]`,
			s.id),
		"too large": strings.Repeat(" ", structs.MaxPeersFile+1),
	} {
		path := writePeers(t, cfg, text)
		_, err := New(cfg, hclog.NewNullLogger())
		if !structs.IsKind(err, structs.KindInvalid) ||
			!strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), infoFile) {
			t.Errorf("%s: %v (%s)", name, err, structs.KindOf(err))
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: file was deleted: %v", name, err)
		}
		_ = os.Remove(path)
	}
	if s := run(t, cfg); !s.has("one") {
		t.Error("state is lost")
	}
}

func TestRecovery_RejectsAServerWithoutAState(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	cfg.BootstrapExpect, cfg.RetryJoin = 0, []string{"127.0.0.1:1"}
	s, err := New(cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	path := writePeers(t, cfg, fmt.Sprintf(`[{"id": %q, "address": "127.0.0.1:1"}]`, s.id))
	if _, err := New(cfg, hclog.NewNullLogger()); !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("got %v (%s)", err, structs.KindOf(err))
	}
}

// FuzzReadPeers: a file is rejected, or gives this server a vote.
func FuzzReadPeers(f *testing.F) {
	f.Add([]byte(`[{"id":"me","address":"127.0.0.1:4647","non_voter":false},{"id":"b","address":"127.0.0.2:4647"}]`))
	f.Add([]byte(`[{"id":"me","address":"127.0.0.1:4647","non_voter":true}]`))
	f.Add([]byte(`[{"id":"me"},{"id":"me"}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "peers.json")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		peers, err := readPeers(path, "me")
		if err != nil {
			if !structs.IsKind(err, structs.KindInvalid) || peers != nil {
				t.Fatalf("%v, %v of kind %s", peers, err, structs.KindOf(err))
			}
			return
		}
		votes := 0
		for _, s := range peers.Servers {
			if s.ID == "me" && s.Suffrage == raft.Voter && s.Address != "" {
				votes++
			}
		}
		if votes != 1 {
			t.Fatalf("%d votes of this server in %+v", votes, peers.Servers)
		}
	})
}
