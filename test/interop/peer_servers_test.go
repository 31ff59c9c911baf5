package interop

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	public "github.com/hashicorp/nomad/api"
)

// TestPeersCommandLine_ChangesServers runs the verbs about servers, their keys and their state against a
// leader and a second server, which never gets a vote, so that the leader needs no other one.
func TestPeersCommandLine_ChangesServers(t *testing.T) {
	t.Parallel()
	bin := os.Getenv("PEER_BIN")
	if bin == "" || os.Getenv("BERTH_BIN") == "" {
		t.Skip("needs the peer's command line: PEER_BIN=$(scripts/peer.sh), and a berth binary (BERTH_BIN)")
	}
	f := &callFixture{t: t}
	first := f.newServer("s0", 1)
	keyring := filepath.Join(t.TempDir(), "keyring")
	peerCLI{t: t, bin: os.Getenv("BERTH_BIN")}.run("operator", "root", "keyring", "init", "-out", keyring,
		"-key-saved")
	settings := filepath.Join(t.TempDir(), "keyring.hcl")
	text := fmt.Sprintf("server {\n  keyring {\n    file = %q\n  }\n}\n", keyring)
	err := os.WriteFile(settings, []byte(text), 0o600)
	checkNoError(t, "writing the settings", err)
	first.args = append(first.args, "-config", settings)
	f.startServer(first)
	t.Cleanup(func() { first.stop(t) })
	f.awaitVoters(1)
	peer := peerCLI{t: t, bin: bin, addr: first.c.Address()}
	for _, sub := range []struct {
		name string
		test func(*callFixture, peerCLI)
	}{
		{"autopilot", testPeerConfiguresAutopilot},
		{"join and remove", testPeerJoinsServers},
		{"keys of the gossip", testPeerChangesGossipKeys},
		{"root keys", testPeerRotatesRootKeys},
		{"snapshot", testPeerRestoresASnapshot},
	} {
		t.Run(sub.name, func(t *testing.T) {
			f.t = t
			peer.t = t
			sub.test(f, peer)
		})
		if t.Failed() {
			return // some need what the ones before have done
		}
	}
}

func testPeerConfiguresAutopilot(f *callFixture, peer peerCLI) {
	peer.checkOutput(peer.run("operator", "autopilot", "set-config", "-server-stabilization-time", "24h",
		"-max-trailing-logs", "300"), "Configuration updated")
	text := peer.run("operator", "autopilot", "get-config")
	if field(text, "ServerStabilizationTime") != "24h0m0s" || field(text, "MaxTrailingLogs") != "300" {
		f.t.Errorf("the configuration is\n%s", text)
	}
	peer.exits(1, "operator", "autopilot", "set-config", "-server-stabilization-time", "-1s")
}

// testPeerJoinsServers makes a second server join. It dies, and the command line removes what is left of it.
func testPeerJoinsServers(f *callFixture, peer peerCLI) {
	first := f.servers[0]
	second := f.newServer("s1", 0)
	second.args = append(second.args, "-retry-join", "127.0.0.1:1") // nobody
	f.startServer(second)
	f.t.Cleanup(func() { second.stop(f.t) })
	f.await("it answers", func() (bool, error) {
		_, err := second.c.Agent().Self()
		return err == nil, err
	})
	peer.addr = second.c.Address()
	peer.checkOutput(peer.exits(1, "server", "join", "127.0.0.1:1"), "connection refused")
	peer.checkOutput(peer.run("server", "join", first.gossip), "Joined 1 servers successfully")
	peer.addr = first.c.Address()
	f.await("the second server is a member of Raft", func() (bool, error) {
		peers, err := f.peers()
		return peers[second.address] != nil, err
	})
	peer.checkOutput(peer.run("server", "members"), "s0.global", "s1.global", "alive")
	id := f.awaitPeers()[second.address].ID
	peer.checkOutput(peer.run("operator", "raft", "list-peers"), id, second.address, "leader", "false")
	peer.checkOutput(peer.exits(1, "server", "force-leave", "s1.global"), "is alive")
	peer.checkOutput(peer.exits(1, "server", "force-leave", "nobody"), `"nobody" is unknown`)

	second.kill(f.t)
	f.awaitMember("s1.global", "failed")
	peer.run("operator", "raft", "remove-peer", "-peer-id", id)
	if p := f.awaitPeers(); len(p) != 1 {
		f.t.Errorf("the members of Raft are %v", p)
	}
	peer.exits(1, "operator", "raft", "remove-peer", "-peer-address", second.address)
	peer.run("server", "force-leave", "s1.global")
	f.awaitMember("s1.global", "left")
	peer.checkOutput(peer.run("server", "members"), "left")
}

