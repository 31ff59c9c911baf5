package agent

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/structs"
)

// TestMetrics_OfAServerIncludeAllParts of the process: berth, Raft and its log, gossip and the runtime.
func TestMetrics_OfAServerIncludeAllParts(t *testing.T) {
	addr, _, stop := startServer(t, "-data-dir", t.TempDir())
	getJSON[[]*structs.NodeListStub](t, addr+"/v1/nodes") // waits for a leader
	wanted := []string{
		"berth_rpc_served", "berth_control_nodes", "berth_csi_claims", "berth_fsm_apply",
		"berth_raft_apply", "berth_raft_wal_log_appends", "berth_raft_state_leader",
		"berth_serf_member_join", "berth_memberlist_gossip",
		"berth_runtime_num_goroutines", "go_goroutines", "process_open_fds",
	}
	registerJob(t, addr)
	text := awaitMetrics(t, addr, wanted)
	for _, name := range wanted {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("the text for Prometheus lacks %s", name)
		}
	}
	awaitGauges(t, addr, "berth.runtime.num_goroutines", "berth.control.nodes")
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// registerJob makes a log entry.
func registerJob(t *testing.T, addr string) {
	t.Helper()
	job := `{"Job": {"ID": "j", "TaskGroups": [{"Name": "g", "Count": 0,
		"Tasks": [{"Name": "t", "Driver": "exec", "Config": {"command": "true"}}]}]}}`
	req, err := http.NewRequest(http.MethodPut, addr+"/v1/jobs", strings.NewReader(job))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// awaitMetrics scrapes until all names are there, or for a minute.
func awaitMetrics(t *testing.T, addr string, names []string) (text string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		resp, err := http.Get(addr + "/v1/metrics?format=prometheus")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %v", resp.Status, err)
		}
		text = string(body)
		missing := false
		for _, name := range names {
			missing = missing || !strings.Contains(text, "\n"+name)
		}
		if !missing {
			break
		}
		time.Sleep(50 * time.Millisecond) // between two scrapes
	}
	return text
}

func TestMetrics_FollowTheTelemetryBlock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.hcl")
	if err := os.WriteFile(file, []byte("telemetry {\n  prometheus_metrics = false\n}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	addr, _, _ := startServer(t, "-data-dir", t.TempDir(), "-config", file)
	resp, err := http.Get(addr + "/v1/metrics?format=prometheus")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("with prometheus_metrics = false the answer is %s", resp.Status)
	}
	c := DefaultConfig()
	c.Telemetry.CollectionInterval = time.Nanosecond
	c.DataDir, c.Server.Enabled = "/d", true
	err = c.Finish()
	if err == nil || !strings.Contains(err.Error(),
		"telemetry: collection_interval is 1ns") {
		t.Errorf("a bad interval: %v", err)
	}
}

// awaitGauges polls until all are in the newest finished interval, or for two minutes: an interval is ten
// seconds, and the first one may end before there is a leader.
func awaitGauges(t *testing.T, addr string, names ...string) {
	t.Helper()
	found := map[string]bool{}
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		clear(found)
		for _, g := range getJSON[metrics.MetricsSummary](t, addr+"/v1/metrics").Gauges {
			found[g.Name] = true
		}
		if !slices.ContainsFunc(names, func(name string) bool {
			return !found[name]
		}) {
			return
		}
		time.Sleep(50 * time.Millisecond) // between two requests
	}
	t.Errorf("the JSON has the gauges %v, want %v", found, names)
}
