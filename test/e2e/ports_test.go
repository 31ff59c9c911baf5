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
