package e2e

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/consul/api"

	"berth/consul"
	"berth/internal/consultest"
)

// readsKey is a job whose task waits for a key of Consul, which it reads with the token of its own login.
const readsKey = `
job "reads" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "cat local/limit; echo; test -n \"$CONSUL_HTTP_TOKEN\" && echo has a token; exec sleep 100000"]
      }
      identity {
        name = "consul_default"
        aud  = ["consul.io"]
      }
      template {
        destination = "local/limit"
        data        = "the limit is {{ key \"app/limit\" }}"
      }
      kill_timeout = "1s"
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
`

// takeIdentities gives a Consul the auth method, the role and the binding rule for tasks of a cluster, whose
// keys it reads at an agent.
func takeIdentities(t *testing.T, c *consultest.Agent, a *agent) {
	t.Helper()
	acl := c.API.ACL()
	_, _, err := acl.AuthMethodCreate(&api.ACLAuthMethod{
		Name: consul.DefaultAuthMethod,
		Type: "jwt",
		Config: map[string]any{
			"JWKSURL":          fmt.Sprintf("http://127.0.0.1:%d/.well-known/jwks.json", a.http),
			"JWTSupportedAlgs": []string{"RS256"},
			"BoundAudiences":   []string{"consul.io"},
			"ClaimMappings":    map[string]string{"nomad_job_id": "nomad_job_id"},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rules := `key_prefix "app/" { policy = "read" }`
	policy, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: "reads", Rules: rules}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = acl.RoleCreate(&api.ACLRole{
		Name:     "of-reads",
		Policies: []*api.ACLRolePolicyLink{{ID: policy.ID}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = acl.BindingRuleCreate(&api.ACLBindingRule{
		AuthMethod: consul.DefaultAuthMethod,
		BindType:   api.BindingRuleBindTypeRole,
		BindName:   "of-${value.nomad_job_id}",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

// loggedIn counts the tokens that logins of tasks have made.
func loggedIn(t *testing.T, c *consultest.Agent) (n int) {
	t.Helper()
	all, _, err := c.API.ACL().TokenList(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range all {
		if token.AuthMethod == consul.DefaultAuthMethod {
			n++
		}
	}
	return n
}

// TestConsulIdentity_LogsInByTheKeysOfTheCluster has a real Consul read the public keys of a running cluster,
// and a task log in there. The login ends with the allocation.
func TestConsulIdentity_LogsInByTheKeysOfTheCluster(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, consultest.Options{ACLs: true})
	_, err := c.API.KV().Put(&api.KVPair{Key: "app/limit", Value: []byte("10")}, nil)
	if err != nil {
		t.Fatal(err)
	}

	a := newAgent(t, "one", "-server", "-client").allowRaw().useConsul(c).withKeyring()
	a.start()
	takeIdentities(t, c, a)

	a.must("job", "run", "-detach", a.writeFile("reads.hcl", readsKey))
	alloc := a.awaitRunning("reads", 1)[0]
	a.awaitOutput(alloc.ID, "the limit is 10\n", "has a token\n")
	if n := loggedIn(t, c); n != 1 {
		t.Errorf("Consul has %d tokens of logins, want 1", n)
	}

	a.must("job", "stop", "-purge", "-detach", "reads")
	eventually(t, "the login has ended", func() error {
		if loggedIn(t, c) > 0 {
			return errors.New("Consul still has its token")
		}
		return nil
	})
}
