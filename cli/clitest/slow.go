package clitest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/areas"
)

// SlowHandler answers a request that is slow. h is the API of the fake cluster.
type SlowHandler func(w http.ResponseWriter, r *http.Request, h http.Handler)

// ServeSlowly serves the API of a fake cluster. The slow requests go to slow.
func ServeSlowly(t *testing.T, isSlow func(*http.Request) bool, slow SlowHandler) (addr string) {
	t.Helper()
	c := NewCluster(t.TempDir())
	c.Agent.Exec = func(string, string) (api.ExecFunc, error) {
		return func(context.Context, *api.Exec) (int, error) { return 0, nil }, nil
	}
	h := api.NewHandler(api.Config{
		Routes: areas.Routes(),
		Caller: c.Caller,
		Agent:  c.Agent,
		Logger: hclog.NewNullLogger(),
	})
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isSlow(r) {
			slow(w, r, h)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(agent.Close)
	return agent.URL
}
