package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"berth/api"
	"berth/api/nodes"
	"berth/structs"
)

// TestClient_RetriesARejectedRead after the delay that the agent names. It does not retry a write.
func TestClient_RetriesARejectedRead(t *testing.T) {
	var requests atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := requests.Add(1); n%3 != 0 {
			w.Header().Set("X-Berth-Retry-After", "1ms")
			w.Header().Set("X-Berth-Error-Kind", "unavailable")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "[]")
	}))
	defer srv.Close()
	c := api.NewClient(api.ClientConfig{Address: srv.URL})
	defer c.Close()
	_, _, err := nodes.List(t.Context(), c, nil)
	if err != nil || requests.Load() != 3 {
		t.Errorf("a read: got %d requests and %v, want 3 requests", requests.Load(), err)
	}
	err = nodes.Purge(t.Context(), c, "n")
	if structs.RetryAfter(err) == 0 || requests.Load() != 4 {
		t.Errorf("a write: got %d requests and %v, want one request", requests.Load()-3, err)
	}
}

func TestClient_BoundsTheRetriesOfARead(t *testing.T) {
	var requests atomic.Int64
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		delay := r.URL.Query().Get("namespace")
		w.Header().Set("X-Berth-Retry-After", delay)
		w.WriteHeader(http.StatusServiceUnavailable)
		if delay == "1h" {
			time.AfterFunc(50*time.Millisecond, giveUp)
		}
	}))
	defer srv.Close()
	c := api.NewClient(api.ClientConfig{Address: srv.URL})
	defer c.Close()
	_, _, err := nodes.List(t.Context(), c, &api.Query{Namespace: "1ms"})
	n := requests.Load()
	if structs.RetryAfter(err) != time.Millisecond || n < 2 || n > 10 {
		t.Errorf("got %d requests and %v, want 2 to 10 requests", n, err)
	}
	requests.Store(0)
	_, _, err = nodes.List(ctx, c, &api.Query{Namespace: "1h"})
	if err == nil || requests.Load() != 1 {
		t.Errorf("before a long delay: got %d requests and %v, want one request", requests.Load(), err)
	}
}
