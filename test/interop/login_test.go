package interop

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	public "github.com/hashicorp/nomad/api"

	"berth/internal/authmethod/issuertest"
)

// startLoginAgent starts an agent with access control and a root key, and makes its first token.
func startLoginAgent(t *testing.T) (addr string, root *public.Client) {
	t.Helper()
	bin := os.Getenv("BERTH_BIN")
	if bin == "" {
		t.Skip("needs a berth binary (BERTH_BIN)")
	}

	config := agentConfig + "acl {\n  enabled = true\n}\n"
	addr = startAgent(t, bin, config, "-dev", "-rpc-port", "0", "-serf-port", "0")
	c, err := public.NewClient(&public.Config{Address: addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	awaitAnswer(t, "the first token", func(*public.QueryOptions) (bool, *public.QueryMeta, error) {
		made, _, err := c.ACLTokens().Bootstrap(nil)
		if err == nil {
			c.SetSecretID(made.SecretID)
		}
		return err == nil, nil, err
	})
	return addr, c
}

// methods creates an auth method of each type for a provider, and a policy for both.
func methods(t *testing.T, c *public.Client, i *issuertest.Issuer) {
	t.Helper()
	p := &public.ACLPolicy{Name: "nodes", Rules: "node {\n  policy = \"read\"\n}\n"}
	_, err := c.ACLPolicies().Upsert(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*public.ACLAuthMethod{
		{
			Name: "ci", Type: "JWT", TokenLocality: "local", MaxTokenTTL: 2 * time.Second, Default: true,
			Config: &public.ACLAuthMethodConfig{
				JWKSURL: i.URL + "/keys", BoundAudiences: []string{issuertest.Client},
				ListClaimMappings: map[string]string{"groups": "groups"},
			},
		},
		{
			Name: "corp", Type: "OIDC", TokenLocality: "local", MaxTokenTTL: time.Hour, Default: true,
			Config: &public.ACLAuthMethodConfig{
				OIDCDiscoveryURL: i.URL, OIDCClientID: issuertest.Client, OIDCClientSecret: "client-secret",
				AllowedRedirectURIs: []string{"http://localhost:4649/oidc/callback"},
				ListClaimMappings:   map[string]string{"groups": "groups"},
			},
		},
	} {
		_, _, err := c.ACLAuthMethods().Create(m, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = c.ACLBindingRules().Create(&public.ACLBindingRule{
			AuthMethod: m.Name, Selector: `"dev" in list.groups`, BindType: "policy", BindName: "nodes",
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// mayReadNodes reports whether a token may read the nodes.
func mayReadNodes(c *public.Client, secret string) bool {
	_, _, err := c.Nodes().List(&public.QueryOptions{AuthToken: secret})
	return err == nil
}

// TestPublicClient_LogsIn goes through logins by a JWT and by OIDC and through one-time tokens with the
// newest public client: from the first token to the end of a token.
func TestPublicClient_LogsIn(t *testing.T) {
	t.Parallel()
	_, c := startLoginAgent(t)
	i := issuertest.New(t)
	methods(t, c, i)
	nobody := &public.WriteOptions{AuthToken: "anonymous"}

	jwt := &public.ACLLoginRequest{
		AuthMethodName: "ci",
		LoginToken:     i.JWT(map[string]any{"groups": []string{"dev"}}),
	}
	token, _, err := c.ACLAuth().Login(jwt, nobody)
	if err != nil {
		t.Fatal(err)
	}
	if token.Policies[0] != "nodes" || token.ExpirationTime == nil {
		t.Errorf("got %+v, want a token of the policy nodes with an end", token)
	}
	awaitAnswer(t, "the end of the token", func(*public.QueryOptions) (bool, *public.QueryMeta, error) {
		return !mayReadNodes(c, token.SecretID), nil, nil
	})
	jwt.LoginToken = i.JWT(map[string]any{"groups": []string{"hr"}})
	_, _, err = c.ACLAuth().Login(jwt, nobody)
	if err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a login that no rule matches: got %v, want 403", err)
	}

	i.Person(map[string]any{"sub": "ann", "groups": []string{"dev"}}, nil)
	begun := &public.ACLOIDCAuthURLRequest{
		AuthMethodName: "corp",
		RedirectURI:    "http://localhost:4649/oidc/callback",
		ClientNonce:    "fpSPuaodKevKfDU3IeXb",
	}
	address, _, err := c.ACLAuth().GetAuthURL(begun, nobody)
	if err != nil {
		t.Fatal(err)
	}
	back := i.Browse(address.AuthURL)
	token, _, err = c.ACLAuth().CompleteAuth(&public.ACLOIDCCompleteAuthRequest{
		AuthMethodName: "corp", RedirectURI: begun.RedirectURI, ClientNonce: begun.ClientNonce,
		State: back.Get("state"), Code: back.Get("code"), Iss: back.Get("iss"),
	}, nobody)
	if err != nil || !mayReadNodes(c, token.SecretID) {
		t.Fatalf("got %+v, %v, want a token that reads nodes", token, err)
	}

	once, _, err := c.ACLTokens().UpsertOneTimeToken(&public.WriteOptions{AuthToken: token.SecretID})
	if err != nil {
		t.Fatal(err)
	}
	same, _, err := c.ACLTokens().ExchangeOneTimeToken(once.OneTimeSecretID, nobody)
	if err != nil || same.SecretID != token.SecretID {
		t.Errorf("got %+v, %v, want the same token", same, err)
	}
	_, _, err = c.ACLTokens().ExchangeOneTimeToken(once.OneTimeSecretID, nobody)
	if err == nil {
		t.Error("a one-time token gives its token twice")
	}
}

// TestCommandLine_LogsInByABrowser logs in with berth's command line, and plays the browser.
func TestCommandLine_LogsInByABrowser(t *testing.T) {
	t.Parallel()
	addr, c := startLoginAgent(t)
	i := issuertest.New(t)
	methods(t, c, i)
	i.Person(map[string]any{"sub": "ann", "groups": []string{"dev"}}, nil)
	out := browse(t, exec.Command(os.Getenv("BERTH_BIN"), "login", "-address", addr, "-method", "corp",
		"-oidc-callback-addr", "localhost:0"))
	secret := field(out, "Secret ID")
	if secret == "" || !mayReadNodes(c, secret) {
		t.Errorf("got no token that reads nodes:\n%s", out)
	}
}

// browse runs a command that prints an address, visits the address as a browser does, and returns the output.
func browse(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := browseBy(t, cmd, func(address string) { checkNoError(t, "a visit", visit(address)) })
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return out
}

// visit reads an address and follows its redirects.
func visit(address string) error {
	resp, err := http.Get(address)
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

// browseBy is browse with another browser. The error is that of the command.
func browseBy(t *testing.T, cmd *exec.Cmd, browser func(address string)) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	// Without the programs of the machine: a login opens its browser, if it has one, and may wait for it.
	cmd.Env = append(cmd.Environ(), "PATH="+t.TempDir())
	err = cmd.Start()
	if err != nil {
		t.Fatal(err)
	}

	var out strings.Builder
	visited := false
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		out.WriteString(lines.Text() + "\n")
		address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/authorize\?\S+`).FindString(lines.Text())
		if address != "" && !visited {
			visited = true
			browser(address)
		}
	}
	return out.String(), cmd.Wait()
}

// TestPeersCommandLine_LogsIn goes through the life of auth methods, binding rules and logins with the peer's
// command line.
func TestPeersCommandLine_LogsIn(t *testing.T) {
	t.Parallel()
	peer, c := startGuardedAgent(t)
	management, _, err := c.ACLTokens().Self(nil)
	if !checkNoError(t, "reading the own token", err) {
		return
	}
	root := peer.as(management.SecretID)
	i := issuertest.New(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		checkNoError(t, "writing a file", os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	root.run("acl", "policy", "apply", "nodes", file("nodes.hcl", "node {\n  policy = \"read\"\n}\n"))
	config := file("ci.json", `{"JWKSURL": "`+i.URL+`/keys", "BoundAudiences": ["berth"], `+
		`"ListClaimMappings": {"groups": "groups"}}`)
	root.checkOutput(root.run("acl", "auth-method", "create", "-name", "ci", "-type", "JWT",
		"-max-token-ttl", "3s", "-token-locality", "local", "-default=true", "-config", "@"+config), "ci", "JWT")
	root.checkOutput(root.run("acl", "auth-method", "list"), "ci", "JWT", "true")
	root.checkOutput(root.run("acl", "auth-method", "info", "ci"), "/keys")
	root.checkOutput(root.run("acl", "auth-method", "update", "-max-token-ttl", "2s", "ci"), "2s")

	rule := root.run("acl", "binding-rule", "create", "-auth-method", "ci", "-bind-type", "policy",
		"-bind-name", "nodes", "-selector", `"dev" in list.groups`)
	id := field(rule, "ID")
	root.checkOutput(root.run("acl", "binding-rule", "list"), "ci")
	root.checkOutput(root.run("acl", "binding-rule", "info", id), "nodes", "list.groups")
	root.checkOutput(root.run("acl", "binding-rule", "update", "-description", "developers", id), "developers")

	jwt := i.JWT(map[string]any{"groups": []string{"dev"}})
	made := peer.run("login", "-method", "ci", "-type", "JWT", "-login-token", jwt)
	secret := field(made, "Secret ID")
	awaitAnswer(t, "the end of the token", func(*public.QueryOptions) (bool, *public.QueryMeta, error) {
		return !mayReadNodes(c, secret), nil, nil
	})
	peer.exits(1, "login", "-method", "ci", "-type", "JWT", "-login-token", i.JWT(nil))

	config = file("corp.json", `{"OIDCDiscoveryURL": "`+i.URL+`", "OIDCClientID": "berth", `+
		`"OIDCClientSecret": "client-secret", "AllowedRedirectURIs": ["http://localhost:4649/oidc/callback"]}`)
	root.run("acl", "auth-method", "create", "-name", "corp", "-type", "OIDC", "-max-token-ttl", "1h",
		"-token-locality", "local", "-config", "@"+config)
	root.run("acl", "binding-rule", "create", "-auth-method", "corp", "-bind-type", "management")
	out := root.run("acl", "auth-method", "info", "corp")
	if strings.Contains(out, "client-secret") {
		t.Errorf("the output has the client secret:\n%s", out)
	}
	login := exec.Command(peer.bin, "login", "-method", "corp")
	login.Env = append(os.Environ(), "NOMAD_ADDR="+peer.addr, "NOMAD_CLI_NO_COLOR=1")
	peer.checkOutput(browse(t, login), "management")

	root.run("acl", "binding-rule", "delete", id)
	root.run("acl", "auth-method", "delete", "ci")
	peer.exits(1, "login", "-method", "ci", "-type", "JWT", "-login-token", jwt)
}
