package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/client/machine/netns"
	"berth/structs"
	"berth/test/kit"
)

// agentWithNetworks starts an agent with a bridge and with networks of the files.
func agentWithNetworks(t *testing.T, files map[string]string) *agent {
	t.Helper()
	a := newAgent(t, "one", "-server", "-client").allowRaw()
	dir := filepath.Join(a.dir, "cni")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a.args = append(a.args, "-config", a.writeFile("networks.hcl", fmt.Sprintf(`
client {
  bridge_network_name   = %q
  bridge_network_subnet = "10.99.0.0/24"
  cni_path              = %q
  cni_config_dir        = %q
}
`, a.bridge(), kit.CNIPlugins(t), dir)))
	a.start()
	return a
}

// netJob is a job with a raw_exec task that answers on port 8080 and an exec task that asks it.
func (a *agent) netJob(network string) string {
	self, err := os.Executable()
	if err != nil {
		a.t.Fatal(err)
	}
	return a.writeFile("net.hcl", fmt.Sprintf(`
job "net" {
  group "g" {
    network {
      %s
    }
    task "server" {
      driver = "raw_exec"
      config {
        command = %q
        args    = ["answer", ":8080", "hello from ${NOMAD_ALLOC_ID}"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
    task "client" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", <<-EOT
          echo "inside $NOMAD_ALLOC_ADDR_http"
          echo "host $(hostname)"
          sed 's/^/hosts /' /etc/hosts
          sed 's/^/resolv /' /etc/resolv.conf
          sed 's/^/links /' /proc/net/dev
          while true; do curl -s http://127.0.0.1:8080/; sleep 0.3; done
EOT
        ]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
`, network, self))
}

// runAnswer answers each request with a text.
func runAnswer(address, text string) int {
	err := http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, text+"\n")
	}))
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// awaitNetworked returns the running allocation of the job, and removes its namespace if the test fails to.
func (a *agent) awaitNetworked(job string) *structs.Allocation {
	a.t.Helper()
	id := a.awaitRunning(job, 1)[0].ID
	a.t.Cleanup(func() { _ = netns.Remove(netns.Path(id)) })
	row := decode[structs.Allocation](a.t, a.must("alloc", "status", "-json", id))
	return &row
}

// awaitClient waits until the output of the task client has all the texts and returns it.
func (a *agent) awaitClient(alloc string, texts ...string) (out string) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("the client says %q", texts), func() error {
		out, _ = a.run("alloc", "logs", alloc, "client")
		for _, text := range texts {
			if !strings.Contains(out, text) {
				return fmt.Errorf("the output is %q", out)
			}
		}
		return nil
	})
	return out
}

// checkAnswer checks that an address of the node leads to the allocation.
func checkAnswer(t *testing.T, address, alloc string) {
	t.Helper()
	c := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	eventually(t, address+" answers", func() error {
		resp, err := c.Get("http://" + address)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err == nil && string(b) != "hello from "+alloc+"\n" {
			err = fmt.Errorf("it says %q", b)
		}
		return err
	})
}

// checkNetworkGone checks that nothing of the network of an allocation is left.
func (a *agent) checkNetworkGone(alloc string) {
	a.t.Helper()
	eventually(a.t, "the network is gone", func() error {
		if _, err := os.Lstat(netns.Path(alloc)); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the namespace is left: %v", err)
		}
		links, _ := exec.Command("ip", "-o", "link", "show", "type", "veth").Output()
		if len(links) > 0 {
			return fmt.Errorf("links: %s", links)
		}
		rules, err := exec.Command("iptables-save").Output()
		if err != nil || strings.Contains(string(rules), alloc) {
			return fmt.Errorf("rules: %s, %w", rules, err)
		}
		files, _ := os.ReadDir(a.addresses())
		for _, f := range files {
			if net.ParseIP(f.Name()) != nil {
				return fmt.Errorf("address %s is still given", f.Name())
			}
		}
		left, err := os.ReadDir(filepath.Join(a.data(), "networks", "allocs"))
		if err != nil || len(left) > 0 {
			return fmt.Errorf("files: %v, %w", left, err)
		}
		return nil
	})
}

// Two tasks of an allocation share a loopback interface, and a port of the node leads to one of them. The
// agent is killed and started again meanwhile. The end of the allocation leaves nothing.
func TestNetwork_BridgeOutlivesTheAgent(t *testing.T) {
	t.Parallel()
	if !kit.InOwnNetwork(t, "iptables", "curl") {
		return
	}
	a := agentWithNetworks(t, nil)
	a.must("job", "run", "-detach", a.netJob(`
      mode     = "bridge"
      hostname = "web-${NOMAD_ALLOC_INDEX}"
      port "http" {
        to = 8080
      }
      dns {
        servers  = ["10.1.1.1"]
        searches = ["${NOMAD_JOB_ID}.example"]
        options  = ["ndots:2"]
      }`))
	row := a.awaitNetworked("net")
	status := row.NetworkStatus
	if status == nil || status.InterfaceName != "eth0" || !strings.HasPrefix(status.Address, "10.99.0.") {
		t.Fatalf("the network is %+v", status)
	}
	a.awaitClient(row.ID, "hello from "+row.ID, "inside "+status.Address+":8080\n", "host web-0\n",
		"hosts "+status.Address+" web-0\n", "resolv search net.example\n", "resolv nameserver 10.1.1.1\n",
		"resolv options ndots:2\n")
	port := row.AllocatedResources.Shared.Ports[0].HostAddr()
	checkAnswer(t, port, row.ID)
	checkAnswer(t, status.Address+":8080", row.ID)
	if out := a.must("alloc", "status", row.ID); !strings.Contains(out, status.Address) {
		t.Errorf("the status of the allocation does not show its network:\n%s", out)
	}
	if out := a.must("node", "status", "-self"); !strings.Contains(out, "Networks of allocations") {
		t.Errorf("the status of the node does not show its networks:\n%s", out)
	}

	a.kill()
	checkAnswer(t, port, row.ID)
	a.start()
	checkAnswer(t, port, row.ID)
	if out := a.must("alloc", "exec", "-task", "client", row.ID, "/bin/hostname"); out != "web-0\n" {
		t.Errorf("a command in the task says %q", out)
	}
	a.must("alloc", "restart", row.ID, "server") // the new process is in the same network
	checkAnswer(t, port, row.ID)
	again := decode[structs.Allocation](t, a.must("alloc", "status", "-json", row.ID))
	if again.NetworkStatus == nil || again.NetworkStatus.Address != status.Address {
		t.Errorf("after the restart the network is %+v", again.NetworkStatus)
	}

	a.must("job", "stop", "-purge", "net")
	a.checkNetworkGone(row.ID)
}

