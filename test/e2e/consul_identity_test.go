package e2e

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/hashicorp/consul/api"

	"berth/consul"
	"berth/test/consultest"
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

// takeIdentities prepares a Consul for the logins of tasks, by the command for that. Consul reads the keys of
// the cluster at an agent.
func takeIdentities(t *testing.T, c *consultest.Agent, a *agent) {
	t.Helper()
	rules := a.writeFile("tasks.hcl", `key_prefix "app/" { policy = "read" }`)
	cmd := exec.Command(binary, "setup", "consul", "-consul-address", c.Addr, "-policy-file", rules, "-y")
	cmd.Env = append(os.Environ(), "BERTH_ADDR=http://127.0.0.1:"+strconv.Itoa(a.http),
		"CONSUL_HTTP_TOKEN="+consultest.ManagementToken)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
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
