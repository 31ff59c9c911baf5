package e2e

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"berth/client/drivers/docker/dockertest"
	"berth/client/drivers/docker/engine"
	"berth/structs"
	"berth/test/kit"
)

// mixedJob has a container that answers on port 8080, another one, and an exec task that asks the first one.
const mixedJob = `
job "net" {
  group "g" {
    network {
      mode     = "bridge"
      hostname = "box"
      port "http" {
        to = 8080
      }
    }
    restart {
      attempts = 20
      delay    = "100ms"
      mode     = "delay"
    }
    task "server" {
      driver = "docker"
      config {
        image = "program:1"
        args  = ["cat:/etc/hosts", "serve:8080", "trap:0"]
        ports = ["http"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
    task "other" {
      driver = "docker"
      config {
        image = "program:1"
        args  = ["link:/proc/self/ns/net", "trap:0"]
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
          readlink /proc/self/ns/net
          while true; do curl -s --http0.9 http://127.0.0.1:8080/; sleep 0.3; done
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
`

// agentWithContainerNetworks starts an agent with a bridge, whose containers run at a daemon.
func agentWithContainerNetworks(t *testing.T, d *dockertest.Daemon) *agent {
	t.Helper()
	a := newDockerAgent(t, d)
	a.args = append(a.args, "-config", a.writeFile("networks.hcl", fmt.Sprintf(`
client {
  bridge_network_name   = %q
  bridge_network_subnet = "10.99.0.0/24"
  cni_path              = %q
  cni_config_dir        = %q
}
`, a.bridge(), kit.CNIPlugins(t), t.TempDir())))
	a.start()
	return a
}

// checkTCP checks that an address leads to the container.
func checkTCP(t *testing.T, address string) {
	t.Helper()
	eventually(t, address+" answers", func() error {
		conn, err := net.DialTimeout("tcp", address, 5*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err == nil && line != "tcp 8080\n" {
			err = fmt.Errorf("it says %q", line)
		}
		return err
	})
}

// checkContainersGone checks that the daemon has no container of an allocation.
func checkContainersGone(t *testing.T, d *dockertest.Daemon) {
	t.Helper()
	eventually(t, "the containers are gone", func() error {
		list, err := engine.New(d.Endpoint()).List(t.Context(), "berth.alloc_id")
		if err == nil && len(list) > 0 {
			err = fmt.Errorf("%d are left, such as %v", len(list), list[0].Names)
		}
		return err
	})
}

// Containers and other tasks of an allocation share its network, which outlives the agent and the daemon.
func TestNetwork_IsSharedWithContainers(t *testing.T) {
	t.Parallel()
	if !kit.InOwnNetwork(t, "iptables", "curl", "dockerd") {
		return
	}
	d := dockertest.Start(t)
	d.Import("program:1")
	a := agentWithContainerNetworks(t, d)
	a.must("job", "run", "-detach", a.writeFile("mixed.hcl", mixedJob))
	row := a.awaitNetworked("net")
	address := row.NetworkStatus.Address
	port := row.AllocatedResources.Shared.Ports[0].HostAddr()
	out := a.awaitClient(row.ID, "net:[", "tcp 8080\n")
	namespace, _, _ := strings.Cut(out, "\n")
	checkOutput := func(task, want string) {
		t.Helper()
		eventually(t, "the output of "+task, func() error {
			out, err := a.run("alloc", "logs", row.ID, task)
			if !strings.Contains(out, want) {
				return fmt.Errorf("%q, %w", out, err)
			}
			return nil
		})
	}
	checkOutput("other", namespace+"\n")
	checkOutput("server", address+" box\n")
	checkTCP(t, port)
	checkTCP(t, address+":8080")

	a.kill()
	checkTCP(t, port)
	a.start()
	checkTCP(t, port)
	d.Stop() // its containers end with it, and the task client runs on
	d.Run()
	checkTCP(t, port)
	var again structs.Allocation
	eventually(t, "the servers know that the container has started again", func() error {
		again = decode[structs.Allocation](t, a.must("alloc", "status", "-json", row.ID))
		if again.TaskStates["server"].Restarts == 0 {
			return fmt.Errorf("the tasks are %+v", again.TaskStates)
		}
		return nil
	})
	if again.NetworkStatus == nil || again.NetworkStatus.Address != address ||
		again.TaskStates["client"].Restarts != 0 {
		t.Errorf("after the restart of the daemon the network is %+v, the tasks %+v",
			again.NetworkStatus, again.TaskStates)
	}
	a.must("job", "stop", "-purge", "net")
	a.checkNetworkGone(row.ID)
	checkContainersGone(t, d)
}

// TestNetwork_ContainersLeaveNothing kills the agent at many moments of a set-up and of an end.
func TestNetwork_ContainersLeaveNothing(t *testing.T) {
	t.Parallel()
	if !kit.InOwnNetwork(t, "iptables", "curl", "dockerd") {
		return
	}
	d := dockertest.Start(t)
	d.Import("program:1")
	a := agentWithContainerNetworks(t, d)
	file := a.writeFile("mixed.hcl", mixedJob)
	for i := range 8 {
		pause := time.Duration(i) * 250 * time.Millisecond
		a.must("job", "run", "-detach", file)
		time.Sleep(pause) // a random moment
		a.kill()
		a.start()
		row := a.awaitNetworked("net")
		checkTCP(t, row.AllocatedResources.Shared.Ports[0].HostAddr())
		a.must("job", "stop", "-purge", "-detach", "net")
		time.Sleep(pause)
		a.kill()
		a.start()
		a.checkNetworkGone(row.ID)
		checkContainersGone(t, d)
	}
}
