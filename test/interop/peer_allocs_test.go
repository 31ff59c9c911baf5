package interop

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	public "github.com/hashicorp/nomad/api"
)

// traceFile is a job file whose task tells of a signal, and whose group has a policy of scaling. It is not
// formatted.
const traceFile = `job "peer-trace" {
  update {
    health_check = "task_states"
    min_healthy_time = "0s"
  }
  group "g" {
    scaling {
      min = 1
      max = 3
    }
    task "app" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<EOF
trap 'echo hung up' HUP
echo begun | tee /alloc/data/file
while :; do sleep 1; done
EOF
        ]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
`

// traced is what the verbs about one allocation work on.
type traced struct {
	peerJob
	peer  peerCLI
	path  string // of its job file
	alloc string // the ID of its allocation
	node  string
}

// TestPeersCommandLine_WorksOnAnAllocation runs the verbs about one job, its allocation and its node against
// a real agent.
func TestPeersCommandLine_WorksOnAnAllocation(t *testing.T) {
	t.Parallel()
	peer, c := connectPeer(t)
	tr := &traced{
		peerJob: peerJob{c, "peer-trace", t.TempDir()},
		peer:    peer,
		node:    awaitReadyNode(t, c).ID,
	}
	tr.path = tr.file(t, "trace.hcl", traceFile)
	for _, sub := range []struct {
		name string
		test func(*testing.T, *traced)
	}{
		{"job file", testPeerReadsAJobFile},
		{"exec", testPeerRunsCommands},
		{"files and logs", testPeerReadsFiles},
		{"signal and restart", testPeerSignals},
		{"scaling policies", testPeerShowsPolicies},
		{"metadata of nodes", testPeerChangesMetadata},
		{"page", testPeerNamesThePage},
		{"logs of the agent", testPeerMonitors},
		{"stop", testPeerStopsAllocations},
		{"evaluations", testPeerDeletesEvaluations},
		{"debug", testPeerDebugs},
		{"garbage", testPeerCollectsGarbage},
	} {
		t.Run(sub.name, func(t *testing.T) {
			tr.peer.t = t
			sub.test(t, tr)
		})
		if t.Failed() {
			return // most need what the ones before have done
		}
	}
}

func testPeerReadsAJobFile(t *testing.T, tr *traced) {
	peer := tr.peer
	peer.exits(1, "fmt", "-check", tr.path)
	peer.run("fmt", tr.path)
	formatted, err := os.ReadFile(tr.path)
	if err != nil || !strings.Contains(string(formatted), "health_check     = \"task_states\"\n") {
		t.Errorf("fmt wrote %s, %v", formatted, err)
	}
	peer.run("fmt", "-check", tr.path)
	peer.checkOutput(peer.run("job", "validate", tr.path), "Job validation successful")
	wrong := tr.file(t, "wrong.hcl", strings.Replace(traceFile, "cpu    = 20", "cpu    = -5", 1))
	peer.checkOutput(peer.exits(1, "job", "validate", wrong), "cpu")

	peer.checkOutput(peer.run("run", tr.path), "Deployment completed successfully")
	peer.checkOutput(peer.run("status", tr.id), "running", "Allocations")
	var shown struct{ Job *public.Job }
	err = json.Unmarshal([]byte(peer.run("job", "inspect", tr.id)), &shown)
	if err != nil || shown.Job == nil || *shown.Job.ID != tr.id || *shown.Job.TaskGroups[0].Scaling.Max != 3 {
		t.Errorf("job inspect shows %+v, %v", shown.Job, err)
	}
	allocs, _, err := tr.c.Jobs().Allocations(tr.id, true, nil)
	if err != nil || len(allocs) != 1 {
		t.Fatalf("the job has %d allocations: %v", len(allocs), err)
	}
	tr.alloc = allocs[0].ID
}

func testPeerRunsCommands(t *testing.T, tr *traced) {
	peer := tr.peer
	await := "until test -s /alloc/data/file; do sleep 0.1; done; cat /alloc/data/file"
	peer.checkOutput(peer.run("alloc", "exec", tr.alloc, "/bin/sh", "-c", await), "begun")
	peer.exits(7, "alloc", "exec", "-task", "app", tr.alloc, "/bin/sh", "-c", "exit 7")
	peer.checkOutput(peer.exits(1, "alloc", "exec", "-task", "none", tr.alloc, "/bin/true"), "none")
	peer.checkOutput(peer.run("exec", "-job", tr.id, "/bin/cat", "/alloc/data/file"), "begun")
}

