package interop

import (
	"strings"
	"testing"
)

const servedFile = `job "peer-served" {
  update {
    min_healthy_time = "100ms"
  }
  group "g" {
    count = 2
    network {
      port "http" {}
    }
    service {
      name     = "peer-served"
      provider = "nomad"
      port     = "http"
      tags     = ["b", "a"]
      check {
        name     = "look"
        type     = "script"
        command  = "/bin/echo"
        args     = ["all is fine"]
        task     = "app"
        interval = "1s"
        timeout  = "10s"
      }
    }
    task "app" {
      driver = "exec"
      config {
        command = "/bin/sleep"
        args    = ["600"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
`

// TestPeersCommandLine_ShowsServices runs a job with a service of the dialect's own provider and shows its
// instances and checks.
func TestPeersCommandLine_ShowsServices(t *testing.T) {
	t.Parallel()
	peer, c := connectPeer(t)
	node := awaitReadyNode(t, c).ID
	file := peerJob{c, "peer-served", t.TempDir()}.file(t, "served.hcl", servedFile)
	// The deployment waits for the checks.
	peer.checkOutput(peer.run("job", "run", file), "Deployment completed successfully")
	peer.checkOutput(peer.run("service", "list"), "peer-served", "[a,b]")
	list, _, err := c.Services().Get("peer-served", nil)
	if err != nil || len(list) != 2 {
		t.Fatalf("got %d instances: %v", len(list), err)
	}
	peer.checkOutput(peer.run("service", "info", "peer-served"), "[b,a]", node[:8], list[0].AllocID[:8],
		list[1].AllocID[:8])
	peer.checkOutput(peer.run("service", "info", "-verbose", "peer-served"), list[0].ID, list[1].ID, "dc1")
	one := peer.run("service", "info", "-filter", `AllocID == "`+list[0].AllocID+`"`, "peer-served")
	if !strings.Contains(one, list[0].AllocID[:8]) || strings.Contains(one, list[1].AllocID[:8]) {
		t.Errorf("a filter shows\n%s", one)
	}
	page := peer.run("service", "info", "-per-page", "1", "peer-served")
	peer.checkOutput(page, list[0].AllocID[:8], "Results have been paginated")
	peer.checkOutput(peer.run("service", "info", "none"), "No service registrations found")
	checks := peer.run("alloc", "checks", list[0].AllocID)
	peer.checkOutput(checks, "peer-served", "look", "success", "all is fine")
	rejection := peer.exits(1, "service", "delete", "peer-served", list[0].ID)
	peer.checkOutput(rejection, "which would register it again")
	peer.run("job", "stop", "-purge", "peer-served")
	peer.checkOutput(peer.run("service", "info", "peer-served"), "No service registrations found")
}
