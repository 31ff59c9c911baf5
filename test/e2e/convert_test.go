package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/convert/nomad"
	outcome "berth/convert/report"
	"berth/internal/nettest"
)

// movedJobs are jobs of a cluster of the peer, by their files.
var movedJobs = map[string]string{
	"web": `job "web" {
  datacenters = ["dc1"]
  meta { team = "a" }
  group "app" {
    count = 2
    network {
      port "http" { to = 8080 }
    }
    service {
      name     = "web"
      port     = "http"
      provider = "nomad"
      check {
        type     = "tcp"
        interval = "10s"
        timeout  = "2s"
      }
    }
    task "server" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
      env { PASSWORD = "geheim-e2e" }
      template {
        destination   = "local/conf"
        change_mode   = "signal"
        change_signal = "SIGUSR1"
        data          = <<EOT
name = {{ env "NOMAD_TASK_NAME" }}
host = $${literal} ${attr.unique.hostname}
EOT
      }
    }
  }
}`,
	"nightly": `job "nightly" {
  type = "batch"
  periodic {
    cron             = "0 3 * * *"
    prohibit_overlap = true
  }
  group "g" {
    task "t" {
      driver = "raw_exec"
      config { command = "/bin/true" }
    }
  }
}`,
	"mesh": `job "mesh" {
  group "g" {
    network {
      mode = "bridge"
    }
    service {
      name = "api"
      port = "9090"
      connect {
        sidecar_service {
          proxy {
            upstreams {
              destination_name = "db"
              local_bind_port  = 5432
            }
          }
        }
      }
    }
    task "t" {
      driver = "docker"
      config { image = "api:1" }
      resources {
        cpu    = 200
        memory = 64
      }
    }
  }
}`,
	"ports": `job "ports" {
  group "g" {
    task "t" {
      driver = "docker"
      config {
        image          = "redis:7"
        advertise_ipv6_address = true
      }
    }
  }
}`,
}

// startPeer starts an agent of the peer that is server and node, and returns its address.
func startPeer(t *testing.T) string {
	t.Helper()
	ports := nettest.FreePorts(t, 3)
	dir := t.TempDir()
	file := filepath.Join(dir, "peer.hcl")
	text := fmt.Sprintf("ports {\n  http = %d\n  rpc = %d\n  serf = %d\n}\n", ports[0], ports[1], ports[2])
	text += "consul {\n  address = \"127.0.0.1:1\"\n}\n" // not that of the machine
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "peer.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(peerBinary(t), "agent", "-dev", "-bind", "127.0.0.1", "-config", file)
	cmd.Dir = dir
	cmd.Stdout = log
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // its exit code says nothing after the signal
		_ = log.Close()
	})

	address := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	eventually(t, "the peer has a leader", func() error {
		resp, err := http.Get(address + "/v1/jobs")
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
	return address
}

// fillPeer gives the peer jobs, a namespace and a variable.
func fillPeer(t *testing.T, address string) {
	t.Helper()
	peer := func(input string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), peerBinary(t), args...)
		cmd.Env = append(os.Environ(), "NOMAD_ADDR="+address)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("the peer's %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	for _, job := range movedJobs {
		peer(job, "job", "run", "-detach", "-")
	}
	peer("", "namespace", "apply", "-description", "Team A", "team-a")
	peer("geheim-var", "var", "put", "nomad/jobs/web", "password=-")
}

// TestConvert_OfARunningPeer moves jobs from a cluster of the peer: berth accepts the files that the
// report says it accepts, and names the fault of the other one.
func TestConvert_OfARunningPeer(t *testing.T) {
	t.Parallel()
	address := startPeer(t)
	fillPeer(t, address)
	dir := t.TempDir()
	folder, err := outcome.Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = folder.Close() }()
	r, err := nomad.Migrate(t.Context(), nomad.Options{Address: address, Variables: true}, folder)
	if err != nil {
		t.Fatal(err)
	}

	a := newAgent(t, "one", "-dev").allowRaw().withKeyring()
	a.start()
	want := map[string]outcome.Outcome{
		"web": outcome.AsItIs, "nightly": outcome.AsItIs, "mesh": outcome.AsItIs, "ports": outcome.Not,
		"team-a": outcome.AsItIs, "nomad/jobs/web": outcome.AsItIs,
	}
	if len(r.Items) != len(want) {
		t.Errorf("the report has %d items, want %d", len(r.Items), len(want))
	}
	for _, item := range r.Items {
		if item.Outcome != want[item.Name] {
			t.Errorf("%s runs %q, want %q: %v", item.Name, item.Outcome, want[item.Name], item.Notes)
		}
		file := filepath.Join(dir, item.File)
		switch {
		case item.Kind == "variable":
			a.must("var", "put", "-in", "json", "@"+file)
			continue
		case item.Kind == "namespace":
			a.must("namespace", "apply", file)
			continue
		case item.Outcome == outcome.Not:
			_, err = a.run("job", "validate", file)
			if err == nil {
				t.Errorf("%s: berth accepts a job that the report rejects: %v", item.Name, item.Notes)
			}
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil || strings.Contains(string(text), "connect-proxy") {
			t.Errorf("%s: %v; the file has the task of a proxy:\n%s", item.Name, err, text)
		}
		a.must("job", "validate", file)
		_, err = a.run("job", "plan", file)
		if exitCode(err) != 1 { // the code of a plan with changes
			t.Errorf("job plan of %s: %v", item.Name, err)
		}
		a.must("fmt", "-check", file)
	}

	for _, name := range []string{"report.md", "report.json"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || strings.Contains(string(text), "geheim") {
			t.Errorf("%s has a secret, or is not there: %v", name, err)
		}
	}
	a.must("job", "run", "-detach", filepath.Join(dir, "jobs", "default", "web.hcl"))
	eventually(t, "the moved job runs twice", func() error {
		out := a.must("job", "allocs", "-json", "web")
		if n := strings.Count(out, `"ClientStatus": "running"`); n != 2 {
			return fmt.Errorf("%d allocations run:\n%s", n, out)
		}
		return nil
	})
}
