package telemetry

import (
	"net/http/httptest"
	"strings"
	"testing"
)

func TestGauges_AreServedUnderTheirOwnNames(t *testing.T) {
	cfg := DefaultConfig()
	cfg.PrometheusMetrics = true
	sinks, err := Start(cfg)
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
