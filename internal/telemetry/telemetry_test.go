package telemetry

import (
	"context"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startTelemetry directs the metrics of the process to the sinks of cfg until the test ends.
func startTelemetry(t *testing.T, cfg Config) *Telemetry {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	tele, err := Start(cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tele.Close)
	return tele
}

func counters(t *testing.T, tele *Telemetry) map[string]metrics.SampledValue {
	t.Helper()
	answer, err := tele.Summary()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]metrics.SampledValue{}
	for _, c := range answer.(metrics.MetricsSummary).Counters {
		found[c.Name] = c
	}
	return found
}

func scrape(t *testing.T, tele *Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	tele.Prometheus().ServeHTTP(w, httptest.NewRequest("GET", "/v1/metrics?format=prometheus", nil))
	return w.Body.String()
}

func TestTelemetry_ServesJSONAndPrometheus(t *testing.T) {
	cfg := DefaultConfig()
	cfg.InMemoryCollectionInterval = time.Hour // the interval does not end within the test
	cfg.InMemoryRetentionPeriod = time.Hour
	tele := startTelemetry(t, cfg)
	metrics.IncrCounterWithLabels([]string{"some", "thing"}, 3, []metrics.Label{{Name: "kind", Value: "a"}})
	c := counters(t, tele)["berth.some.thing"]
	if c.AggregateSample == nil || c.Sum != 3 || c.DisplayLabels["kind"] != "a" {
		t.Errorf("the summary has %+v, want 3 of kind a", c)
	}
	text := scrape(t, tele)
	for _, want := range []string{`berth_some_thing{kind="a"} 3`, "go_goroutines ", "process_open_fds "} {
		if !strings.Contains(text, want) {
			t.Errorf("the text for Prometheus lacks %q", want)
		}
	}
}

func TestTelemetry_ReadsTheRuntimeUntilItsContextEnds(t *testing.T) {
	cfg := DefaultConfig()
	tele := startTelemetry(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tele.Run(ctx)
	if text := scrape(t, tele); !strings.Contains(text, "berth_runtime_num_goroutines ") {
		t.Error("Prometheus lacks the metrics of the runtime")
	}
}

func TestTelemetry_WithoutPrometheusServesNone(t *testing.T) {
	cfg := DefaultConfig()
	cfg.PrometheusMetrics = false
	if startTelemetry(t, cfg).Prometheus() != nil {
		t.Error("there is a handler for Prometheus, want none")
	}
}

func TestTelemetry_FiltersByPrefix(t *testing.T) {
	cfg := DefaultConfig()
	cfg.PrefixFilter = []string{"-berth.noise", "+berth.noise.wanted"}
	tele := startTelemetry(t, cfg)
	for _, name := range []string{"noise", "other"} {
		metrics.IncrCounter([]string{name, "dull"}, 1)
	}
	metrics.IncrCounter([]string{"noise", "wanted"}, 1)
	got := counters(t, tele)
	if len(got) != 2 || got["berth.noise.wanted"].Name == "" || got["berth.other.dull"].Name == "" {
		t.Errorf("the summary has %v, want noise.wanted and other.dull", got)
	}
	cfg.FilterDefault = false
	tele = startTelemetry(t, cfg)
	metrics.IncrCounter([]string{"other", "dull"}, 1)
	if got := counters(t, tele); len(got) != 0 {
		t.Errorf("with filter_default = false the summary has %v, want nothing", got)
	}
}

func TestTelemetry_SendsToStatsd(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cfg := DefaultConfig()
	cfg.StatsdAddress = conn.LocalAddr().String()
	startTelemetry(t, cfg)
	metrics.IncrCounter([]string{"some", "thing"}, 1)
	buf := make([]byte, 1<<16)
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	n, _, err := conn.ReadFrom(buf)
	if err != nil || !strings.Contains(string(buf[:n]), "berth.some.thing:1") {
		t.Errorf("statsd got %q, %v; want the counter", buf[:n], err)
	}
}

func TestTelemetry_LeavesTheGlobalFunctionsUsableAfterClose(t *testing.T) {
	cfg := DefaultConfig()
	tele, err := Start(cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	tele.Close()
	metrics.IncrCounter([]string{"after", "close"}, 1)
	if got := counters(t, tele); len(got) != 0 {
		t.Errorf("a closed sink got %v, want nothing", got)
	}
}

func TestConfig_NamesEveryFault(t *testing.T) {
	cfg := DefaultConfig()
	cfg.CollectionInterval = 0
	cfg.InMemoryCollectionInterval = time.Second
	cfg.InMemoryRetentionPeriod = 24 * time.Hour
	cfg.PrometheusRetention = -1
	cfg.PrefixFilter = []string{"berth.raft"}
	cfg.StatsdAddress = "nowhere"
	cfg.StatsiteAddress = "::1"
	text := cfg.Validate().Error()
	for _, want := range []string{
		"collection_interval is 0s",
		"more than 1000 intervals",
		"prometheus_retention is -1ns",
		`"berth.raft" begins with neither`,
		"statsd_address: address nowhere: missing port",
		"statsite_address: ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want it to say %q", text, want)
		}
	}
}
