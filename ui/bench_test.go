package ui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/test/pagefixture/rows"
)

// BenchmarkFirstPaint draws views of a cluster with 100,000 volumes, jobs and allocations, once with nothing
// wrong, so that a search for problems reads all rows, and once with very many problems. The target is one
// second for each view, with the time of the browser.
func BenchmarkFirstPaint(b *testing.B) {
	for _, c := range []rows.Cluster{{Rows: 100000}, {Rows: 100000, Wrong: true}} {
		b.Run(fmt.Sprintf("wrong=%v", c.Wrong), func(b *testing.B) { paintViews(b, c) })
	}
}

func paintViews(b *testing.B, c rows.Cluster) {
	calls, end, err := c.NewAPI()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(end)
	h := NewHandler(Config{API: calls, Agent: "agent-1", Logger: hclog.NewNullLogger()})
	for _, path := range []string{
		"/ui/", "/ui/slow", "/ui/volumes", "/ui/jobs", "/ui/allocations", "/ui/nodes", "/ui/topology",
		"/ui/volumes?show=waiting", "/ui/volumes?order=modify-reverse", "/ui/allocations?search=job-099999",
		"/ui/volumes?per_page=500", "/ui/plugins",
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
