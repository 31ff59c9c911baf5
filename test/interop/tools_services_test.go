package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	public "github.com/hashicorp/nomad/api"
)

// start starts the tool as a service until the end of the test. Its output goes to a screen.
func (a toolAgent) start(args ...string) *screen {
	a.t.Helper()
	cmd := a.command(args...)
	out := &screen{changed: make(chan struct{}, 1)}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if a.t.Failed() {
			a.t.Logf("%s wrote\n%s", filepath.Base(a.path), out)
		}
	})
	return out
}

// runServed runs a job with a service of the dialect's own provider at an address of this machine.
func (a toolAgent) runServed(id, port string, tags ...string) {
	a.t.Helper()
	list, err := json.Marshal(tags)
	if err != nil {
		a.t.Fatal(err)
	}
	job, err := a.client.Jobs().ParseHCL(fmt.Sprintf(`job %q {
  group "g" {
    service {
      name     = %[1]q
      provider = "nomad"
      address  = "127.0.0.1"
      port     = %[2]q
      tags     = %[3]s
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
}`, id, port, list), true)
	if err != nil {
		a.t.Fatal(err)
	}
	runJob(a.t, a.client, job)
}

// get returns the body of a page, empty if nothing answers with 200.
func get(address string) string {
	answer, err := http.Get(address)
	if err != nil {
		return ""
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

// awaitPage asks for a page until its body is right.
func (a toolAgent) awaitPage(address, what string, right func(body string) bool) {
	a.t.Helper()
	awaitAnswer(a.t, what, func(*public.QueryOptions) (bool, *public.QueryMeta, error) {
		return right(get(address)), nil, nil
	})
}

// TestTool_PrometheusFindsServices has Prometheus find the instances of services with their tags, and forget
// them after the end of their job.
func TestTool_PrometheusFindsServices(t *testing.T) {
	a := startToolAgent(t, "prometheus")
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "answers_total 42\n")
	}))
	defer metrics.Close()
	a.runServed("scraped", portOf(t, metrics.URL), "metrics", "blue")

	a.write("prometheus.yml", `scrape_configs:
- job_name: services
  scrape_interval: 1s
  nomad_sd_configs:
  - server: `+a.client.Address()+`
    refresh_interval: 1s
  relabel_configs:
  - source_labels: [__meta_nomad_tags]
    regex: .*,metrics,.*
    action: keep
  - source_labels: [__meta_nomad_service]
    target_label: service
  - source_labels: [__meta_nomad_namespace]
    target_label: namespace
`)
	address := "127.0.0.1:" + freePort(t)
	a.start("--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+address)

	ask := "http://" + address + "/api/v1/query?query=" +
		url.QueryEscape(`answers_total{service="scraped",namespace="default"}`)
	a.awaitPage(ask, "a scraped value", func(body string) bool { return strings.Contains(body, `"42"`) })
	stopJob(t, a.client, "scraped")
	targets := "http://" + address + "/api/v1/targets?state=active"
	a.awaitPage(targets, "the end of the target", func(body string) bool {
		return strings.Contains(body, `"activeTargets":[]`)
	})
}

// TestTool_TraefiksProviderRoutesToServices runs the provider of Traefik. It makes a router and a backend of
// the tags of a service after the event of its registration, and drops them after the end of the job.
func TestTool_TraefiksProviderRoutesToServices(t *testing.T) {
	a := startToolAgent(t, "traefik-provider")
	out := a.start(a.client.Address())
	out.await(t, "{}") // of no service
	a.runServed("routed", "8080", "traefik.enable=true",
		"traefik.http.routers.routed.rule=PathPrefix(`/routed`)")
	out.await(t, "\"rule\":\"PathPrefix(`/routed`)\"")
	out.await(t, `"url":"http://127.0.0.1:8080"`)
	stopJob(t, a.client, "routed")
	out.await(t, "{}")
}

// portOf returns the port of an address.
func portOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// TestTool_PackRunsAPack renders, plans, runs and destroys a pack of templates.
func TestTool_PackRunsAPack(t *testing.T) {
	a := startToolAgent(t, "nomad-pack")
	pack := filepath.Join(a.dir, "pack")
	for name, text := range map[string]string{
		"metadata.hcl": `app {
  url = ""
}
pack {
  name        = "sleepers"
  description = "of the test"
  version     = "0.1.0"
}
`,
		"variables.hcl": `variable "count" {
  type    = number
  default = 1
}
`,
		"templates/sleeper.nomad.tpl": sleeper("[[ var \"count\" . ]]", ""),
	} {
		path := filepath.Join(pack, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}

	render := a.run("render", pack, "--var", "count=2")
	if !strings.Contains(render, "count = 2") {
		t.Errorf("the rendered job lacks the count:\n%s", render)
	}
	plan := a.command("plan", pack, "--var", "count=2")
	out, err := plan.CombinedOutput()
	if code := plan.ProcessState.ExitCode(); code != 1 { // 1 says that there are changes
		t.Errorf("plan ends with %d (%v):\n%s", code, err, out)
	}
	a.run("run", pack, "--var", "count=2")
	a.awaitCount("sleeper", 2)
	status := a.run("status", "pack")
	if !strings.Contains(status, "sleeper") {
		t.Errorf("the status lacks the job:\n%s", status)
	}
	a.run("destroy", pack)
	_, _, err = a.client.Jobs().Info("sleeper", nil)
	if err == nil {
		t.Error("the job is still there")
	}
}