func testPeerReadsFiles(t *testing.T, tr *traced) {
	peer := tr.peer
	peer.checkOutput(peer.run("alloc", "fs", tr.alloc), "drwx", "alloc/", "app/")
	if text := peer.run("alloc", "fs", tr.alloc, "alloc/data/file"); text != "begun\n" {
		t.Errorf("the file is %q", text)
	}
	peer.checkOutput(peer.run("alloc", "fs", "-stat", tr.alloc, "alloc/data/file"), "6", "file")
	peer.exits(1, "alloc", "fs", tr.alloc, "alloc/data/none")
	peer.exits(1, "alloc", "fs", tr.alloc, "../none")
	log := peer.stream("alloc", "logs", "-f", "-stdout", tr.alloc)
	log.await("begun", func() {})
	log.interrupt()
	for _, args := range [][]string{
		{tr.alloc}, {tr.alloc, "app"}, {"-tail", "-n", "1", tr.alloc}, {"-job", tr.id},
	} {
		text := peer.run(append([]string{"alloc", "logs"}, args...)...)
		if text != "begun\n" {
			t.Errorf("alloc logs %q shows %q", args, text)
		}
	}
	if text := peer.run("alloc", "logs", "-stderr", tr.alloc); text != "" {
		t.Errorf("the standard error is %q", text)
	}
	peer.exits(1, "alloc", "logs", tr.alloc, "none")
}

func testPeerSignals(t *testing.T, tr *traced) {
	peer := tr.peer
	log := peer.stream("alloc", "logs", "-f", tr.alloc) // from the end on
	log.await("hung up", func() {
		peer.run("alloc", "signal", "-s", "SIGHUP", tr.alloc)
	})
	log.interrupt()
	peer.checkOutput(peer.exits(1, "alloc", "signal", "-s", "SIGNONE", tr.alloc), "SIGNONE")

	peer.run("alloc", "restart", tr.alloc, "app")
	awaitAnswer(t, "a restart", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		a, meta, err := tr.c.Allocations().Info(tr.alloc, q)
		return err == nil && a.TaskStates["app"].Restarts == 1 && a.TaskStates["app"].State == "running", meta, err
	})
	peer.checkOutput(peer.run("alloc", "status", tr.alloc), "Restart Signaled", "Signaling")
	peer.exits(1, "alloc", "restart", tr.alloc, "none")
}

func testPeerShowsPolicies(t *testing.T, tr *traced) {
	peer := tr.peer
	policies, _, err := tr.c.Scaling().ListPolicies(nil)
	if err != nil || len(policies) != 1 {
		t.Fatalf("there are %d policies: %v", len(policies), err)
	}
	id := policies[0].ID
	peer.checkOutput(peer.run("scaling", "policy", "list"), id[:8], "true", "horizontal",
		"Job:peer-trace,Group:g")
	peer.checkOutput(peer.run("scaling", "policy", "list", "-job", "none"), "No policies found")
	text := peer.run("scaling", "policy", "info", "-verbose", id)
	peer.checkOutput(text, id, "Job:peer-trace,Group:g")
	if field(text, "Min") != "1" || field(text, "Max") != "3" || field(text, "Enabled") != "true" {
		t.Errorf("the policy is\n%s", text)
	}
	peer.exits(1, "scaling", "policy", "info", "none")
}

func testPeerChangesMetadata(t *testing.T, tr *traced) {
	peer := tr.peer
	peer.run("node", "meta", "apply", "-node-id", tr.node, "rack=r1", "row=7")
	awaitAnswer(t, "metadata at the servers", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		n, meta, err := tr.c.Nodes().Info(tr.node, q)
		return err == nil && n.Meta["rack"] == "r1" && n.Meta["row"] == "7", meta, err
	})
	peer.checkOutput(peer.run("node", "meta", "read"), "rack = r1", "row  = 7", "Dynamic Meta")
	peer.run("node", "meta", "apply", "-unset", "rack")
	var meta public.NodeMetaResponse
	err := json.Unmarshal([]byte(peer.run("node", "meta", "read", "-json", "-node-id", tr.node)), &meta)
	if err != nil || meta.Meta["row"] != "7" || meta.Meta["rack"] != "" || *meta.Dynamic["row"] != "7" {
		t.Errorf("node meta read shows %+v, %v", meta, err)
	}
	peer.exits(1, "node", "meta", "apply", "-node-id", tr.node, "=r1")
}

// testPeerNamesThePage opens the addresses of the dialect's page, which lead to the views of berth's.
func testPeerNamesThePage(t *testing.T, tr *traced) {
	peer := tr.peer
	for id, view := range map[string]string{
		"":       "/ui/",
		tr.id:    "/ui/job?id=" + tr.id + "&namespace=default",
		tr.alloc: "/ui/allocation?id=" + tr.alloc + "&namespace=default",
		tr.node:  "/ui/node?id=" + tr.node,
	} {
		args := []string{"ui", "-show-url"}
		if id != "" {
			args = append(args, id)
		}
		_, url, _ := strings.Cut(strings.TrimSpace(peer.run(args...)), "URL for web UI: ")
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/html") // as a browser
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text := readAll(t, resp.Body)
		got := resp.Request.URL.RequestURI()
		if resp.StatusCode != http.StatusOK || got != view || !strings.Contains(text, id) {
			t.Errorf("%s is %s with %s:\n%s", url, resp.Request.URL, resp.Status, text)
		}
	}
	peer.exits(1, "ui", "-show-url", "none")
}

