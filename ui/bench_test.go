package ui

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/test/pagefixture/rows"
)

// BenchmarkFirstPaint draws views of a cluster with 100,000 volumes, jobs and allocations. The target is one
// second for each view, with the time of the browser.
func BenchmarkFirstPaint(b *testing.B) {
	calls, end, err := rows.NewAPI(100000)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(end)
	h := NewHandler(Config{API: calls, Agent: "agent-1", Logger: hclog.NewNullLogger()})
	for _, path := range []string{
		"/ui/", "/ui/slow", "/ui/volumes", "/ui/jobs", "/ui/allocations", "/ui/nodes", "/ui/topology",
		"/ui/volumes?show=waiting", "/ui/volumes?order=modify-reverse", "/ui/allocations?search=job-099999",
		"/ui/volumes?per_page=500",
	} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
				if w.Code != http.StatusOK {
					b.Fatalf("got %d: %s", w.Code, w.Body)
				}
				b.ReportMetric(float64(w.Body.Len()), "page-bytes")
			}
		})
	}
}
