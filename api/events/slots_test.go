package events_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/structs"
	"berth/structs/event"
)

// following is an agent whose servers have no events, and deny a token.
func following(t *testing.T, acl bool) (status func(token string) int) {
	t.Helper()
	caller := &apitest.Caller{}
	apitest.On(caller, event.List, func(ctx context.Context, req *event.ListRequest) (
		*event.ListResponse, error,
	) {
		if req.AuthToken == "s.denied" {
			return nil, structs.Deniedf("the token gives nothing")
		}
		if req.MaxWait >= time.Second {
			<-ctx.Done()
		}
		return &event.ListResponse{Next: req.After}, ctx.Err()
	})
	cfg := api.Config{Routes: areas.Routes(), Caller: caller, Logger: hclog.NewNullLogger(), ACL: acl}
	srv := httptest.NewServer(api.NewHandler(cfg))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		http.DefaultClient.CloseIdleConnections()
		srv.Close()
	})

	return func(token string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/v1/event/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Berth-Token", token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp.StatusCode
	}
}

// A caller without the right learns it also while all slots are taken, so it never has one.
func TestStream_TakesNoSlotBeforeTheRight(t *testing.T) {
	status := following(t, true)
	for i := range structs.MaxFileStreams {
		token := fmt.Sprintf("s.%d", i/api.MaxOwnStreams)
		if got := status(token); got != http.StatusOK {
			t.Fatalf("stream %d: got %d", i, got)
		}
	}
	for token, want := range map[string]int{
		"s.denied": http.StatusForbidden,
		"s.0":      http.StatusTooManyRequests,
		"s.other":  http.StatusServiceUnavailable,
	} {
		if got := status(token); got != want {
			t.Errorf("%s: got %d, want %d", token, got, want)
		}
	}
}

// Without access control nobody verifies a token, so callers do not become others by one.
func TestStream_CountsNoTokenWithoutAccessControl(t *testing.T) {
	status := following(t, false)
	for i := range api.MaxOwnStreams {
		if got := status(fmt.Sprintf("s.%d", i)); got != http.StatusOK {
			t.Fatalf("stream %d: got %d", i, got)
		}
	}
	if got := status("s.new"); got != http.StatusTooManyRequests {
		t.Errorf("got %d, want 429", got)
	}
}
