package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"berth/client/machine/netns"
	"berth/structs"
	"berth/test/consultest"
	"berth/test/kit"
)

// meshNodeIP is the address of a node in the service mesh.
const meshNodeIP = "10.97.0.1"

// agentInMesh starts an agent beside a Consul. Its tasks are programs of this machine.
func agentInMesh(t *testing.T, c *consultest.Agent, settings ...string) *agent {
	t.Helper()
	return newAgent(t, "one", "-server", "-client").allowRaw().startInMesh(c, settings...)
}

// startInMesh starts the agent beside a Consul. Its node runs Consul's own proxies. The address of the node
// is one that the networks of allocations reach. settings are more of its consul block.
func (a *agent) startInMesh(c *consultest.Agent, settings ...string) *agent {
	a.t.Helper()
	for _, args := range []string{
		"link add node0 type bridge", "addr add " + meshNodeIP + "/24 dev node0", "link set node0 up",
	} {
		out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		if err != nil {
			a.t.Fatalf("ip %s: %v, %s", args, err, out)
		}
	}
	a.useConsul(c)
	a.args = append(a.args, "-config", a.writeFile("mesh.hcl", fmt.Sprintf(`
client {
  network_interface     = "node0"
  bridge_network_name   = %q
  bridge_network_subnet = "10.99.0.0/24"
  cni_path              = %q
}
consul {
  proxy_path = %q
  %s
}
`, a.bridge(), kit.CNIPlugins(a.t), os.Getenv("CONSUL_BIN"), strings.Join(settings, "\n  "))))
	a.start()
	eventually(a.t, "the node runs proxies", func() error {
		out, err := a.run("node", "status", "-self", "-verbose")
		if err == nil && !strings.Contains(out, "driver.connect.proxy") {
			err = errors.New(out)
		}
		return err
	})
	return a
}

// talkJob has the service echo, and the service talk with a task that keeps one connection to it.
func (a *agent) talkJob() string {
	self, err := os.Executable()
	if err != nil {
		a.t.Fatal(err)
	}
	group := func(name, port, proxy, args string) string {
		return fmt.Sprintf(`
  group %[1]q {
    network {
      mode = "bridge"
    }
    service {
      name = %[1]q
      port = %[2]q
      connect {
        sidecar_service {
          %[3]s
        }
      }
    }
    task "main" {
      driver = "raw_exec"
      config {
        command = %[5]q
        args    = [%[4]s]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
`, name, port, proxy, args, self)
	}
	upstream := `proxy {
            upstreams {
              destination_name = "echo"
              local_bind_port  = 9191
            }
          }`
	return a.writeFile("talk.hcl", "job \"talk\" {\n"+
		group("echo", "9001", "", `"echo", "127.0.0.1:9001"`)+
		group("talk", "9002", upstream, `"talk", "${NOMAD_UPSTREAM_ADDR_echo}"`)+"}\n")
}

