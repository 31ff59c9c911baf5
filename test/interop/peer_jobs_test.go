package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	public "github.com/hashicorp/nomad/api"
)

// webFile is a job file: its placeholders are the number of canaries and the line of shell.
const webFile = `job "peer-web" {
  update {
    canary           = %d
    health_check     = "task_states"
    min_healthy_time = "100ms"
  }
  group "g" {
    count = 2
    task "app" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "%s; sleep 600"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
`

// batchFile is a job file: its placeholders are the ID, and the block by which the job starts others.
const batchFile = `job "%s" {
  type = "batch"
  %s
  group "g" {
    task "app" {
      driver = "exec"
      config {
        command = "/bin/true"
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
`

// TestPeersCommandLine_ChangesJobs runs the verbs that change jobs, deployments and nodes against a real
// agent. It compares their exit codes, their output and the effects.
func TestPeersCommandLine_ChangesJobs(t *testing.T) {
	t.Parallel()
	peer, c := connectPeer(t)
	awaitReadyNode(t, c)
	web := peerJob{c, "peer-web", t.TempDir()}
	for _, sub := range []struct {
		name string
		test func(*testing.T, peerCLI, peerJob)
	}{
		{"plan and run", testPeerPlans},
		{"history and revert", testPeerReverts},
		{"scale and restart", testPeerScales},
		{"evaluations", testPeerEvaluates},
		{"deployments", testPeerDeploys},
		{"drain", testPeerDrains},
		{"dispatch and periodic", testPeerStartsChildren},
		{"stop", testPeerStops},
	} {
		t.Run(sub.name, func(t *testing.T) {
			peer.t = t
			sub.test(t, peer, web)
		})
		if t.Failed() {
			return // each needs what the ones before it have done
		}
	}
}

// peerJob is the job that the verbs change.
type peerJob struct {
	c   *public.Client
	id  string
	dir string
}

