package api_test

import (
	"net/http"
	"strings"
	"testing"

	"berth/api/apitest"
)

func TestMetrics_ArePlainTextForPrometheus(t *testing.T) {
	s := newServer(t)
	resp, body := s.do(t, "GET", "/v1/metrics?format=prometheus", "")
	if resp.StatusCode != http.StatusPreconditionFailed ||
		!strings.Contains(body, "prometheus_metrics = true") {
		t.Errorf("without Prometheus: got %s %q, want 412", resp.Status, body)
	}
	s.agent.MetricsAre = apitest.Metrics{Text: "berth_gauge 1\n"}
	resp, body = s.do(t, "GET", "/v1/metrics?format=prometheus", "")
	if resp.StatusCode != http.StatusOK || body != "berth_gauge 1\n" {
		t.Errorf("with Prometheus: got %s %q, want 200", resp.Status, body)
	}
	resp, body = s.do(t, "GET", "/v1/metrics?format=xml", "")
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "json or prometheus") {
		t.Errorf("with another format: got %s %q, want 400", resp.Status, body)
	}
}
