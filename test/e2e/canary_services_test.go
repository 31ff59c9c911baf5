package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/test/kit"
	"berth/test/shelf"
	"berth/vault/vaulttest"
)

// newVault starts a Vault with a secret, which each task may read.
func newVault(t *testing.T) *vaulttest.Server {
	v := vaulttest.New(t)
	v.Set(func(v *vaulttest.Server) {
		v.Verify = func(string) (map[string]any, error) { return nil, nil }
		v.DefaultRole = "all"
		v.Roles["all"] = vaulttest.Role{Paths: []string{"secret/"}, TTL: time.Hour}
		v.KV2["web"] = map[string]any{"password": ofVault}
	})
	return v
}

// consulOfCanaries stands for a Consul. It accepts everything, and notes the tokens and the other parts of
// the requests.
type consulOfCanaries struct {
	*httptest.Server
	mu       sync.Mutex
	tokens   map[string]bool
	requests []byte // without their tokens
}

func newConsulOfCanaries(t *testing.T) *consulOfCanaries {
	f := &consulOfCanaries{tokens: map[string]bool{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// ServeHTTP implements http.Handler.
func (f *consulOfCanaries) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := r.Header.Get("X-Consul-Token")
	r.Header.Del("X-Consul-Token")
	text, err := httputil.DumpRequest(r, true)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tokens[token] = true
	f.requests = append(f.requests, text...)
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	case r.URL.Path == "/v1/agent/self":
		_, _ = io.WriteString(w, `{"Config": {"Version": "1.15.4", "Datacenter": "dc1", "NodeName": "one"}}`)
	default:
		_, _ = io.WriteString(w, "{}")
	}
}

// seen returns an error unless requests had the tokens, and the requests without them.
func (f *consulOfCanaries) seen(tokens ...string) (requests []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, token := range tokens {
		if !f.tokens[token] {
			err = errors.Join(err, fmt.Errorf("no request has the token %q", token))
		}
	}
	return slices.Clone(f.requests), err
}

// useConsul makes an agent use the Consul, with lines for its token.
func (c *secretCluster) useConsul(a *agent, token string) {
	c.t.Helper()
	a.writeSecret("consul.hcl", fmt.Sprintf("consul {\n  address = %q\n  %s\n}\n", c.consul.URL, token))
}

// writeSecret writes a file of the operator, and returns its path.
func (a *agent) writeSecret(name, text string) string {
	a.t.Helper()
	path := filepath.Join(a.dir, "etc", name)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600))
	if err != nil {
		a.t.Fatal(err)
	}
	return path
}

// useVault makes an agent use the Vault, at which tasks log in.
func (c *secretCluster) useVault(a *agent) {
	c.t.Helper()
	config := c.vault.Config()
	a.writeSecret("vault.hcl", fmt.Sprintf(`
vault {
  enabled = true
  address = %q
  ca_file = %q
  default_identity { aud = ["vault.io"] }
}
`, config.Address, config.CAFile))
}

// readVault notes the token with which a task reads Vault. The task must have the secret of Vault.
func (c *secretCluster) readVault(alloc string) {
	c.t.Helper()
	given, err := os.ReadFile(c.n.data("alloc", alloc, "t", "secrets", "of-vault"))
	if err != nil || string(given) != ofVault {
		c.t.Errorf("the task has %q of Vault, %v", given, err)
	}
	token, err := os.ReadFile(c.n.data("alloc", alloc, "t", "secrets", "vault_token"))
	if err != nil || !c.vault.IsLive(string(token)) {
		c.t.Fatalf("the token of Vault: %v", err)
	}
	c.own["the token of Vault"] = token
}

// loudAgent is a fence agent that prints all of its input twice. It notes the digest of its password.
const loudAgent = `#!/bin/sh
input=$(cat)
echo "$input"
echo "$input" >&2
password=$(echo "$input" | sed -n 's/^password=//p')
action=$(echo "$input" | sed -n 's/^action=//p')
digest=$(printf %%s "$password" | sha256sum)
echo "$action ${digest%%%% *}" >>%s
[ "$action" != status ] || exit 2
`

// useDevice makes the server have a fence device with a secret, which fences every node.
func (c *secretCluster) useDevice() {
	c.t.Helper()
	program := filepath.Join(c.s.dir, "etc", "fence_loud")
	err := kit.WriteProgram(program, fmt.Sprintf(loudAgent, filepath.Join(c.st.root, "fenced")))
	if err != nil {
		c.t.Fatal(err)
	}
	c.s.writeSecret("fencing.hcl", fmt.Sprintf(`
server {
  fencing "loud" {
    agent        = %q
    options      = { ip = "192.0.2.1" }
    secret_files = { password = %q }
  }
}
`, program, c.s.writeSecret("password", ofDevice)))
}

// lineWithSecret stands in the output of a fence agent for a line with its password.
const lineWithSecret = "[a line with a secret]"

// fence runs a command with the device, whose agent must get its password for each of the actions.
func (c *secretCluster) fence(args []string, actions ...string) {
	c.t.Helper()
	c.search("node fence", []byte(c.must(append([]string{"node", "fence"}, args...)...)))
	for _, action := range actions {
		if line := action + " " + shelf.Digest(ofDevice) + "\n"; !strings.Contains(c.st.read("fenced"), line) {
			c.t.Errorf("the agent lacks its password for %s:\n%s", action, c.st.read("fenced"))
		}
	}
}

// fenceLost has the node with an ID be lost, and fences it.
func (c *secretCluster) fenceLost(id string) {
	c.t.Helper()
	c.n.kill()
	c.eventually("down", "node", "status")
	c.fence([]string{"n1"}, "off", "status")
	shown, _ := c.read("/v1/node/" + id + "/fence")
	if !strings.Contains(string(shown), lineWithSecret) {
		c.t.Errorf("the run of the device is not shown: %s", shown)
	}
}

// searchRequests searches what Consul was told, but for the tokens that prove who asks.
func (c *secretCluster) searchRequests() {
	c.t.Helper()
	var requests []byte
	eventually(c.t, "Consul has requests with each token", func() (err error) {
		requests, err = c.consul.seen(ofConsul, ofTokenFile)
		return err
	})
	c.search("a request to Consul", requests)
}
