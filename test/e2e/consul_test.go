package e2e

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"berth/test/consultest"
)

// inConsul returns the job file with its services in Consul.
func (a *agent) inConsul(file string) string {
	a.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		a.t.Fatal(err)
	}
	const overridable = "provider = \"consul\"\n      enable_tag_override = true"
	return a.writeFile("consul-web.hcl", strings.ReplaceAll(string(text), `provider = "berth"`, overridable))
}

// useConsul makes the agent use a Consul.
func (a *agent) useConsul(c *consultest.Agent) *agent {
	a.args = append(a.args, "-config", a.writeFile("consul.hcl", fmt.Sprintf(
		"consul {\n  address = %q\n  token = %q\n}\n", c.Addr, consultest.ManagementToken)))
	return a
}

// found returns the instances of a service in Consul whose checks pass or, with all, of all.
func found(t *testing.T, c *consultest.Agent, name string, all bool) []*api.ServiceEntry {
	t.Helper()
	entries, _, err := c.API.Health().Service(name, "", !all, nil)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func awaitPassing(t *testing.T, c *consultest.Agent, name string, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d instances of %s pass", want, name), func() error {
		entries, _, err := c.API.Health().Service(name, "", true, nil)
		if err == nil && len(entries) != want {
			err = fmt.Errorf("%d pass", len(entries))
		}
		return err
	})
}

// TestConsul_HasTheServicesOfJobs runs a job with checks beside a real Consul, kills both agents, and counts
// the leftovers.
func TestConsul_HasTheServicesOfJobs(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, consultest.Options{ACLs: true})
	a := newAgent(t, "one", "-server", "-client").allowRaw().useConsul(c).onLoopback(20)
	a.start()
	script := `check {
        name     = "script"
        type     = "script"
        task     = "server"
        command  = "/bin/true"
        interval = "1s"
        timeout  = "5s"
      }`
	plain := a.webJob(1, "}\n      "+strings.TrimSuffix(script, "}"), `shutdown_delay = "3s"`)
	a.must("job", "run", a.inConsul(plain)) // it waits for the checks in Consul
	web := found(t, c, "web", true)
	tags := []string{"group", "of-web"}
	if len(web) != 1 || !slices.Equal(web[0].Service.Tags, tags) || len(web[0].Checks) != 3 {
		t.Fatalf("Consul has %+v", web)
	}
	for _, check := range web[0].Checks {
		// A check that has passed may fail again on a busy machine, and then it says why.
		if check.Status != api.HealthPassing && check.Output == "" {
			t.Errorf("job run has not waited for the check %q", check.Name)
		}
	}
	awaitPassing(t, c, "web", 1)
	awaitPassing(t, c, "plain", 1)
	awaitPassing(t, c, "berth-client", 1)
	id := web[0].Service.ID
	alloc := a.awaitRunning("web", 1)[0].ID

	a.makeSick(alloc)
	awaitPassing(t, c, "web", 0)
	eventually(t, "alloc checks shows the failure", func() error {
		if out := a.must("alloc", "checks", alloc); !strings.Contains(out, "503") {
			return errors.New(out)
		}
		return nil
	})
	a.makeWell(alloc)
	awaitPassing(t, c, "web", 1)

	// Tags of others stay when the agent is killed and starts again.
	now := found(t, c, "web", true)[0].Service
	err := c.API.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID:                now.ID,
		Name:              now.Service,
		Tags:              []string{"theirs"},
		Meta:              now.Meta,
		Port:              now.Port,
		Address:           now.Address,
		EnableTagOverride: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	a.kill()
	a.start()
	eventually(t, "the agent sends results of scripts again", func() error {
		out, err := a.run("alloc", "checks", alloc)
		if err == nil && (strings.Contains(out, "pending") || !strings.Contains(out, "success")) {
			err = errors.New(out)
		}
		return err
	})
	if s := found(t, c, "web", true)[0].Service; !slices.Equal(s.Tags, []string{"theirs"}) || s.ID != id {
		t.Errorf("after a restart of the agent: %+v", s)
	}

	c.Kill()
	c.Run() // it has lost everything
	awaitPassing(t, c, "web", 1)
	awaitPassing(t, c, "plain", 1)
	if got := a.awaitRunning("web", 1)[0].ID; got != alloc {
		t.Errorf("allocation %s has replaced %s", got, alloc)
	}

	a.must("job", "stop", "-detach", "web")
	eventually(t, "the services are gone", func() error {
		if n := len(found(t, c, "web", true)) + len(found(t, c, "plain", true)); n > 0 {
			return fmt.Errorf("%d are there", n)
		}
		return nil
	})
	a.must("job", "stop", "-purge", "web")
	a.stop()
	left, err := c.API.Agent().Services()
	if err != nil || len(left) > 0 {
		t.Errorf("at the end Consul has %v, %v", left, err)
	}
	checks, err := c.API.Agent().Checks()
	if err != nil || len(checks) > 0 {
		t.Errorf("at the end Consul has the checks %v, %v", checks, err)
	}
}

// TestConsul_IsNeededByServices runs a job without Consul, and then a node that finds its servers in Consul.
func TestConsul_IsNeededByServices(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, consultest.Options{ACLs: true})
	s := newAgent(t, "s0", "-server").useConsul(c)
	s.ready = (*agent).hasLeader
	s.start()
	bare := newAgent(t, "n0", "-client", "-servers", "127.0.0.1:"+strconv.Itoa(s.rpc)).allowRaw()
	bare.start()
	s.must("job", "run", "-detach", s.inConsul(s.webJob(1, "", "")))
	eventually(t, "job why says that there is no Consul", func() error {
		if out := s.must("job", "why", "web"); !strings.Contains(out, "no Consul 1.8.0 or later") {
			return errors.New(out)
		}
		return nil
	})
	n := newAgent(t, "n1", "-client").allowRaw().useConsul(c)
	n.start()
	awaitPassing(t, c, "web", 1)
	out := s.must("node", "status", "-verbose", "n1")
	for _, attribute := range []string{"consul.version", "consul.datacenter", "unique.consul.name"} {
		if !strings.Contains(out, attribute) {
			t.Errorf("node status lacks %s:\n%s", attribute, out)
		}
	}
	s.must("job", "stop", "-purge", "web")
}
