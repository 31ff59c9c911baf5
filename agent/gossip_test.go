package agent

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
	"berth/api/operator"
	"berth/structs"
	"berth/structs/cluster"
)

// canaryKey is a key that no output may show.
var canaryKey = base64.StdEncoding.EncodeToString([]byte("a-canary-to-find"))

// writeConfig writes a configuration file with lines of the block server.
func writeConfig(t *testing.T, path string, lines ...string) {
	t.Helper()
	text := "server {\n" + strings.Join(lines, "\n") + "\n}\ntelemetry {\n  prometheus_metrics = true\n}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func encryptWith(key string) string { return fmt.Sprintf("  encrypt = %q", key) }

// startEncrypted starts a server that encrypts its gossip with canaryKey.
func startEncrypted(t *testing.T, args ...string) (dir, addr string, log *logBuffer) {
	t.Helper()
	dir = shortDir(t)
	config := filepath.Join(dir, "agent.hcl")
	writeConfig(t, config, encryptWith(canaryKey))
	args = append(args, "-data-dir", dir, "-config", config)
	addr, log, _ = startServer(t, args...)
	return dir, addr, log
}

func TestGossipKeyring_IsServedOverTheOperatorSocketAlone(t *testing.T) {
	dir, addr, _ := startEncrypted(t)
	tcp := api.NewClient(api.ClientConfig{Address: addr})
	t.Cleanup(tcp.Close)
	key := cluster.NewGossipKey()
	for _, op := range []cluster.GossipKeyOperation{
		cluster.GossipKeyList,
		cluster.GossipKeyInstall,
		cluster.GossipKeyUse,
		cluster.GossipKeyRemove,
	} {
		_, err := operator.GossipKeyring(t.Context(), tcp, op, key)
		wantDenied(t, string(op), err, filepath.Join(dir, "berth.sock"))
	}

	socket := overSocket(t, dir)
	for _, op := range []cluster.GossipKeyOperation{cluster.GossipKeyInstall, cluster.GossipKeyUse} {
		rings, err := operator.GossipKeyring(t.Context(), socket, op, key)
		if err != nil || rings.NumNodes != 1 || rings.NumErr != 0 {
			t.Errorf("%s over the socket: got %+v, error %v", op, rings, err)
		}
	}
	rings, err := operator.GossipKeyring(t.Context(), socket, cluster.GossipKeyList, "")
	if err != nil || len(rings.Keys) != 2 || rings.PrimaryKeys[key] != 1 || rings.Keys[canaryKey] != 1 {
		t.Errorf("the keys are %+v, error %v", rings, err)
	}
}

func TestGossipKeyring_NeedsAServerThatEncrypts(t *testing.T) {
	dir := shortDir(t)
	startServer(t, "-data-dir", dir)
	_, err := operator.GossipKeyring(t.Context(), overSocket(t, dir), cluster.GossipKeyList, "")
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "server.encrypt") {
		t.Errorf("a server without a key: got %v", err)
	}
	_, err = local{&Agent{}}.GossipKeyring(t.Context(), cluster.GossipKeyList, "")
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "no server") {
		t.Errorf("an agent without a server: got %v", err)
	}
}

// TestGossipKey_IsInNoOutput looks for the key in all that an agent tells, also of requests that fail.
func TestGossipKey_IsInNoOutput(t *testing.T) {
	dir, addr, log := startEncrypted(t, "-log-level", "trace")
	check := func(what, text string) {
		t.Helper()
		if strings.Contains(text, canaryKey[:12]) || strings.Contains(text, "canary") {
			t.Errorf("%s shows the key: %s", what, text)
		}
	}
	for _, path := range []string{
		"/v1/agent/self",
		"/v1/agent/members",
		"/v1/metrics",
		"/v1/metrics?format=prometheus",
		"/v1/operator/raft/configuration",
	} {
		check(path, string(get(t, addr+path)))
	}

	socket := overSocket(t, dir)
	for _, op := range []cluster.GossipKeyOperation{
		cluster.GossipKeyInstall, cluster.GossipKeyUse, cluster.GossipKeyRemove} {
		_, err := operator.GossipKeyring(t.Context(), socket, op, canaryKey)
		check(string(op), fmt.Sprint(err))
		_, err = operator.GossipKeyring(t.Context(), socket, op, canaryKey+"=")
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s with a wrong key: got %v", op, err)
		}
		check(string(op), fmt.Sprint(err))
	}

	for _, line := range []string{
		encryptWith(canaryKey + "="),
		`  encrypt = ["` + canaryKey + `"]`,
		`  encrypt = { key = "` + canaryKey + `" }`,
		encryptWith(canaryKey) + "\n" + encryptWith(canaryKey),
	} {
		writeConfig(t, filepath.Join(dir, "agent.hcl"), line)
		err := operator.Reload(t.Context(), socket)
		if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "encrypt") {
			t.Errorf("with %s: got %v", line, err)
		}
		check("a reload", fmt.Sprint(err))
	}
	writeConfig(t, filepath.Join(dir, "agent.hcl"), encryptWith(cluster.NewGossipKey()))
	if err := operator.Reload(t.Context(), socket); err != nil {
		t.Error(err)
	}
	log.await(t, "server.encrypt") // takes effect after a restart, and is named
	log.await(t, "gossip has keys to encrypt")
	log.mu.Lock()
	defer log.mu.Unlock()
	check("the log", log.seen.String())
}

func TestGossipKey_NeedsTheRightForm(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Server.Enabled = true
	cfg.BindAddr = "127.0.0.1"
	cfg.DataDir = "/data"
	cfg.Server.Encrypt = structs.Secret(canaryKey[4:])
	err := cfg.Finish()
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), "server: encrypt") ||
		!strings.Contains(err.Error(), cluster.GossipKeyCommand) {
		t.Errorf("got %v", err)
	}
}
