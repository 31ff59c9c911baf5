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
	"berth/structs"
)

// TestAReadThatIsRefusedIsAskedAgain by a client of the house, when it was told to; a write is not.
func TestAReadThatIsRefusedIsAskedAgain(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := asked.Add(1); n%3 != 0 {
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
	if _, _, err := c.Nodes(t.Context(), nil); err != nil || asked.Load() != 3 {
		t.Errorf("%d times asked: %v", asked.Load(), err)
	}
	if err := c.NodePurge(t.Context(), "n"); structs.RetryAfter(err) == 0 || asked.Load() != 4 {
		t.Errorf("a write: %d times asked: %v", asked.Load()-3, err)
	}
}

func TestAReadIsNotAskedForEver(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("X-Berth-Retry-After", r.URL.Query().Get("namespace"))
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer srv.Close()
	c := api.NewClient(api.ClientConfig{Address: srv.URL})
	defer c.Close()
	_, _, err := c.Nodes(t.Context(), &api.Query{Namespace: "1ms"})
	if n := asked.Load(); structs.RetryAfter(err) != time.Millisecond || n < 2 || n > 10 {
		t.Errorf("%d times asked: %v", n, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	asked.Store(0)
	if _, _, err := c.Nodes(ctx, &api.Query{Namespace: "1h"}); err == nil || asked.Load() != 1 {
		t.Errorf("with little time: %d times asked: %v", asked.Load(), err)
	}
}
