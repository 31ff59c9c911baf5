package interop

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	public "github.com/hashicorp/nomad/api"

	"berth/test/kit"
)

// toolAgent is an agent with a ready node, for one tool of the dialect that runs unmodified.
type toolAgent struct {
	t      *testing.T
	client *public.Client
	path   string // of the tool
	dir    string // the tool's working directory
}

// startToolAgent skips the test unless scripts/interop-tools.sh has built the tool.
func startToolAgent(t *testing.T, tool string) toolAgent {
	t.Helper()
	path := filepath.Join(os.Getenv("INTEROP_TOOLS"), tool)
	if _, err := os.Stat(path); err != nil {
		kit.SkipLacking(t, tool+" is not built: make interop-tools")
	}
	c := connectToAgent(t)
	awaitReadyNode(t, c)
	return toolAgent{t, c, path, t.TempDir()}
}

// command returns a command of the tool. It ends with the test.
func (a toolAgent) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(a.t.Context(), a.path, args...)
	cmd.Dir = a.dir
	cmd.Env = append(os.Environ(), "NOMAD_ADDR="+a.client.Address(), "HOME="+a.dir)
	return cmd
}

// run fails the test unless the tool ends with exit code 0. It returns the output.
func (a toolAgent) run(args ...string) string {
	a.t.Helper()
	out, err := a.command(args...).CombinedOutput()
	if err != nil {
		a.t.Fatalf("%s %s: %v\n%s", filepath.Base(a.path), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// write makes a file in the tool's directory.
func (a toolAgent) write(name, text string) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// awaitCount waits until the only group of a job has a count.
func (a toolAgent) awaitCount(job string, count int) {
	a.t.Helper()
	awaitAnswer(a.t, "the count of "+job, func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		j, meta, err := a.client.Jobs().Info(job, q)
		return err == nil && *j.TaskGroups[0].Count == count, meta, err
	})
}

// scaleTo sets the count of the sleeper as soon as no deployment is active.
func (a toolAgent) scaleTo(count int) {
	a.t.Helper()
	awaitAnswer(a.t, "scaling", func(*public.QueryOptions) (bool, *public.QueryMeta, error) {
		_, _, err := a.client.Jobs().Scale("sleeper", "g", &count, "by the test", false, nil, nil)
		return err == nil, nil, err
	})
}

// sleeperFile is a job file with a place for the count.
const sleeperFile = `job "sleeper" {
  type = "service"
  update {
    min_healthy_time = "0s"
    healthy_deadline = "1m"
    progress_deadline = "2m"
  }
  group "g" {
    count = COUNT
    SCALING
    task "app" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo sleeping; exec sleep 600"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
`

// sleeper returns the job file with a count and a scaling block.
func sleeper(count, scaling string) string {
	return strings.NewReplacer("COUNT", count, "SCALING", scaling).Replace(sleeperFile)
}

// TestTool_LevantDeploysAndScales deploys a template with a variable, deploys it again with another count,
// and scales it. levant watches each deployment to its end.
func TestTool_LevantDeploysAndScales(t *testing.T) {
	a := startToolAgent(t, "levant")
	defer stopJob(t, a.client, "sleeper")
	a.write("job.hcl", sleeper("[[ .count ]]", ""))
	deploy := func(count string) string {
		return a.run("deploy", "-address", a.client.Address(), "-force-count",
			"-var", "count="+count, "job.hcl")
	}
	out := deploy("1")
	if !strings.Contains(out, "successful") {
		t.Errorf("levant reports no success:\n%s", out)
	}
	a.run("plan", "-address", a.client.Address(), "-var", "count=2", "job.hcl")
	deploy("2")
	a.awaitCount("sleeper", 2)
	a.run("scale-out", "-address", a.client.Address(), "-count", "1", "sleeper")
	a.awaitCount("sleeper", 3)
}

// runScaledSleeper runs the sleeper with a policy by which the autoscaler sets the count 2.
func (a toolAgent) runScaledSleeper() {
	a.t.Helper()
	job, err := a.client.Jobs().ParseHCL(sleeper("1", `scaling {
      enabled = true
      min     = 1
      max     = 3
      policy {
        cooldown            = "1s"
        evaluation_interval = "1s"
        check "cpu" {
          source = "nomad-apm"
          query  = "avg_cpu"
          strategy "fixed-value" {
            value = "2"
          }
        }
      }
    }`), true)
	if err != nil {
		a.t.Fatal(err)
	}
	runJob(a.t, a.client, job)
}

// startAutoscaler starts an autoscaler with more settings, until stop or the end of the test. Its log goes to
// a screen.
func (a toolAgent) startAutoscaler(name, settings string) (log *screen, stop func()) {
	a.t.Helper()
	a.write(name+".hcl", `nomad { address = "`+a.client.Address()+`" }
http { bind_port = `+freePort(a.t)+` }
`+settings)
	cmd := a.command("agent", "-config", name+".hcl", "-log-level", "debug")
	log = &screen{changed: make(chan struct{}, 1)}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if a.t.Failed() {
			a.t.Logf("the autoscaler %s wrote\n%s", name, log)
		}
	})
	a.t.Cleanup(stop)
	return log, stop
}

