package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// converter returns the path of the berth-convert under test: that of BERTH_CONVERT, or the one beside berth,
// which it builds if it is not there.
var converter = sync.OnceValues(func() (path string, err error) {
	beside := filepath.Join(filepath.Dir(binary), "berth-convert")
	path, err = filepath.Abs(cmp.Or(os.Getenv("BERTH_CONVERT"), beside))
	if err != nil {
		return "", err
	}
	_, err = os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	build := exec.Command("make", "-C", filepath.Join("..", ".."), "convert", "CONVERT="+path)
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building berth-convert: %w\n%s", err, out)
	}
	return path, nil
})

// mustConvert runs berth-convert, with a token for a cluster.
func mustConvert(t testing.TB, token string, args ...string) {
	t.Helper()
	path, err := converter()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), "NOMAD_TOKEN="+token)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("berth-convert %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// How an object of a report runs in berth.
const (
	runsAsItIs       = "as it is"
	runsWithAWarning = "with a warning"
	runsNot          = "not"
)

// reported is an object of report.json.
type reported struct {
	Kind, Name string
	File       string // in the folder
	Outcome    string
	Notes      []string
}

// mustReadReport reads the objects of the report in a folder.
func mustReadReport(t *testing.T, dir string) []reported {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var report struct{ Items []reported }
	err = json.Unmarshal(text, &report)
	if err != nil {
		t.Fatalf("report.json: %v", err)
	}
	return report.Items
}

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

// fillPeer gives the peer jobs, a namespace, a variable, policies and a volume with data.
func fillPeer(p *peer) {
	p.t.Helper()
	for _, job := range movedJobs {
		p.must(job, "job", "run", "-detach", "-")
	}
	p.must("", "namespace", "apply", "-description", "Team A", "team-a")
	p.must("geheim-var", "var", "put", "nomad/jobs/web", "password=-")
	p.must(`namespace "*" { policy = "read" }`, "acl", "policy", "apply", "readers", "-")
	p.must(`namespace "*" { policy = "write" }`, "acl", "policy", "apply", "writers", "-")
	p.createVolume("db", "written at the peer")
}

// TestConvert_OfARunningPeer moves jobs from a cluster of the peer: berth accepts the files that the
// report says it accepts, and names the fault of the other one.
func TestConvert_OfARunningPeer(t *testing.T) {
	t.Parallel()
	p := startPeer(t)
	fillPeer(p)
	dir := t.TempDir()
	mustConvert(t, p.token, "nomad", "-address", p.address, "-variables", "-out", dir)
	items := mustReadReport(t, dir)

	a := newAgent(t, "one", "-dev").allowRaw().withKeyring()
	a.start()
	want := map[string]string{
		"web": runsAsItIs, "nightly": runsAsItIs, "mesh": runsAsItIs, "ports": runsNot,
		"team-a": runsAsItIs, "nomad/jobs/web": runsAsItIs, "db": runsAsItIs,
		peersPlugin: runsAsItIs, "readers": runsAsItIs, "writers": runsWithAWarning,
	}
	if len(items) != len(want) {
		t.Errorf("the report has %d items, want %d", len(items), len(want))
	}
	for _, item := range items {
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
		case item.Kind == "policy":
			checkPolicy(t, item.Name, file)
			continue
		case item.Kind == "volume":
			continue // see moveVolume
		case item.Outcome == runsNot:
			_, err := a.run("job", "validate", file)
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
	moveVolume(p, a, filepath.Join(dir, "volumes", "default", "db.hcl"))
	a.must("job", "run", "-detach", filepath.Join(dir, "jobs", "default", "web.hcl"))
	eventually(t, "the moved job runs twice", func() error {
		out := a.must("job", "allocs", "-json", "web")
		if n := strings.Count(out, `"ClientStatus": "running"`); n != 2 {
			return fmt.Errorf("%d allocations run:\n%s", n, out)
		}
		return nil
	})
}