// testPeerChangesGossipKeys: berth shows and changes these keys over its operator socket alone, for which
// this command line knows no address. It needs a bridge to the socket, as ssh -L makes one.
func testPeerChangesGossipKeys(f *callFixture, peer peerCLI) {
	socket := filepath.Join(filepath.Dir(f.servers[0].config), "berth.sock")
	peer.checkOutput(peer.exits(1, "operator", "gossip", "keyring", "list"), "operator socket", socket)
	peer.addr = bridge(f.t, socket)
	next := strings.TrimSpace(peer.run("operator", "gossip", "keyring", "generate"))
	peer.checkOutput(peer.run("operator", "gossip", "keyring", "list"), gossipKey)
	peer.run("operator", "gossip", "keyring", "install", next)
	peer.checkOutput(peer.run("operator", "gossip", "keyring", "list"), gossipKey, next)
	peer.exits(1, "operator", "gossip", "keyring", "remove", gossipKey) // it is in use
	peer.run("operator", "gossip", "keyring", "use", next)
	peer.run("operator", "gossip", "keyring", "remove", gossipKey)
	text := peer.run("operator", "gossip", "keyring", "list")
	if !strings.Contains(text, next) || strings.Contains(text, gossipKey) {
		f.t.Errorf("the keys are\n%s", text)
	}
	peer.exits(1, "operator", "gossip", "keyring", "install", "short")
}

// bridge serves what a socket serves at an address of TCP, until the test ends.
func bridge(t *testing.T, socket string) (addr string) {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "localhost"})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	proxy.Transport = transport
	server := httptest.NewServer(proxy)
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.URL
}

func testPeerRotatesRootKeys(f *callFixture, peer peerCLI) {
	c := f.servers[0].c
	var before []*public.RootKeyMeta
	f.await("a root key", func() (_ bool, err error) {
		before, _, err = c.Keyring().List(nil)
		return len(before) == 1, err
	})
	former := before[0].KeyID
	peer.checkOutput(peer.run("operator", "root", "keyring", "list"), former[:8], "active")
	peer.checkOutput(peer.run("operator", "root", "keyring", "rotate", "-full", "-verbose"), "active")
	f.await("the former root key is inactive", func() (bool, error) {
		keys, _, err := c.Keyring().List(nil)
		return len(keys) == 2 && inactiveKey(keys) == former, err
	})
	peer.checkOutput(peer.run("operator", "root", "keyring", "list", "-verbose"), former, "inactive")
	peer.checkOutput(peer.run("operator", "root", "keyring", "remove", former), "Removed encryption key "+former)
	keys, _, err := c.Keyring().List(nil)
	if err != nil || len(keys) != 1 || keys[0].KeyID == former {
		f.t.Fatalf("the root keys are %+v, %v", keys, err)
	}
	peer.checkOutput(peer.exits(1, "operator", "root", "keyring", "remove", keys[0].KeyID), "is active")
}

func testPeerRestoresASnapshot(f *callFixture, peer peerCLI) {
	file := filepath.Join(f.t.TempDir(), "state.snap")
	peer.run("namespace", "apply", "saved")
	peer.checkOutput(peer.run("operator", "snapshot", "save", file), "State file written to "+file)
	peer.checkOutput(peer.run("operator", "snapshot", "inspect", file), "ID", "Index", "Version  1")
	peer.run("namespace", "delete", "saved")
	peer.checkOutput(peer.run("operator", "snapshot", "restore", file), "Snapshot Restored")
	f.await("the restored state", func() (bool, error) {
		n, _, err := f.servers[0].c.Namespaces().Info("saved", nil)
		return err == nil && n.Name == "saved", err
	})
	peer.checkOutput(peer.run("namespace", "list"), "saved")
	peer.exits(1, "operator", "snapshot", "restore", f.servers[0].config)
	// An archive of berth has another form inside.
	peer.checkOutput(peer.exits(1, "operator", "snapshot", "state", file), "Failed to read archive file")
}
