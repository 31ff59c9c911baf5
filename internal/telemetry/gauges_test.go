package telemetry

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"
)

func TestGauges_AreServedUnderTheirOwnNames(t *testing.T) {
	cfg := DefaultConfig()
	cfg.PrometheusMetrics = true
	sinks, err := Start(cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer sinks.Close()
	value := 1.0
	remove := Gauges(func(yield func(Gauge)) {
		for _, volume := range []string{"a", `b"c`} {
			yield(Gauge{Name: "other_used", Help: "Used", Labels: map[string]string{"volume": volume}, Value: value})
		}
	})
	served := func() string {
		w := httptest.NewRecorder()
		sinks.Prometheus().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		return w.Body.String()
	}
	value = 2
	for _, want := range []string{"# TYPE other_used gauge\n", `other_used{volume="a"} 2`, `other_used{volume="b\"c"} 2`} {
		if text := served(); !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	remove()
	if text := served(); strings.Contains(text, "other_used") || !strings.Contains(text, "go_goroutines") {
		t.Errorf("after the removal:\n%s", text)
	}
}

// TestPrometheus_ServesAllBesideABadMetric: a label in no encoding keeps its metric, and a metric that has no
// valid form is left out with one warning.
func TestPrometheus_ServesAllBesideABadMetric(t *testing.T) {
	cfg := DefaultConfig()
	cfg.PrometheusMetrics = true
	var log bytes.Buffer
	sinks, err := Start(cfg, hclog.New(&hclog.LoggerOptions{Output: &log}))
	if err != nil {
		t.Fatal(err)
	}
	defer sinks.Close()
	serve := func() string {
		w := httptest.NewRecorder()
		sinks.Prometheus().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != 200 {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		return w.Body.String()
	}

	labels := map[string]string{"disk": "/dev/\xffa"}
	remove := Gauges(func(yield func(Gauge)) {
		yield(Gauge{Name: "other_used", Help: "Used", Labels: labels, Value: 3})
	})
	defer remove()
	if text := serve(); !strings.Contains(text, "other_used{disk=\"/dev/\uFFFDa\"} 3\n") || log.Len() > 0 {
		t.Errorf("a label in no encoding: %s\n%s", log.String(), text)
	}
	if labels["disk"] != "/dev/\xffa" {
		t.Errorf("the labels of the source have become %q", labels)
	}

	metrics.SetGaugeWithLabels([]string{"sent"}, 4, []metrics.Label{{Name: "of", Value: "\xff"}})
	for range 2 {
		text := serve()
		if !strings.Contains(text, "go_goroutines") || strings.Contains(text, "berth_sent") {
			t.Errorf("beside a metric without a valid form:\n%s", text)
		}
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "[WARN]") ||
		!strings.Contains(got, "not valid UTF-8") {
		t.Errorf("want one warning with the reason, got: %s", got)
	}
}
