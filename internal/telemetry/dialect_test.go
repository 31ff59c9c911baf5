package telemetry

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"
)

// emitAll emits one metric of each kind that the dialect has too, and one that it lacks.
func emitAll() {
	metrics.SetGauge([]string{"runtime", "heap_objects"}, 3)
	metrics.SetPrecisionGauge([]string{"raft", "index"}, 4)
	metrics.IncrCounterWithLabels([]string{"raft", "apply"}, 2, []metrics.Label{{Name: "peer_id", Value: "p"}})
	metrics.MeasureSince([]string{"control", "schedule"}, time.Now())
	for _, failure := range []string{"", "not-found"} {
		metrics.MeasureSinceWithLabels([]string{"rpc", "served"}, time.Now(), []metrics.Label{
			{Name: "method", Value: "Node.List"}, {Name: "error", Value: failure},
		})
	}
	command := []metrics.Label{{Name: "command", Value: "c"}}
	metrics.MeasureSinceWithLabels([]string{"fsm", "apply"}, time.Now(), command)
	metrics.SetGauge([]string{"csi", "claims"}, 1)
}

func hostLabel(t *testing.T) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return `host="` + host + `"`
}

func wantText(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("the text for Prometheus lacks %q", want)
		}
	}
}

func TestDialect_NamesAreServedBesideThoseOfBerth(t *testing.T) {
	tele := startTelemetry(t, DefaultConfig())
	emitAll()
	text := scrape(t, tele)
	host := hostLabel(t)
	wantText(t, text,
		"berth_runtime_heap_objects 3", "nomad_runtime_heap_objects{"+host+"} 3",
		"berth_raft_index 4", "nomad_raft_index{"+host+"} 4",
		`berth_raft_apply{peer_id="p"} 2`, "nomad_raft_apply{"+host+`,peer_id="p"} 2`,
		"nomad_nomad_broker_process_time_count{"+host+"} 1", "nomad_raft_fsm_apply_count{"+host+"} 1",
		"nomad_nomad_rpc_request{"+host+"} 2", "nomad_nomad_rpc_request_error{"+host+"} 1")
	if strings.Contains(text, "nomad_csi") || strings.Contains(text, "nomad_nomad_csi") {
		t.Error("a metric that the dialect lacks has a name in it")
	}
}

func TestDialect_FollowsItsSettings(t *testing.T) {
	off := DefaultConfig()
	off.DialectNames = false
	noHost := DefaultConfig()
	noHost.DisableHostname = true
	filtered := DefaultConfig()
	filtered.PrefixFilter = []string{"-nomad.raft.index", "+nomad.raft", "-nomad."}
	dropped := DefaultConfig()
	dropped.PrefixFilter = []string{"+berth"}
	dropped.FilterDefault = false
	remove := Gauges(func(yield func(Gauge)) { yield(Gauge{Name: "nomad.client.uptime", Value: 7}) })
	defer remove()
	for title, c := range map[string]struct {
		cfg  Config
		want []string
	}{
		"off":      {off, nil},
		"no host":  {noHost, []string{"nomad_client_uptime 7", "nomad_nomad_rpc_request 2", "nomad_raft_index 4"}},
		"filtered": {filtered, []string{"nomad_raft_apply{"}},
		"dropped":  {dropped, nil},
	} {
		t.Run(title, func(t *testing.T) {
			tele := startTelemetry(t, c.cfg)
			emitAll()
			text := scrape(t, tele)
			wantText(t, text, append(c.want, "berth_raft_index 4")...)
			unwanted := []string{"nomad_raft_index", "nomad_client_uptime", "nomad_nomad_rpc_request"}
			if title == "no host" {
				unwanted = []string{"host="}
			}
			for _, name := range unwanted {
				if strings.Contains(text, name) {
					t.Errorf("the text has %s", name)
				}
			}
		})
	}
}

func TestDialect_GaugesAreInBothForms(t *testing.T) {
	tele := startTelemetry(t, DefaultConfig())
	metrics.SetGauge([]string{"some"}, 1) // the interval begins with it
	for range 2 {                         // another source has the same series
		remove := Gauges(func(yield func(Gauge)) {
			yield(Gauge{Name: "nomad.client.uptime", Help: "Up", Labels: map[string]string{"node_id": "n"}, Value: 7})
			yield(Gauge{Name: "nomad.client.allocs.restart", Help: "Restarts", Value: 2, Counts: true})
		})
		defer remove()
	}
	host := hostLabel(t)
	wantText(t, scrape(t, tele), "nomad_client_uptime{"+host+`,node_id="n"} 7`,
		"# TYPE nomad_client_allocs_restart counter\nnomad_client_allocs_restart{"+host+"} 2")

	answer, err := tele.Summary()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(answer)
	want := `{"Name":"nomad.client.uptime","Value":7,"Labels":{` + strings.Replace(host, "host=", `"host":`, 1) +
		`,"node_id":"n"}}`
	if err != nil || strings.Count(string(text), want) != 1 {
		t.Errorf("the JSON is %s, %v; want one %s", text, err, want)
	}
}

func TestSettings_AreThoseOfTheSinks(t *testing.T) {
	cfg := DefaultConfig()
	cfg.PublishNodeMetrics = true
	tele, err := Start(cfg, hclog.NewNullLogger())
	if err != nil || !Settings().PublishNodeMetrics {
		t.Errorf("got %+v, %v", Settings(), err)
	}
	tele.Close()
	if Settings().DialectNames {
		t.Error("there are settings after the end of the sinks")
	}
}

func TestChildLabels_NameTheParent(t *testing.T) {
	for id, want := range map[string]string{
		"j/dispatch-17-ab": "dispatch_id", "j/periodic-1700": "periodic_id", "j/other": "",
	} {
		l := ChildLabels(id, "j")
		rest := id[len("j/")+strings.Index(id[2:], "-")+1:]
		if l["parent_id"] != "j" || want != "" && l[want] != rest || want == "" && len(l) != 1 {
			t.Errorf("%s: got %v", id, l)
		}
	}
	if l := ChildLabels("j/dispatch-1", ""); len(l) != 0 {
		t.Errorf("a job without a parent has %v", l)
	}
}