// TestTool_AutoscalerScalesAGroup runs the autoscaler with its own sources: it reads the policies of the jobs
// and the use of processors, and scales the job.
func TestTool_AutoscalerScalesAGroup(t *testing.T) {
	a := startToolAgent(t, "nomad-autoscaler")
	a.runScaledSleeper()
	_, stop := a.startAutoscaler("agent", "")
	defer stop()
	a.awaitCount("sleeper", 2)
	status, _, err := a.client.Jobs().ScaleStatus("sleeper", nil)
	if checkNoError(t, "scale status", err) && len(status.TaskGroups["g"].Events) == 0 {
		t.Error("the scaling left no event")
	}
}

// TestTool_AutoscalersHaveOneLeader runs two autoscalers with one lock. The second one evaluates no policy
// before the end of the first one, and scales after it.
func TestTool_AutoscalersHaveOneLeader(t *testing.T) {
	a := startToolAgent(t, "nomad-autoscaler")
	a.runScaledSleeper()
	const settings = `high_availability {
  enabled    = true
  lock_path  = "autoscaler/lock"
  lock_ttl   = "10s"
  lock_delay = "10s"
}
`
	_, stop := a.startAutoscaler("first", settings)
	a.awaitCount("sleeper", 2)
	v, _, err := a.client.Variables().Read("autoscaler/lock", nil)
	if err != nil || v.Lock == nil {
		t.Fatalf("the lock of the first one: %+v, %v", v, err)
	}

	second, _ := a.startAutoscaler("second", settings)
	second.await(t, "running in HA mode")
	const works = "received policy for evaluation"
	a.scaleTo(1) // the first one scales it again
	a.awaitCount("sleeper", 2)
	if text := second.String(); strings.Contains(text, works) {
		t.Errorf("the second one works beside the first one:\n%s", text)
	}
	stop()
	second.await(t, works)
	a.scaleTo(1)
	a.awaitCount("sleeper", 2)
}

// freePort returns a port of the test. For the autoscaler, port 0 is its default.
func freePort(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(kit.FreePorts(t, 1)[0])
}

// screen keeps what a program with a terminal wrote.
type screen struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until the program has written a text after the previous one that it waited for.
func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		s.mu.Lock()
		_, rest, found := strings.Cut(s.text.String(), text)
		if found {
			s.text.Reset()
			s.text.WriteString(rest)
		}
		shown := s.text.String()
		s.mu.Unlock()
		if found {
			return
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			t.Fatalf("the screen never shows %q after\n%q", text, shown)
		}
	}
}

// TestTool_OpenTofuAppliesImportsAndDestroys plans, applies, reads back, imports and destroys resources of
// the public provider.
func TestTool_OpenTofuAppliesImportsAndDestroys(t *testing.T) {
	a := startToolAgent(t, "tofu")
	provider := filepath.Join(filepath.Dir(a.path), "terraform-provider-nomad")
	if _, err := os.Stat(provider); err != nil {
		kit.SkipLacking(t, "terraform-provider-nomad is not built: make interop-tools")
	}
	a.write("cli.tfrc", `provider_installation {
  dev_overrides { "hashicorp/nomad" = "`+filepath.Dir(provider)+`" }
  direct {}
}
`)
	t.Setenv("TF_CLI_CONFIG_FILE", filepath.Join(a.dir, "cli.tfrc"))
	a.write("job.hcl", sleeper("1", ""))
	a.write("main.tf", `resource "nomad_namespace" "team" {
  name        = "team"
  description = "of the test"
}
resource "nomad_node_pool" "disks" {
  name = "disks"
}
resource "nomad_job" "sleeper" {
  jobspec          = file("job.hcl")
  detach           = false
  purge_on_destroy = true
}
data "nomad_namespaces" "all" {
  depends_on = [nomad_namespace.team]
}
output "namespaces" {
  value = data.nomad_namespaces.all.namespaces
}
`)
	a.run("plan", "-no-color", "-input=false")
	out := a.run("apply", "-no-color", "-input=false", "-auto-approve")
	for _, text := range []string{"3 added", `"team"`} {
		if !strings.Contains(out, text) {
			t.Errorf("apply does not say %s:\n%s", text, out)
		}
	}
	out = a.run("plan", "-no-color", "-input=false", "-detailed-exitcode") // 2 with a difference
	if !strings.Contains(out, "No changes") {
		t.Errorf("the second plan has changes:\n%s", out)
	}
	a.run("state", "rm", "nomad_namespace.team")
	a.run("import", "-no-color", "-input=false", "nomad_namespace.team", "team")
	out = a.run("destroy", "-no-color", "-input=false", "-auto-approve")
	if !strings.Contains(out, "3 destroyed") {
		t.Errorf("destroy does not destroy all:\n%s", out)
	}
	_, _, err := a.client.Jobs().Info("sleeper", nil)
	if err == nil {
		t.Error("the job is still there")
	}
}
