package interop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	public "github.com/hashicorp/nomad/api"

	"berth/test/kit"
)

// localPeer returns the peer's command line with a directory for its files. It skips the test without it, and
// without berth's.
func localPeer(t *testing.T) (peer peerCLI, berth string) {
	t.Helper()
	peer = peerCLI{
		t:   t,
		bin: os.Getenv("PEER_BIN"),
		dir: t.TempDir(),
	}
	berth = os.Getenv("BERTH_BIN")
	if peer.bin == "" || berth == "" {
		t.Skip("needs the peer's command line: PEER_BIN=$(scripts/peer.sh), and a berth binary (BERTH_BIN)")
	}
	return peer, berth
}

// serverFile is the configuration of a server. Its placeholders are the directory and three ports.
const serverFile = `data_dir  = %q
name      = "of-the-file"
bind_addr = "127.0.0.1"

advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}

ports {
  http = %d
  rpc  = %d
  serf = %d
}

server {
  enabled          = true
  bootstrap_expect = 1
}

consul {
  address = ""
}
`

// TestPeersCommandLine_RunsAnAgentByTheSameFile starts the peer's agent, and then berth's, by one file.
func TestPeersCommandLine_RunsAnAgentByTheSameFile(t *testing.T) {
	t.Parallel()
	peer, bin := localPeer(t)
	peer.checkOutput(peer.run("version"), "Nomad v1.6.1")
	ports := kit.FreePorts(t, 3)
	settings := fmt.Sprintf(serverFile, filepath.Join(peer.dir, "data"), ports[0], ports[1], ports[2])
	file := filepath.Join(peer.dir, "agent.hcl")
	checkNoError(t, "writing the file", os.WriteFile(file, []byte(settings), 0o600))
	peer.checkOutput(peer.run("config", "validate", file), "Configuration is valid")
	peerCLI{t: t, bin: bin}.run("config", "validate", file)

	theirs := peer.stream("agent", "-config", file)
	theirs.await("Nomad agent started", func() {})
	theirs.end(syscall.SIGKILL)
	peer.addr = startAgent(t, bin, settings)
	c, err := public.NewClient(&public.Config{Address: peer.addr})
	checkNoError(t, "the client", err)
	t.Cleanup(c.Close)
	awaitAnswer(t, "a leader", func(*public.QueryOptions) (bool, *public.QueryMeta, error) {
		leader, err := c.Status().Leader()
		return leader == fmt.Sprint("127.0.0.1:", ports[1]), nil, err
	})
	peer.checkOutput(peer.run("server", "members"), "of-the-file.global", fmt.Sprint(ports[2]))
}

// TestPeersCommandLine_MakesAnAuthority makes a certificate authority, of which berth makes the certificates
// of a server and an operator. The peer's own certificates name no role, so berth rejects them.
func TestPeersCommandLine_MakesAnAuthority(t *testing.T) {
	t.Parallel()
	peer, bin := localPeer(t)
	peer.run("tls", "ca", "create")
	berth := peerCLI{t: t, bin: bin, dir: peer.dir}
	for _, of := range [][]string{{"-server", "-id", "s0"}, {"-cli", "-id", "ann"}} {
		berth.run(append([]string{"tls", "cert", "create", "-ca", "nomad-agent-ca.pem",
			"-key", "nomad-agent-ca-key.pem"}, of...)...)
	}
	peer.run("tls", "cert", "create", "-cli")
	peer.checkOutput(peer.run("tls", "ca", "info", "nomad-agent-ca.pem"), "Nomad Agent CA")
	peer.checkOutput(peer.run("tls", "cert", "info", "global-server-s0.pem"), "Nomad Agent CA", "CN=s0",
		"server.global.berth")

	path := func(name string) string { return filepath.Join(peer.dir, name) }
	settings := fmt.Sprintf("bind_addr = \"127.0.0.1\"\nconsul {\n  address = \"\"\n}\n"+
		"tls {\n  mode = \"require\"\n  ca_file = %q\n  cert_file = %q\n  key_file = %q\n}\n",
		path("nomad-agent-ca.pem"), path("global-server-s0.pem"), path("global-server-s0-key.pem"))
	peer.addr = startAgent(t, bin, settings, "-server", "-bootstrap-expect", "1", "-name", "s0",
		"-rpc-port", "0", "-serf-port", "0")
	members := func(certificate string) []string {
		return []string{"server", "members", "-ca-cert", "nomad-agent-ca.pem",
			"-client-cert", certificate + ".pem", "-client-key", certificate + "-key.pem"}
	}
	(&callFixture{t: t}).await("an answer of the server", func() (bool, error) {
		code, out := peer.result(members("global-operator-ann")...)
		return code == 0 && strings.Contains(out, "s0.global"), errors.New(out)
	})
	peer.checkOutput(peer.exits(1, members("global-cli-nomad")...), "bad certificate")
}

// TestPeersCommandLine_WritesExampleFiles writes the examples of the peer's command line, and applies them.
// The example of a volume needs a plugin: see editExampleVolume.
func TestPeersCommandLine_WritesExampleFiles(t *testing.T) {
	t.Parallel()
	peer, c := connectPeer(t)
	peer.dir = t.TempDir()
	peer.checkOutput(peer.run("node", "pool", "init"), "pool.nomad.hcl")
	peer.run("node", "pool", "apply", "pool.nomad.hcl")
	pool, _, err := c.NodePools().Info("example", nil)
	if err != nil || pool.Description == "" {
		t.Errorf("the node pool is %+v, %v", pool, err)
	}
	peer.checkOutput(peer.run("node", "pool", "nodes", "example"), "No nodes")
	peer.checkOutput(peer.run("node", "pool", "jobs", "example"), "No jobs")
	peer.run("node", "pool", "delete", "example")
	peer.exits(1, "node", "pool", "info", "example")

	peer.checkOutput(peer.run("var", "init"), "spec.nv.hcl")
	peer.run("var", "put", "app/example", "@spec.nv.hcl")
	v, _, err := c.Variables().Read("app/example", nil)
	if err != nil || v.Items["key1"] != "value 1" || v.Items["key2"] != "value 2" {
		t.Errorf("the variable is %+v, %v", v, err)
	}
}
