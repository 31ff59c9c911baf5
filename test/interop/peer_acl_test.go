package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	public "github.com/hashicorp/nomad/api"
)

// startGuardedAgent starts an agent with access control and makes its first token by the peer's command line.
func startGuardedAgent(t *testing.T) (peer peerCLI, c *public.Client) {
	t.Helper()
	peerBin := os.Getenv("PEER_BIN")
	bin := os.Getenv("BERTH_BIN")
	if peerBin == "" || bin == "" {
		t.Skip("needs the peer's command line: PEER_BIN=$(scripts/peer.sh), and a berth binary (BERTH_BIN)")
	}

	settings := agentConfig + "acl {\n  enabled = true\n}\n"
	peer = peerCLI{t: t, bin: peerBin}
	peer.addr = startAgent(t, bin, settings, "-dev", "-rpc-port", "0", "-serf-port", "0")
	c, err := public.NewClient(&public.Config{Address: peer.addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	awaitAnswer(t, "a leader", func(*public.QueryOptions) (bool, *public.QueryMeta, error) {
		leader, err := c.Status().Leader()
		return leader != "", nil, err
	})

	c.SetSecretID(field(peer.run("acl", "bootstrap"), "Secret ID"))
	return peer, c
}

// field returns the value of a name in the output of the peer's command line.
func field(output, name string) string {
	m := regexp.MustCompile(`(?m)^` + name + `\s*= (\S+)`).FindStringSubmatch(output)
	if m == nil {
		return ""
	}
	return m[1]
}

// as returns the command line with the token of a caller.
func (p peerCLI) as(secret string) peerCLI {
	p.token = secret
	return p
}

// TestPeersCommandLine_ControlsAccess goes through the life of policies, roles and tokens with the peer's
// command line, and looks at what each token may do.
func TestPeersCommandLine_ControlsAccess(t *testing.T) {
	t.Parallel()
	peer, c := startGuardedAgent(t)
	management, _, err := c.ACLTokens().Self(nil)
	if !checkNoError(t, "reading the own token", err) {
		return
	}
	root := peer.as(management.SecretID)
	peer.exits(1, "acl", "bootstrap")
	peer.exits(1, "node", "status")
	root.checkOutput(root.run("acl", "token", "self"), management.AccessorID, "management")

	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		checkNoError(t, "writing a policy", os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	reader := file("reader.hcl", "namespace \"default\" {\n  policy = \"read\"\n}\n")
	nodes := file("nodes.hcl", "node {\n  policy = \"read\"\n}\n")
	root.run("acl", "policy", "apply", "-description", "Reads jobs", "reader", reader)
	root.run("acl", "policy", "apply", "nodes", nodes)
	root.exits(1, "acl", "policy", "apply", "bad", file("bad.hcl", "namespace \"default\" {\n  policy = \"all\"\n}\n"))
	root.checkOutput(root.run("acl", "policy", "list"), "reader", "Reads jobs", "nodes")
	root.checkOutput(root.run("acl", "policy", "info", "reader"), "reader", `policy = "read"`)

	role := root.run("acl", "role", "create", "-name", "watchers", "-policy", "reader")
	roleID := field(role, "ID")
	root.checkOutput(root.run("acl", "role", "list"), "watchers", "reader")
	root.checkOutput(root.run("acl", "role", "info", "-by-name", "watchers"), roleID)
	root.checkOutput(root.run("acl", "role", "update", "-policy", "nodes", roleID), "reader", "nodes")

	made := root.run("acl", "token", "create", "-name", "duty", "-role-name", "watchers", "-ttl", "1h")
	accessor := field(made, "Accessor ID")
	duty := peer.as(field(made, "Secret ID"))
	root.checkOutput(root.run("acl", "token", "list"), accessor, "duty")
	root.checkOutput(root.run("acl", "token", "info", accessor), "duty", "watchers")
	duty.checkOutput(duty.run("acl", "token", "self"), accessor)
	duty.run("job", "status")
	duty.run("node", "status")
	duty.exits(1, "acl", "token", "list")
	duty.exits(1, "namespace", "apply", "prod")
	duty.exits(1, "system", "gc")

	root.run("acl", "role", "delete", roleID)
	duty.exits(1, "node", "status")
	root.checkOutput(root.run("acl", "token", "update", "-policy", "nodes", "-name", "night", accessor), "night")
	duty.run("node", "status")
	root.run("acl", "policy", "delete", "nodes")
	duty.exits(1, "node", "status")
	root.run("acl", "token", "delete", accessor)
	text := duty.exits(1, "acl", "token", "self")
	if !strings.Contains(text, "403") {
		t.Errorf("a deleted token: got %q, want the status 403", text)
	}
}