// A service and its check have the address of the allocation, also while the agent starts again.
func TestNetwork_ServicesHaveTheAddressOfTheAllocation(t *testing.T) {
	t.Parallel()
	if !kit.InOwnNetwork(t, "iptables", "curl") {
		return
	}
	a := agentWithNetworks(t, nil)
	text, err := os.ReadFile(a.netJob(`
      mode = "bridge"
      port "http" {
        to = 8080
      }`))
	if err != nil {
		t.Fatal(err)
	}
	const service = `
    service {
      name         = "web"
      provider     = "berth"
      port         = "http"
      address_mode = "alloc"
      check {
        type         = "tcp"
        address_mode = "alloc"
        interval     = "1s"
        timeout      = "1s"
      }
    }
    task "server" {`
	a.must("job", "run", "-detach", a.writeFile("service.hcl",
		strings.Replace(string(text), `    task "server" {`, service, 1)))
	row := a.awaitNetworked("net")
	isThere := func(i *structs.ServiceRegistration) bool {
		return passes(i) && i.Address == row.NetworkStatus.Address && i.Port == 8080
	}
	a.awaitServices("web", 1, isThere)
	a.kill()
	a.start()
	a.awaitServices("web", 1, isThere)
	again := decode[structs.Allocation](t, a.must("alloc", "status", "-json", row.ID))
	for name, s := range again.TaskStates {
		for _, e := range s.Events {
			if strings.Contains(e.Message, "is not offered") {
				t.Errorf("task %s: %s", name, e.Message)
			}
		}
	}
	a.must("job", "stop", "-purge", "net")
	a.checkNetworkGone(row.ID)
}

// An allocation with mode none has a loopback interface alone.
func TestNetwork_None(t *testing.T) {
	t.Parallel()
	if !kit.InOwnNetwork(t, "curl") {
		return
	}
	a := agentWithNetworks(t, nil)
	a.must("job", "run", "-detach", a.netJob(`mode = "none"`))
	row := a.awaitNetworked("net")
	out := a.awaitClient(row.ID, "hello from "+row.ID, " lo:")
	if strings.Count(out, "links ") != 3 {
		t.Errorf("it has other interfaces: %s", out)
	}
	c := http.Client{Timeout: time.Second}
	if resp, err := c.Get("http://127.0.0.1:8080"); err == nil {
		resp.Body.Close()
		t.Error("the task answers outside of its network")
	}
	a.kill()
	a.start()
	a.must("job", "stop", "-purge", "net")
	a.checkNetworkGone(row.ID)
}

// A network of the operator's configuration.
func TestNetwork_CNI(t *testing.T) {
	t.Parallel()
	if !kit.InOwnNetwork(t, "iptables", "curl") {
		return
	}
	a := agentWithNetworks(t, map[string]string{
		"10-lab.conflist": `{"cniVersion": "0.4.0", "name": "lab", "plugins": [{"type": "ptp", "ipMasq": true,
			"ipam": {"type": "host-local", "subnet": "10.98.0.0/24"}, "dns": {"nameservers": ["10.98.0.53"]}},
			{"type": "firewall"}]}`,
		"20-broken.conflist": `{"name": "broken"`,
	})
	t.Cleanup(func() { _ = os.RemoveAll("/var/lib/cni/networks/lab") })
	a.must("job", "run", "-detach", a.netJob(`mode = "cni/lab"`))
	row := a.awaitNetworked("net")
	a.awaitClient(row.ID, "hello from "+row.ID, "resolv nameserver 10.98.0.53\n")
	checkAnswer(t, row.NetworkStatus.Address+":8080", row.ID)
	a.kill()
	a.start()
	a.must("job", "stop", "-purge", "net")
	a.checkNetworkGone(row.ID)
	rules, err := exec.Command("iptables-save").Output()
	if err != nil || strings.Contains(string(rules), row.NetworkStatus.Address) {
		t.Errorf("rules: %s, %v", rules, err)
	}

	a.must("job", "run", "-detach", a.netJob(`mode = "cni/other"`))
	eventually(t, "the reason is shown", func() error {
		out, err := a.run("job", "why", "net")
		if !strings.Contains(out, `the node has no network with mode "cni/other"`) {
			return fmt.Errorf("%s, %w", out, err)
		}
		return nil
	})
}
