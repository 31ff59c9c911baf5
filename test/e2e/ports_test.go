package e2e

import (
	"fmt"
	"strings"
	"testing"

	"berth/structs"
	"berth/test/kit"
)

// onLoopback makes an agent give n dynamic ports of the loopback address to its jobs. No other agent of the
// tests has these ports: agents that run at the same time do not know each other's.
func (a *agent) onLoopback(n int) *agent {
	a.t.Helper()
	ports := kit.FreePorts(a.t, n)
	a.args = append(a.args, "-config", a.writeFile("ports.hcl", fmt.Sprintf(`
client {
  network_interface = "lo"
  min_dynamic_port  = %d
  max_dynamic_port  = %d
  reserved {
    reserved_ports = "1-1023"
  }
}
`, ports[0], ports[n-1])))
	return a
}

// agentWithPorts starts an agent whose jobs get three dynamic ports of the loopback address.
func agentWithPorts(t *testing.T) *agent {
	t.Helper()
	a := newAgent(t, "one", "-server", "-client").allowRaw().onLoopback(3)
	a.start()
	return a
}

func TestPorts_ExampleHasItsPort(t *testing.T) {
	t.Parallel()
	a := agentWithPorts(t)
	a.must("job", "run", "-detach", example(t, "ports.hcl"))
	alloc := a.awaitRunning("ports", 1)[0].ID
	row := decode[structs.Allocation](t, a.must("alloc", "status", "-json", alloc))
	p := row.AllocatedResources.Shared.Ports[0]
	if p.Label != "http" || p.HostIP != "127.0.0.1" {
		t.Fatalf("the allocation has %+v", p)
	}
	a.awaitOutput(alloc, "listening at "+p.HostAddr()+"\n", fmt.Sprintf("port %d\n", p.Value))
	if out := a.must("alloc", "status", alloc); !strings.Contains(out, p.HostAddr()) {
		t.Errorf("the status of the allocation does not show its port:\n%s", out)
	}
	if out := a.must("node", "status", "-self"); !strings.Contains(out, "Host networks") {
		t.Errorf("the status of the node does not show its networks:\n%s", out)
	}
	a.must("job", "stop", "-purge", "ports")
}

// lockJob is a job whose tasks report if another task has one of their ports: each makes a directory for its
// port, and removes it a while after the request to stop.
func (a *agent) lockJob(name, network string, version int) string {
	return a.writeFile(name+".hcl", fmt.Sprintf(`
job "%s" {
  group "g" {
    count = 3
    network {
      %s
    }
    task "t" {
      driver       = "raw_exec"
      kill_timeout = "20s"
      config {
        command = "/bin/sh"
        args    = ["-c", <<-EOT
          lock="%s/lock-$NOMAD_PORT_x"
          mkdir "$lock" || echo overlap
          trap 'sleep 2; rmdir "$lock"; exit 0' INT
          echo "version %d holds $BERTH_ADDR_x"
          while true; do sleep 0.1; done
EOT
        ]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
`, name, network, a.dir, version))
}

// Allocations of one node never have one port at a time: neither the instances of a group, nor an allocation
// and its replacement, nor those of another job.
func TestPorts_HaveOneHolderAtATime(t *testing.T) {
	t.Parallel()
	a := agentWithPorts(t)
	a.must("job", "run", "-detach", a.lockJob("many", `port "x" {}`, 1))
	seen := map[string]bool{}
	for _, s := range a.awaitRunning("many", 3) {
		out := a.awaitOutput(s.ID, "version 1 holds ")
		if strings.Contains(out, "overlap") || seen[out] {
			t.Errorf("allocation %s says %q", s.ID, out)
		}
		seen[out] = true
	}
	a.must("job", "run", "-detach", a.lockJob("one", `port "x" {}`, 1))
	eventually(t, "the job says why it waits", func() error {
		out := a.must("job", "status", "one")
		if !strings.Contains(out, `dynamic ports of host network "default" exhausted`) {
			return fmt.Errorf("the status is %s", out)
		}
		return nil
	})
	a.must("job", "stop", "many")
	for _, s := range a.awaitRunning("one", 3) {
		a.awaitOutput(s.ID, "version 1 holds ")
		if out := a.logs(s.ID); strings.Contains(out, "overlap") {
			t.Errorf("allocation %s says %q", s.ID, out)
		}
	}
	a.must("job", "stop", "-purge", "one")

	port := kit.FreePorts(t, 1)[0]
	network := fmt.Sprintf(`port "x" { static = %d }`, port)
	for version := 1; version <= 3; version++ {
		a.must("job", "run", "-detach", a.lockJob("static", network, version))
		eventually(t, fmt.Sprintf("version %d runs", version), func() error {
			for _, s := range a.awaitRunning("static", 1) {
				out := a.logs(s.ID)
				if strings.Contains(out, "overlap") {
					t.Errorf("allocation %s says %q", s.ID, out)
				}
				if strings.Contains(out, fmt.Sprintf("version %d holds 127.0.0.1:%d", version, port)) {
					return nil
				}
			}
			return fmt.Errorf("it does not")
		})
	}
	a.kill()
	a.start()
	a.awaitRunning("static", 1)
	a.must("job", "stop", "-purge", "static")
}