// runEcho sends each line back.
func runEcho(address string) int {
	ln, err := net.Listen("tcp", address)
	for err == nil {
		var conn net.Conn
		conn, err = ln.Accept()
		if err == nil {
			go func() {
				defer conn.Close()
				for s := bufio.NewScanner(conn); s.Scan(); {
					fmt.Fprintln(conn, s.Text())
				}
			}()
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// runTalk sends numbers over one connection, and prints those that come back: "CONNECTION NUMBER".
func runTalk(address string) int {
	for connection := 1; ; {
		conn, err := net.Dial("tcp", address)
		answers := 0
		for number := 1; err == nil; number++ {
			_, err = fmt.Fprintln(conn, number)
			var line string
			if err == nil {
				line, err = bufio.NewReader(conn).ReadString('\n')
			}
			if err == nil {
				answers++
				fmt.Printf("%d %s", connection, line)
				time.Sleep(100 * time.Millisecond)
			}
		}
		if answers > 0 {
			connection++
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func intend(t *testing.T, c *consultest.Agent, source, destination string, action api.IntentionAction) {
	t.Helper()
	_, err := c.API.Connect().IntentionUpsert(&api.Intention{
		SourceName:      source,
		DestinationName: destination,
		Action:          action,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

// allocOf returns the running allocation of a group, and removes its namespace if the test fails to.
func (a *agent) allocOf(job, group string) *structs.Allocation {
	a.t.Helper()
	for _, stub := range a.awaitRunning(job, 2) {
		if stub.TaskGroup == group {
			a.t.Cleanup(func() { _ = netns.Remove(netns.Path(stub.ID)) })
			row := decode[structs.Allocation](a.t, a.must("alloc", "status", "-json", stub.ID))
			return &row
		}
	}
	a.t.Fatalf("job %s has no allocation of group %s", job, group)
	return nil
}

// awaitMore waits until a task prints a text that it has not printed before.
func (a *agent) awaitMore(alloc, task, text string) {
	a.t.Helper()
	count := func() int {
		out, _ := a.run("alloc", "logs", alloc, task)
		return strings.Count(out, text)
	}
	before := count()
	eventually(a.t, fmt.Sprintf("%s prints %q again", task, text), func() error {
		if count() <= before {
			return errors.New("it has not")
		}
		return nil
	})
}

// namespace is a network namespace that outlives its allocation: the kernel gives its number to no other.
type namespace struct {
	file *os.File
	link string
}

// namespaceOf holds the network namespace of an allocation until the end of the test.
func namespaceOf(t *testing.T, alloc string) (n namespace) {
	t.Helper()
	err := netns.Do(netns.Path(alloc), func() (err error) {
		n.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.file.Close() })
	n.link, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", n.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// awaitEmpty waits until no process is in the namespace.
func (n namespace) awaitEmpty(t *testing.T) {
	t.Helper()
	eventually(t, "the network has no process", func() error {
		all, _ := filepath.Glob("/proc/[0-9]*/ns/net")
		for _, link := range all {
			if got, err := os.Readlink(link); err == nil && got == n.link {
				return fmt.Errorf("%s is left", link)
			}
		}
		return nil
	})
}

// TestConnect_ServicesTalkThroughProxies runs two pairs of services in the mesh of a real Consul with ACLs.
// Intentions decide on new connections. A connection outlives the agent and Consul. The end leaves nothing.
func TestConnect_ServicesTalkThroughProxies(t *testing.T) {
	t.Parallel()
	if !kit.InOwnNetwork(t, "iptables", "curl", "perl") {
		return
	}
	c := consultest.Start(t, consultest.Options{ACLs: true, Server: true})
	a := agentInMesh(t, c)
	defer a.explainFailure("connect")
	intend(t, c, "talk", "echo", api.IntentionActionAllow)
	a.must("job", "run", "-detach", unchangedExample("connect.hcl"))
	a.must("job", "run", "-detach", a.talkJob())
	server := a.allocOf("connect", "api")
	client := a.allocOf("connect", "web")
	talk := a.allocOf("talk", "talk")
	echo := a.allocOf("talk", "echo")

	// The policy of the ACLs denies what no intention allows.
	a.awaitMore(client.ID, "client", "curl: (")
	if out, _ := a.run("alloc", "logs", client.ID, "client"); strings.Contains(out, "hello") {
		t.Errorf("the services talk without an intention: %s", out)
	}
	intend(t, c, "web", "api", api.IntentionActionAllow)
	a.awaitMore(client.ID, "client", "hello from "+server.ID)
	intend(t, c, "web", "api", api.IntentionActionDeny)
	a.awaitMore(client.ID, "client", "curl: (")
	intend(t, c, "web", "api", api.IntentionActionAllow)
	a.awaitMore(client.ID, "client", "hello from "+server.ID)
	checkMTLS(t, c, server)

	if n, err := identities(c); err != nil || n != 4 {
		t.Errorf("%d tokens with an identity, %v; want one for each proxy", n, err)
	}

	var namespaces []namespace
	for _, alloc := range []*structs.Allocation{server, client, talk, echo} {
		namespaces = append(namespaces, namespaceOf(t, alloc.ID))
	}
	a.awaitMore(talk.ID, "main", "1 ")
	a.kill()
	a.start()
	c.Kill()
	a.awaitMore(talk.ID, "main", "\n1 ") // the first connection still
	c.Run()
	a.awaitMore(talk.ID, "main", "\n1 ")
	a.awaitMore(client.ID, "client", "hello from "+server.ID)
	if out, _ := a.run("alloc", "logs", talk.ID, "main"); strings.Contains(out, "\n2 ") {
		t.Error("the connection has not outlived the agent and Consul")
	}

	a.must("job", "stop", "-purge", "connect")
	a.must("job", "stop", "-purge", "talk")
	for _, alloc := range []*structs.Allocation{server, client, talk, echo} {
		a.checkNetworkGone(alloc.ID)
	}
	for _, n := range namespaces {
		n.awaitEmpty(t)
	}
	eventually(t, "the services are gone", func() error {
		services, err := c.API.Agent().ServicesWithFilter(`ID matches "^_berth-task-"`)
		if err == nil && len(services) > 0 {
			err = fmt.Errorf("%d are left: %v", len(services), services)
		}
		return err
	})
	eventually(t, "the tokens are revoked", func() error {
		n, err := identities(c)
		if err == nil && n > 0 {
			err = fmt.Errorf("%d are left", n)
		}
		return err
	})
}

// identities returns the number of tokens in Consul with the identity of a service.
func identities(c *consultest.Agent) (n int, err error) {
	tokens, _, err := c.API.ACL().TokenList(nil)
	for _, token := range tokens {
		if len(token.ServiceIdentities) > 0 {
			n++
		}
	}
	return n, err
}

// checkMTLS checks that the port of a sidecar takes no connection without a certificate of the mesh.
func checkMTLS(t *testing.T, c *consultest.Agent, alloc *structs.Allocation) {
	t.Helper()
	awaitPassing(t, c, "api-sidecar-proxy", 1)
	sidecars := found(t, c, "api-sidecar-proxy", true)
	if len(sidecars) != 1 {
		t.Fatalf("Consul has %d sidecars", len(sidecars))
	}
	s := sidecars[0].Service
	port := alloc.AllocatedResources.Shared.Ports[0]
	if s.Port != port.Value || s.Address != port.HostIP || len(sidecars[0].Checks) < 2 {
		t.Errorf("the sidecar is %+v beside the port %+v", s, port)
	}
	conn, err := net.DialTimeout("tcp", port.HostAddr(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = conn.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if strings.Contains(answer, "HTTP") || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without a certificate: %q, %v", answer, err)
	}
}
