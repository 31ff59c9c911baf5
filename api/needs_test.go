package api

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/opsocket"
	"berth/structs"
	"berth/structs/access"
)

// judge answers whether a caller may use a route of the agent.
type judge struct {
	mu    sync.Mutex
	asked []access.CheckRequest
	err   error
}

func (j *judge) answer(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = err
}

func (j *judge) Call(_ context.Context, _ string, req, _ any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked = append(j.asked, *req.(*access.CheckRequest))
	return j.err
}

// newNeedsCall returns a call of a path with the token t.
func newNeedsCall(ctx context.Context, j *judge, path string) *call {
	r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
	r.Header.Set("X-Nomad-Token", "t")
	r.SetPathValue("id", "an-id")
	return &call{
		handler: &handler{Config: Config{Caller: j, ACL: true}},
		w:       httptest.NewRecorder(),
		r:       r,
	}
}

func answer(*call) (any, error) { return "served", nil }

func TestCall_AsksForTheNeedOfItsRoute(t *testing.T) {
	fs := Route{Path: "/v1/client/fs/cat/{id}", Needs: access.NeedsReadFS, serve: answer}
	self := Route{Path: "/v1/agent/self", Needs: access.NeedsAgentRead, serve: answer}
	j := &judge{}
	for _, r := range []Route{fs, self} {
		got, err := serveAuthorized(newNeedsCall(t.Context(), j, "/?namespace=team&task=t"), r)
		if got != "served" || err != nil {
			t.Errorf("%s: got %v, %v; want it served", r.Path, got, err)
		}
	}
	if len(j.asked) != 2 || j.asked[0].AllocID != "an-id" || j.asked[0].Task != "t" || j.asked[0].Needs != access.NeedsReadFS ||
		j.asked[0].AuthToken != "t" || j.asked[1].AllocID != "" || j.asked[1].Namespace != "team" {
		t.Errorf("the servers were asked %+v", j.asked)
	}

	j.answer(structs.Deniedf("no"))
	got, err := serveAuthorized(newNeedsCall(t.Context(), j, "/"), self)
	if got != nil || !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("denied: got %v, %v; want the denial", got, err)
	}
	asked := len(j.asked)
	for name, serve := range map[string]func() (any, error){
		"root over the socket": func() (any, error) { return serveAuthorized(newNeedsCall(opsocket.Mark(t.Context()), j, "/"), self) },
		"a route that needs nothing": func() (any, error) {
			return serveAuthorized(newNeedsCall(t.Context(), j, "/"), Route{Needs: access.NeedsNothing, serve: answer})
		},
		"an agent without access control": func() (any, error) {
			c := newNeedsCall(t.Context(), j, "/")
			c.ACL = false
			return serveAuthorized(c, self)
		},
	} {
		got, err := serve()
		if got != "served" || err != nil || len(j.asked) != asked {
			t.Errorf("%s: got %v, %v, and %d questions; want it served without", name, got, err, len(j.asked)-asked)
		}
	}
}

// A request that lasts ends when its caller loses the right, and not by an answer that says nothing about it.
func TestCall_EndsWithTheRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &judge{}
		begun := time.Now()
		route := Route{Needs: access.NeedsAllocExec, serve: func(c *call) (any, error) {
			j.answer(structs.Unavailablef("no leader"))
			time.Sleep(3 * recheck)
			if c.ctx().Err() != nil {
				t.Error("the request ended while no server answered")
			}
			j.answer(structs.Deniedf("the token was deleted"))
			<-c.ctx().Done()
			return nil, context.Cause(c.ctx())
		}}
		_, err := serveAuthorized(newNeedsCall(t.Context(), j, "/"), route)
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("got %v, want the denial", err)
		}
		if took := time.Since(begun) - 3*recheck; took > 5*time.Second {
			t.Errorf("the request ended %s after its right; want at most 5s", took)
		}
	})
}
