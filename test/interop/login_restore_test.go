package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	public "github.com/hashicorp/nomad/api"

	"berth/internal/authmethod/issuertest"
)

// keyedAgent is an agent with access control.
type keyedAgent struct {
	addr   string
	root   *public.Client
	secret string // of the first token
}

// startKeyedAgent starts an agent with the key-encryption key of a file, and makes its first token.
func startKeyedAgent(t *testing.T, keyring string) keyedAgent {
	t.Helper()
	config := agentConfig + "acl {\n  enabled = true\n}\nserver {\n  keyring {\n    file = \"" + keyring +
		"\"\n  }\n}\n"
	bin := os.Getenv("BERTH_BIN")
	a := keyedAgent{addr: startAgent(t, bin, config, "-dev", "-rpc-port", "0", "-serf-port", "0")}
	c, err := public.NewClient(&public.Config{Address: a.addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	awaitAnswer(t, "the first token", func(*public.QueryOptions) (bool, *public.QueryMeta, error) {
		made, _, err := c.ACLTokens().Bootstrap(nil)
		if err == nil {
			a.secret = made.SecretID
			c.SetSecretID(a.secret)
		}
		return err == nil, nil, err
	})
	a.root = c
	return a
}

// TestCommandLine_LogsInAfterARestore saves the state of a cluster with auth methods, and restores it on
// another one with another key-encryption key. People log in there: the client secret of the method is still
// readable. The archive has it in no plain form.
func TestCommandLine_LogsInAfterARestore(t *testing.T) {
	t.Parallel()
	bin := os.Getenv("BERTH_BIN")
	if bin == "" {
		t.Skip("needs a berth binary (BERTH_BIN)")
	}
	dir := t.TempDir()
	berth := func(addr, token string, args ...string) string {
		t.Helper()
		return peerCLI{t: t, bin: bin, addr: addr, token: token}.run(args...)
	}
	first := filepath.Join(dir, "first")
	second := filepath.Join(dir, "second")
	for _, keyring := range []string{first, second} {
		berth("", "", "operator", "root", "keyring", "init", "-out", keyring, "-key-saved")
	}

	from := startKeyedAgent(t, first)
	i := issuertest.New(t)
	methods(t, from.root, i)
	i.Person(map[string]any{"sub": "ann", "groups": []string{"dev"}}, nil)
	archive := filepath.Join(dir, "backup.snap")
	berth(from.addr, from.secret, "operator", "snapshot", "save", archive)
	text, err := os.ReadFile(archive)
	if err != nil || strings.Contains(string(text), "client-secret") {
		t.Errorf("the archive has the client secret, or cannot be read: %v", err)
	}

	to := startKeyedAgent(t, second)
	berth(to.addr, to.secret, "operator", "snapshot", "restore", "-keyring-file", first, archive)
	to.root.SetSecretID(from.secret) // the tokens are those of the archive
	awaitAnswer(t, "the tokens of the archive", func(*public.QueryOptions) (bool, *public.QueryMeta, error) {
		_, _, err := to.root.ACLTokens().Self(nil)
		return err == nil, nil, nil
	})
	out := browse(t, exec.Command(bin, "login", "-address", to.addr, "-method", "corp",
		"-oidc-callback-addr", "localhost:0"))
	if !mayReadNodes(to.root, field(out, "Secret ID")) {
		t.Errorf("got no token that reads nodes:\n%s", out)
	}
	jwt := filepath.Join(dir, "jwt")
	token := i.JWT(map[string]any{"groups": []string{"dev"}})
	checkNoError(t, "writing a file", os.WriteFile(jwt, []byte(token), 0o600))
	berth(to.addr, "", "login", "-method", "ci", "-token-file", jwt)
}
