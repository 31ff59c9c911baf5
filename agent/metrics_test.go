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
		"berth_rpc_served",
		"berth_control_nodes",
		"berth_csi_claims",
		"berth_fsm_apply",
		"berth_raft_apply",
		"berth_raft_wal_log_appends",
		"berth_raft_state_leader",
		"berth_serf_member_join",
		"berth_memberlist_gossip",
		"berth_runtime_num_goroutines",
		"go_goroutines",
		"process_open_fds",
	}
	putJob(t, addr, `{"Job": {"ID": "j", "TaskGroups": [{"Name": "g", "Count": 0,
		"Tasks": [{"Name": "t", "Driver": "exec", "Config": {"command": "true"}}]}]}}`)
	text := awaitMetrics(t, addr, wanted)
	for _, name := range wanted {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("the text for Prometheus lacks %s", name)
		}
	}
	awaitGauges(t, addr, "berth.runtime.num_goroutines", "berth.control.nodes")
	if code := stop(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// awaitMetrics scrapes until the text has all names, at most for a minute.
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
			t.Fatalf("got %s, error %v", resp.Status, err)
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
	const block = "telemetry {\n  prometheus_metrics = false\n}\n"
	if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	addr, _, _ := startServer(t, "-data-dir", t.TempDir(), "-config", file)
	resp, err := http.Get(addr + "/v1/metrics?format=prometheus")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("with prometheus_metrics = false: got %s, want 412", resp.Status)
	}
	c := DefaultConfig()
	c.Telemetry.CollectionInterval = time.Nanosecond
	c.DataDir = "/d"
	c.Server.Enabled = true
	err = c.Finish()
	if err == nil || !strings.Contains(err.Error(), "telemetry: collection_interval is 1ns") {
		t.Errorf("an interval of 1ns: got %v", err)
	}
}

// awaitGauges polls until all gauges are in the newest finished interval, at most for two minutes. An
// interval is ten seconds, and the first one may end before a server leads.
func awaitGauges(t *testing.T, addr string, names ...string) {
	t.Helper()
	found := map[string]bool{}
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		clear(found)
		for _, g := range getJSON[metrics.MetricsSummary](t, addr+"/v1/metrics").Gauges {
			found[g.Name] = true
		}
		missing := func(name string) bool { return !found[name] }
		if !slices.ContainsFunc(names, missing) {
			return
		}
		time.Sleep(50 * time.Millisecond) // between two requests
	}
	t.Errorf("the JSON has the gauges %v, want %v", found, names)
}
