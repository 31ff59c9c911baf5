package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestWaits_IsABlockingQuery(t *testing.T) {
	for _, c := range []struct {
		method, target string
		want           bool
	}{
		{http.MethodGet, "/v1/jobs?index=7", true},
		{http.MethodGet, "/v1/jobs?wait=1m&index=7", true},
		{http.MethodHead, "/v1/jobs?index=7", true},
		{http.MethodGet, "/v1/jobs", false},
		{http.MethodGet, "/v1/jobs?index=0", false},
		{http.MethodGet, "/v1/jobs?index=x", false},
		{http.MethodGet, "/v1/jobs?prefix=index=7", false},
		{http.MethodPut, "/v1/jobs?index=7", false},
	} {
		if got := Waits(httptest.NewRequest(c.method, c.target, nil)); got != c.want {
			t.Errorf("%s %s: got %t, want %t", c.method, c.target, got, c.want)
		}
	}
}