// file writes a job file and returns its path.
func (j peerJob) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(j.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// web writes the job file of webFile with a line of shell and a number of canaries.
func (j peerJob) web(t *testing.T, line string, canaries int) string {
	t.Helper()
	return j.file(t, "web.hcl", fmt.Sprintf(webFile, canaries, line))
}

func (j peerJob) read(t *testing.T) *public.Job {
	t.Helper()
	job, _, err := j.c.Jobs().Info(j.id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// awaitDeployment waits until the newest deployment is one of the job's version, and done accepts it.
func (j peerJob) awaitDeployment(
	t *testing.T, what string, done func(*public.Deployment) bool,
) *public.Deployment {
	t.Helper()
	version := *j.read(t).Version
	var found *public.Deployment
	awaitAnswer(t, what, func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		d, meta, err := j.c.Jobs().LatestDeployment(j.id, q)
		found = d
		return err == nil && d != nil && d.JobVersion == version && done(d), meta, err
	})
	return found
}

func hasStatus(status string) func(*public.Deployment) bool {
	return func(d *public.Deployment) bool { return d.Status == status }
}

func canaryIsHealthy(d *public.Deployment) bool {
	g := d.TaskGroups["g"]
	return d.Status == "running" && g.DesiredCanaries == 1 && g.HealthyAllocs == 1
}

func testPeerPlans(t *testing.T, peer peerCLI, web peerJob) {
	first := web.web(t, "echo v1", 0)
	peer.checkOutput(peer.exits(1, "job", "plan", first), `+ Job: "peer-web"`,
		`+ Task Group: "g" (2 create)`, "All tasks successfully allocated", "Job Modify Index: 0")
	peer.checkOutput(peer.run("job", "run", "-check-index", "0", first), "created: node",
		`finished with status "complete"`, "Monitoring deployment", "Deployment completed successfully")
	peer.checkOutput(peer.exits(1, "job", "run", "-check-index", "0", first), "exists already",
		"Job not updated")
	peer.checkOutput(peer.exits(0, "job", "plan", first), `Task Group: "g" (2 ignore)`,
		fmt.Sprintf("nomad job run -check-index %d", *web.read(t).JobModifyIndex))
	second := web.web(t, "echo v2", 0)
	peer.checkOutput(peer.exits(1, "job", "plan", second), `+/- Job: "peer-web"`,
		`+/- Task: "app" (forces create/destroy update)`, `"echo v1; sleep 600" => "echo v2; sleep 600"`)
	big := strings.Replace(fmt.Sprintf(batchFile, "peer-big", ""), "cpu    = 20", "cpu    = 9000000", 1)
	peer.checkOutput(peer.exits(1, "job", "plan", web.file(t, "big.hcl", big)),
		"WARNING: Failed to place all allocations", `Task Group "g" (failed to place 1 allocation)`,
		"Resources exhausted on 1 nodes", `Dimension "cpu" exhausted on 1 nodes`)
	peer.exits(255, "job", "plan", filepath.Join(web.dir, "none.hcl"))
	peer.run("job", "run", "-detach", "-eval-priority", "70", "-policy-override", second)
	web.awaitDeployment(t, "the second version", hasStatus("successful"))
}

func testPeerReverts(t *testing.T, peer peerCLI, web peerJob) {
	peer.checkOutput(peer.run("job", "history", web.id), "Version     = 1", "Version     = 0",
		"Stable      = true")
	peer.checkOutput(peer.run("job", "history", "-p", web.id), `"echo v1; sleep 600" => "echo v2; sleep 600"`)
	one := peer.run("job", "history", "-p", "-version", "1", web.id)
	peer.checkOutput(one, "Version     = 1", "+/- Job")
	if strings.Contains(one, "Version     = 0") {
		t.Errorf("one version: got\n%s", one)
	}
	peer.checkOutput(peer.run("job", "history", "-full", "-version", "0", web.id), "echo v1; sleep 600")
	var versions []*public.Job
	err := json.Unmarshal([]byte(peer.run("job", "history", "-json", web.id)), &versions)
	if err != nil || len(versions) != 2 || *versions[0].Version != 1 {
		t.Errorf("got %d versions: %v", len(versions), err)
	}
	peer.checkOutput(peer.run("job", "history", "-t", "{{range .}}v{{.Version}} {{end}}", web.id), "v1 v0")
	peer.checkOutput(peer.exits(1, "job", "revert", web.id, "9"), "no version 9")
	peer.checkOutput(peer.run("job", "revert", web.id, "0"), `finished with status "complete"`)
	job := web.read(t)
	args := fmt.Sprint(job.TaskGroups[0].Tasks[0].Config["args"])
	if *job.Version != 2 || !strings.Contains(args, "echo v1") {
		t.Errorf("after the revert: version %d with %s", *job.Version, args)
	}
}

func testPeerScales(t *testing.T, peer peerCLI, web peerJob) {
	peer.checkOutput(peer.run("job", "scale", web.id, "3"), "Deployment completed successfully")
	peer.checkOutput(peer.exits(1, "job", "scale", web.id, "nope", "1"), "Group nope not found within job")
	status, _, err := web.c.Jobs().ScaleStatus(web.id, nil)
	if err != nil {
		t.Fatal(err)
	}
	if g := status.TaskGroups["g"]; g.Desired != 3 || g.Running != 3 || g.Healthy != 3 || g.Unhealthy != 0 {
		t.Errorf("the status of the scaling is %+v", g)
	}
	peer.checkOutput(peer.run("job", "scaling-events", "-verbose", web.id),
		"Task Group", "submitted using the Nomad CLI", "false")
	peer.run("job", "run", "-detach", "-preserve-counts", web.web(t, "echo v1", 0))
	if count := *web.read(t).TaskGroups[0].Count; count != 3 {
		t.Errorf("a registration that preserves the counts: got %d, want 3", count)
	}
	peer.checkOutput(peer.run("job", "restart", "-on-error", "fail", "-batch-size", "2", "-task", "app", web.id),
		"Restarting 3 allocations", "Job restarted successfully!")
	peer.checkOutput(
		peer.run("job", "restart", "-on-error", "fail", "-reschedule", "-batch-size", "100%", web.id),
		"Rescheduling allocation", "replaced by", "Job restarted successfully!")
	peer.checkOutput(peer.run("job", "scale", "-detach", web.id, "g", "2"), "Evaluation ID:")
	web.awaitDeployment(t, "two allocations", hasStatus("successful"))
	peer.checkOutput(peer.run("job", "allocs", "-all", "-verbose", web.id), "running", "Eval ID")
}

func testPeerEvaluates(t *testing.T, peer peerCLI, web peerJob) {
	peer.checkOutput(peer.run("job", "eval", web.id), `finished with status "complete"`)
	peer.checkOutput(peer.run("job", "eval", "-detach", "-force-reschedule", web.id), "Created eval ID:")
	peer.checkOutput(peer.run("eval", "list", "-job", web.id), "job-register", "job-scaling", "manual")
	peer.checkOutput(peer.run("eval", "list", "-job", "none"), "No evals found")
	peer.checkOutput(peer.run("eval", "list", "-status", "failed"), "No evals found")
	filtered := peer.run("eval", "list", "-verbose", "-filter", `TriggeredBy == "job-scaling"`)
	id := regexp.MustCompile(`(?m)^[0-9a-f]{8}-[0-9a-f-]{27}`).FindString(filtered)
	if id == "" || strings.Contains(filtered, "manual") {
		t.Fatalf("the evaluations of the scaling are\n%s", filtered)
	}
	list := []string{"eval", "list", "-job", web.id, "-status", "complete", "-per-page", "2"}
	page := peer.run(list...)
	token := regexp.MustCompile(`-page-token (\S+)`).FindStringSubmatch(page)
	if token == nil || strings.Count(page, web.id+" ") < 2 {
		t.Fatalf("the first page is\n%s", page)
	}
	next := peer.run(append(list, "-page-token", token[1])...)
	if strings.Split(next, "\n")[1] == strings.Split(page, "\n")[1] {
		t.Errorf("the second page is the first:\n%s", next)
	}
	peer.checkOutput(peer.run("eval", "status", id[:8]), "job-scaling", "complete")
	peer.checkOutput(peer.run("eval", "status", "-json", id), `"TriggeredBy": "job-scaling"`)
	peer.checkOutput(peer.run("eval", "status", "-monitor", id), `finished with status "complete"`)
	peer.exits(1, "eval", "status", "none")
	peer.checkOutput(peer.run("job", "status", "-evals", "-all-allocs", web.id), "Evaluations", "job-scaling",
		"Latest Deployment", "Allocations")
}

func testPeerDeploys(t *testing.T, peer peerCLI, web peerJob) {
	peer.run("job", "run", "-detach", web.web(t, "echo v3", 1))
	d := web.awaitDeployment(t, "a healthy canary", canaryIsHealthy)
	peer.checkOutput(peer.run("deployment", "list"), d.ID[:8], "requires manual promotion")
	peer.checkOutput(peer.run("deployment", "list", "-filter", `Status == "running"`, "-verbose"), d.ID)
	peer.checkOutput(peer.run("deployment", "status", d.ID[:8]), "Canaries", "requires manual promotion")
	peer.checkOutput(peer.run("deployment", "status", "-json", d.ID), `"DesiredCanaries": 1`)
	peer.checkOutput(peer.run("job", "deployments", "-latest", web.id), d.ID[:8])
	peer.checkOutput(peer.run("job", "deployments", "-all", "-verbose", web.id), d.ID, "successful")
	peer.checkOutput(peer.run("deployment", "pause", d.ID), "paused")
	web.awaitDeployment(t, "the paused deployment", hasStatus("paused"))
	peer.checkOutput(peer.run("deployment", "resume", "-detach", d.ID), "resumed", "Evaluation ID")
	peer.checkOutput(peer.run("deployment", "unblock", d.ID), "unblocked")
	peer.checkOutput(peer.run("job", "promote", "-detach", "-group", "g", web.id), "Evaluation ID")
	web.awaitDeployment(t, "the promoted deployment", hasStatus("successful"))
	peer.checkOutput(peer.exits(1, "deployment", "fail", d.ID), "has ended")

	peer.run("job", "run", "-detach", web.web(t, "echo v4", 1))
	d = web.awaitDeployment(t, "another canary", canaryIsHealthy)
	peer.checkOutput(peer.run("deployment", "fail", "-detach", d.ID), "failed", "Evaluation ID")
	peer.checkOutput(peer.run("deployment", "status", "-monitor", d.ID), "failed")

	peer.run("job", "run", "-detach", web.web(t, "echo v5", 1))
	d = web.awaitDeployment(t, "a third canary", canaryIsHealthy)
	peer.checkOutput(peer.run("deployment", "promote", d.ID), "successful")
	peer.exits(1, "deployment", "status", "none")
}

func testPeerDrains(t *testing.T, peer peerCLI, web peerJob) {
	node := awaitReadyNode(t, web.c).ID
	check := func(what, eligibility string) {
		t.Helper()
		n, _, err := web.c.Nodes().Info(node, nil)
		if err != nil || n.SchedulingEligibility != eligibility || n.Drain {
			t.Errorf("%s: got %+v, %v", what, n, err)
		}
	}
	peer.checkOutput(peer.run("node", "eligibility", "-disable", "-self"), "ineligible for scheduling")
	check("a node that was made ineligible", "ineligible")
	peer.checkOutput(peer.run("node", "eligibility", "-enable", node[:8]), "eligible for scheduling")
	check("a node that was made eligible", "eligible")
	peer.exits(1, "node", "eligibility", "-self")

	// No other node has capacity for what follows the first allocation that moves, so the rest wait for the
	// deadline.
	peer.checkOutput(peer.run("node", "drain", "-enable", "-yes", "-deadline", "5s", "-m", "new disk", "-self"),
		"drain strategy set", "have stopped", "Drain complete for node")
	check("a node that has drained", "ineligible")
	n, _, err := web.c.Nodes().Info(node, nil)
	if err != nil || n.LastDrain.Status != "complete" || n.LastDrain.Meta["message"] != "new disk" {
		t.Errorf("the last drain is %+v, %v", n.LastDrain, err)
	}
	peer.checkOutput(peer.run("node", "status", "-self"), "Drain           = false", "ineligible",
		"Node drain complete")
	peer.checkOutput(peer.run("node", "drain", "-disable", "-yes", "-self"), "drain strategy unset")
	check("a node whose drain was cancelled", "eligible")
	awaitAnswer(t, "allocations that run again", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		s, meta, err := web.c.Jobs().Summary(web.id, q)
		return err == nil && s.Summary["g"].Running == 2, meta, err
	})
	for _, args := range [][]string{
		{"-enable", "-detach", "-no-deadline", "-ignore-system"},
		{"-disable", "-keep-ineligible"},
		{"-enable", "-force"},
		{"-disable"},
	} {
		peer.run(append([]string{"node", "drain", "-yes", "-self"}, args...)...)
	}
	check("a node that drained by force", "eligible")
	peer.exits(1, "node", "drain", "-self")
}

func testPeerStartsChildren(t *testing.T, peer peerCLI, web peerJob) {
	encode := web.file(t, "encode.hcl", fmt.Sprintf(batchFile, "peer-encode",
		"parameterized {\n    meta_required = [\"who\"]\n  }"))
	peer.checkOutput(peer.run("job", "run", encode), "Job registration successful")
	peer.exits(0, "job", "plan", encode)
	peer.checkOutput(peer.exits(1, "job", "dispatch", "peer-encode"), `requires a value for "who"`)
	peer.checkOutput(peer.exits(1, "job", "dispatch", "-meta", "who=me", "-meta", "x=y", "peer-encode"),
		`has no parameter "x"`)
	out := peer.run("job", "dispatch", "-meta", "who=me", "-id-prefix-template", "night", "peer-encode", encode)
	id := regexp.MustCompile(`Dispatched Job ID = (\S+)`).FindStringSubmatch(out)
	if id == nil || !strings.HasPrefix(id[1], "peer-encode/dispatch-night-") {
		t.Fatalf("the dispatch wrote\n%s", out)
	}
	child, _, err := web.c.Jobs().Info(id[1], nil)
	if err != nil || !strings.HasPrefix(string(child.Payload), `job "peer-encode"`) || child.Meta["who"] != "me" {
		t.Errorf("the child is %+v: %v", child, err)
	}
	line := regexp.MustCompile(`Dispatched Job ID = \S+`)
	dispatched := func() string {
		return line.FindString(peer.run("job", "dispatch", "-detach", "-meta", "who=me",
			"-idempotency-token", "once", "peer-encode"))
	}
	first := dispatched()
	if again := dispatched(); first == "" || first != again {
		t.Errorf("two dispatches with one token: %q and %q", first, again)
	}
	peer.checkOutput(peer.run("job", "status", "peer-encode"), "Parameterized = true", "Dispatched Jobs", id[1])

	backup := web.file(t, "backup.hcl", fmt.Sprintf(batchFile, "peer-backup",
		"periodic {\n    cron = \"0 0 1 1 *\"\n  }"))
	peer.checkOutput(peer.run("job", "run", backup), "Approximate next launch time")
	peer.checkOutput(peer.exits(0, "job", "plan", backup), "next periodic launch would be at")
	peer.checkOutput(peer.run("job", "periodic", "force", "peer-backup"), `finished with status "complete"`)
	peer.checkOutput(peer.run("job", "status", "peer-backup"), "Previously Launched Jobs",
		"peer-backup/periodic-")
	peer.exits(1, "job", "periodic", "force", "peer-encode")
	peer.exits(1, "job", "dispatch", "peer-backup")
	peer.checkOutput(peer.exits(1, "job", "eval", "peer-backup"), "evaluate one of its children")
	for _, id := range []string{"peer-encode", "peer-backup"} {
		peer.run("job", "stop", "-yes", "-purge", id)
	}
}

func testPeerStops(t *testing.T, peer peerCLI, web peerJob) {
	for _, args := range [][]string{
		{"history"}, {"allocs"}, {"deployments"}, {"eval"}, {"scaling-events"}, {"status"}, {"stop"},
	} {
		peer.checkOutput(peer.exits(1, append([]string{"job"}, append(args, "none")...)...), "none")
	}
	out := peer.run("job", "stop", "-detach", "-yes", "-global", "-no-shutdown-delay", "-eval-priority", "80",
		web.id)
	e, _, err := web.c.Evaluations().Info(strings.TrimSpace(out), nil)
	if err != nil || e.Priority != 80 || e.TriggeredBy != "job-deregister" {
		t.Errorf("the evaluation of the stop is %+v: %v", e, err)
	}
	awaitAnswer(t, "the end of the job", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		job, meta, err := web.c.Jobs().Info(web.id, q)
		return err == nil && *job.Status == "dead", meta, err
	})
	peer.checkOutput(peer.run("job", "status", web.id), "dead (stopped)")
	peer.checkOutput(peer.run("job", "stop", "-purge", "-yes", web.id), `finished with status "complete"`)
	peer.exits(1, "job", "status", web.id)
}
