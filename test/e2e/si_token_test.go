package e2e

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"berth/test/consultest"
	"berth/test/kit"
)

// tokensFor returns the tokens in Consul that name one of the allocations: their accessors by service.
func tokensFor(t *testing.T, c *consultest.Agent, allocs ...string) map[string]string {
	t.Helper()
	all, _, err := c.API.ACL().TokenList(nil)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, token := range all {
		ofAllocs := slices.ContainsFunc(allocs, func(id string) bool {
			return strings.Contains(token.Description, id)
		})
		switch {
		case !ofAllocs:
		case len(token.ServiceIdentities) != 1 || len(token.Policies) != 0 || !token.Local:
			t.Errorf("a token is %+v", token)
		case found[token.ServiceIdentities[0].ServiceName] != "":
			t.Errorf("a second token for the service %s", token.ServiceIdentities[0].ServiceName)
		default:
			found[token.ServiceIdentities[0].ServiceName] = token.AccessorID
		}
	}
	return found
}

// secretOf returns the secret of a token.
func secretOf(t *testing.T, c *consultest.Agent, accessor string) string {
	t.Helper()
	token, _, err := c.API.ACL().TokenRead(accessor, nil)
	if err != nil {
		t.Fatal(err)
	}
	return token.SecretID
}

// TestConnect_ProxiesHaveTokensUntilTheJobEnds runs two proxies beside a Consul with ACLs, in which requests
// without a token have no rights. The ends of the agent and of a proxy make no further tokens.
func TestConnect_ProxiesHaveTokensUntilTheJobEnds(t *testing.T) {
	t.Parallel()
	if !kit.InOwnNetwork(t, "iptables") {
		return
	}
	c := consultest.Start(t, consultest.Options{ACLs: true, Server: true})
	a := agentInMesh(t, c)
	defer a.explainFailure("talk")
	intend(t, c, "talk", "echo", api.IntentionActionAllow)
	a.must("job", "run", "-detach", a.talkJob())
	talk := a.allocOf("talk", "talk").ID
	echo := a.allocOf("talk", "echo").ID
	a.awaitMore(talk, "main", "1 ")
	tokens := tokensFor(t, c, talk, echo)
	if len(tokens) != 2 || tokens["talk"] == "" || tokens["echo"] == "" {
		t.Fatalf("the tokens are of %v", tokens)
	}
	secret := secretOf(t, c, tokens["talk"])
	path := a.data("alloc", talk, "connect-proxy-talk", "secrets", "si_token")
	text, err := os.ReadFile(path)
	if err != nil || string(text) != secret {
		t.Errorf("the file does not have the token of the service: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o440 {
		t.Errorf("the file is %v, %v", info, err)
	}

	a.kill()
	a.start()
	a.awaitMore(talk, "main", "1 ")
	a.must("alloc", "restart", talk, "connect-proxy-talk")
	a.awaitMore(talk, "main", "\n2 ")
	if now := tokensFor(t, c, talk, echo); !maps.Equal(now, tokens) {
		t.Errorf("the tokens are %v, were %v", now, tokens)
	}

	a.must("job", "stop", "-purge", "talk")
	eventually(t, "the tokens are revoked", func() error {
		if left := tokensFor(t, c, talk, echo); len(left) > 0 {
			return fmt.Errorf("%v are left", left)
		}
		return nil
	})
	for _, alloc := range []string{talk, echo} {
		a.checkNetworkGone(alloc)
		eventually(t, "the secrets are gone", func() error {
			if left := mountsBelow(a.data("alloc", alloc)); len(left) > 0 {
				return fmt.Errorf("mounted are still %q", left)
			}
			return nil
		})
	}
	log, err := os.ReadFile(a.log.Name())
	if err != nil || strings.Contains(string(log), secret) {
		t.Errorf("the log has a token: %v", err)
	}
}
