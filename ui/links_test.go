package ui

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHandle_LeadsToTheView(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	handleLinks(mux, "/ui/")
	for path, want := range map[string]string{
		"/ui/jobs/web":                      "/ui/job?id=web&namespace=default",
		"/ui/jobs/web?namespace=team":       "/ui/job?id=web&namespace=team",
		"/ui/jobs/web@team":                 "/ui/job?id=web&namespace=team",
		"/ui/jobs/web%2Fdispatch-1":         "/ui/job?id=web%2Fdispatch-1&namespace=default",
		"/ui/jobs/web/dispatch-1":           "/ui/job?id=web%2Fdispatch-1&namespace=default",
		"/ui/jobs/a%26b":                    "/ui/job?id=a%26b&namespace=default",
		"/ui/allocations/a1":                "/ui/allocation?id=a1&namespace=default",
		"/ui/allocations/a1?namespace=team": "/ui/allocation?id=a1&namespace=team",
		"/ui/clients/n1?namespace=team":     "/ui/node?id=n1",
		"/ui/jobs/":                         "/ui/jobs",
		"/ui/clients/":                      "/ui/nodes",
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if got := w.Header().Get("Location"); w.Code != http.StatusFound || got != want {
			t.Errorf("%s leads to %q with the status %d, want %q", path, got, w.Code, want)
		}
	}
}