func testPeerMonitors(t *testing.T, tr *traced) {
	log := tr.peer.stream("monitor", "-log-level", "TRACE")
	// A line about each request is written while one of these runs.
	log.await("path=/v1/jobs", func() {
		_, _, err := tr.c.Jobs().List(nil)
		checkNoError(t, "listing jobs", err)
	})
	log.interrupt()
	tr.peer.exits(1, "monitor", "-log-level", "loud")
}

func testPeerStopsAllocations(t *testing.T, tr *traced) {
	peer := tr.peer
	peer.checkOutput(peer.run("alloc", "stop", tr.alloc), `finished with status "complete"`)
	awaitAnswer(t, "a replacement", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		allocs, meta, err := tr.c.Jobs().Allocations(tr.id, true, q)
		running, ended := "", false
		for _, a := range allocs {
			if a.ClientStatus == "running" && a.ID != tr.alloc {
				running = a.ID
			}
			ended = ended || a.ID == tr.alloc && a.ClientStatus == "complete"
		}
		return running != "" && ended, meta, err
	})
	peer.checkOutput(peer.run("alloc", "status", tr.alloc), "complete", "Replacement Alloc ID")
	peer.exits(1, "alloc", "stop", "00000000")
	peer.run("job", "eval", tr.id)
	peer.checkOutput(peer.run("stop", "-yes", tr.id), `finished with status "complete"`)
	peer.checkOutput(peer.run("status", tr.id), "dead (stopped)")
}

func testPeerDeletesEvaluations(t *testing.T, tr *traced) {
	peer := tr.peer
	// These two have placed no allocation, so they may be deleted.
	id := tr.evaluation(t, "manual")
	peer.checkOutput(peer.exits(1, "eval", "delete", "-yes", id), "Eval broker is not paused")
	peer.run("operator", "scheduler", "set-config", "-pause-eval-broker=true")
	peer.checkOutput(peer.run("eval", "delete", "-yes", id), "deleted 1 evaluation")
	peer.checkOutput(peer.exits(1, "eval", "status", id), "No evaluation")
	filter := `JobID == "peer-trace" and TriggeredBy == "job-deregister"`
	peer.checkOutput(peer.run("eval", "delete", "-yes", "-filter", filter), "deleted 1 evaluation")
	peer.run("operator", "scheduler", "set-config", "-pause-eval-broker=false")
	if id := tr.evaluation(t, "job-deregister"); id != "" {
		t.Errorf("the evaluation %s is still there", id)
	}
}

// evaluation returns the ID of an evaluation of the job by what has triggered it, "" if there is none.
func (tr *traced) evaluation(t *testing.T, trigger string) string {
	t.Helper()
	evals, _, err := tr.c.Jobs().Evaluations(tr.id, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range evals {
		if e.TriggeredBy == trigger {
			return e.ID
		}
	}
	return ""
}

func testPeerDebugs(t *testing.T, tr *traced) {
	dir := t.TempDir()
	text := tr.peer.run("operator", "debug", "-duration", "1s", "-interval", "1s", "-pprof-duration", "0s",
		"-node-id", tr.node, "-output", dir)
	tr.peer.checkOutput(text, "Servers: (1/1)", "Clients: (1/1)", "Created debug directory")
	for file, want := range map[string]string{
		"cluster/members.json":                   ".global",
		"cluster/agent-self.json":                "stats",
		"interval/0000/jobs.json":                tr.id,
		"interval/0000/nodes.json":               tr.node,
		"client/" + tr.node + "/agent-host.json": "HostData",
	} {
		matches, err := filepath.Glob(filepath.Join(dir, "nomad-debug-*", file))
		if err != nil || len(matches) != 1 {
			t.Errorf("the archive has %q for %s, %v", matches, file, err)
			continue
		}
		content, err := os.ReadFile(matches[0])
		if err != nil || !strings.Contains(string(content), want) {
			t.Errorf("%s lacks %q, %v: %s", file, want, err, content)
		}
	}
}

func testPeerCollectsGarbage(t *testing.T, tr *traced) {
	(&callFixture{t: t}).await("the stopped job is deleted", func() (bool, error) {
		tr.peer.run("system", "gc")
		_, _, err := tr.c.Jobs().Info(tr.id, nil)
		return err != nil && strings.Contains(err.Error(), "404"), err
	})
	tr.peer.exits(1, "job", "status", tr.id)
}
