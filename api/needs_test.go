package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/opsocket"
	"berth/internal/pki"
	"berth/structs"
	"berth/structs/access"
)

// judge answers whether a caller may use a route of the agent.
type judge struct {
	mu    sync.Mutex
	asked []access.CheckRequest
	err   error
	open  bool
	// newcomer: the server at hand has just joined. It says that access control is off, until the leader is
	// asked.
	newcomer bool
}

func (j *judge) answer(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = err
}

func (j *judge) Call(_ context.Context, _ string, req, resp any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked = append(j.asked, *req.(*access.CheckRequest))
	if j.newcomer && j.asked[len(j.asked)-1].AllowStale {
		resp.(*access.CheckResponse).Open = true
		return nil
	}
	resp.(*access.CheckResponse).Open = j.open
	return j.err
}

// last returns the last question.
func (j *judge) first() access.CheckRequest {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.asked[0]
}

func (j *judge) last() access.CheckRequest {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.asked[len(j.asked)-1]
}

// newNeedsCall returns a call of a path with the token t.
func newNeedsCall(ctx context.Context, j *judge, path string) *Call {
	r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
	r.Header.Set("X-Nomad-Token", "t")
	r.SetPathValue("id", "an-id")
	return &Call{
		handler: &handler{Config: Config{Caller: j}},
		Writer:  httptest.NewRecorder(),
		Request: r,
	}
}

func answer(*Call) (any, error) { return "served", nil }

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
		"a request that a server forwards": func() (any, error) {
			return serveAuthorized(forwardedBy(newNeedsCall(t.Context(), j, "/"), pki.RoleServer), self)
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
		route := Route{Needs: access.NeedsAllocExec, serve: func(c *Call) (any, error) {
			j.answer(structs.Unavailablef("no leader"))
			time.Sleep(3 * confirmEvery)
			if c.Ctx().Err() != nil {
				t.Error("the request ended while no server answered")
			}
			if !j.first().AllowStale || j.last().AllowStale {
				t.Error("the first question goes to the leader, or a later one to any server")
			}
			j.answer(structs.Deniedf("the token was deleted"))
			<-c.Ctx().Done()
			return nil, context.Cause(c.Ctx())
		}}
		_, err := serveAuthorized(newNeedsCall(t.Context(), j, "/"), route)
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("got %v, want the denial", err)
		}
		if took := time.Since(begun) - 3*confirmEvery; took > 5*time.Second {
			t.Errorf("the request ended %s after its right; want at most 5s", took)
		}
	})
}

// A server that is cut off, or stopped, must not keep an ended right alive.
func TestCall_EndsWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &judge{}
		begun := time.Now()
		route := Route{Needs: access.NeedsAllocExec, serve: func(c *Call) (any, error) {
			time.Sleep(2 * confirmLimit)
			if c.Ctx().Err() != nil {
				t.Error("the request ended while servers answered")
			}
			j.answer(structs.Unavailablef("no leader"))
			<-c.Ctx().Done()
			return nil, context.Cause(c.Ctx())
		}}
		_, err := serveAuthorized(newNeedsCall(t.Context(), j, "/"), route)
		if !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("got %v, want unavailable", err)
		}
		took := time.Since(begun) - 2*confirmLimit
		if took < confirmLimit-confirmEvery || took > confirmLimit+confirmEvery {
			t.Errorf("the request ended %s after the last answer; want about %s", took, confirmLimit)
		}
	})
}

// Where the servers let every request pass, nothing ends with them.
func TestCall_IsNotWatchedWithoutAccessControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &judge{open: true}
		route := Route{Needs: access.NeedsReadLogs, serve: func(c *Call) (any, error) {
			j.answer(structs.Unavailablef("no leader"))
			time.Sleep(2 * confirmLimit)
			return "served", c.Ctx().Err()
		}}
		call := newNeedsCall(t.Context(), j, "/")
		call.wasOpen.note(true)
		got, err := serveAuthorized(call, route)
		if got != "served" || err != nil || len(j.asked) != 1 {
			t.Errorf("got %v, %v after %d questions; want it served after one", got, err, len(j.asked))
		}
	})
}

// An agent that reaches no server denies if it has the block acl. While a server is older than access
// control, the configuration of the agent decides, too.
func TestCall_DeniesWithoutAServer(t *testing.T) {
	logs := Route{Needs: access.NeedsReadLogs, serve: answer}
	for _, c := range []struct {
		err    error
		acl    bool
		served bool
	}{
		{structs.Unavailablef("no server"), false, true},
		{structs.Unavailablef("no server"), true, false},
		{structs.Preconditionf("level 1"), false, true},
		{structs.Preconditionf("level 1"), true, false},
		{structs.Invalidf("another region"), false, false},
	} {
		call := newNeedsCall(t.Context(), &judge{err: c.err}, "/")
		call.ACL = c.acl
		call.wasOpen.Store(!c.acl) // as NewHandler does
		_, err := serveAuthorized(call, logs)
		if (err == nil) != c.served {
			t.Errorf("%v, access control %t at the agent: got %v, want it served: %t", c.err, c.acl, err, c.served)
		}
	}
}

// A server that has just joined has not got the mode of access control yet. Its agent asks the leader before
// it lets everybody pass, once.
func TestCall_BelievesNoNewcomerThatAccessControlIsOff(t *testing.T) {
	logs := Route{Needs: access.NeedsReadLogs, serve: answer}
	for name, c := range map[string]struct {
		j      judge
		asked  int
		served bool
	}{
		"the cluster enforces":   {judge{newcomer: true, err: structs.Deniedf("no")}, 4, false},
		"it reaches no leader":   {judge{newcomer: true, err: structs.Unavailablef("no leader")}, 4, false},
		"access control is off":  {judge{newcomer: true, open: true}, 3, true},
		"all say that it is off": {judge{open: true}, 3, true},
	} {
		call := newNeedsCall(t.Context(), &c.j, "/")
		for range 2 {
			_, err := serveAuthorized(call, logs)
			if (err == nil) != c.served {
				t.Errorf("%s: %v, want it served: %t", name, err, c.served)
			}
		}
		if len(c.j.asked) != c.asked {
			t.Errorf("%s: %d questions, want %d", name, len(c.j.asked), c.asked)
		}
	}
}

// forwardedBy makes a call one that the holder of a certificate forwards.
func forwardedBy(c *Call, role pki.Role) *Call {
	id := pki.Identity{Region: "global", Role: role, ID: "x"}
	c.Request.Header.Set(headerHops, "1")
	c.Request.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{URIs: []*url.URL{id.URI()}}}}
	return c
}

// Where access control is off, an operator reads logs also while no server answers. The last answer counts.
func TestCall_PassesWithoutAServerIfAccessControlWasOff(t *testing.T) {
	route := Route{Needs: access.NeedsReadLogs, serve: answer}
	j := &judge{open: true}
	c := newNeedsCall(t.Context(), j, "/")
	for _, open := range []bool{true, false} {
		j.open = open
		j.answer(nil)
		_, err := serveAuthorized(c, route)
		if err != nil {
			t.Fatal(err)
		}
		j.answer(structs.Unavailablef("no server"))
		_, err = serveAuthorized(c, route)
		if (err == nil) != open {
			t.Errorf("access control was off: %t; without a server got %v", open, err)
		}
	}
}

// A header is no proof that a server has asked.
func TestCall_AsksAboutWhatNoServerForwards(t *testing.T) {
	logs := Route{Needs: access.NeedsReadLogs, serve: answer}
	plain := newNeedsCall(t.Context(), nil, "/")
	plain.Request.Header.Set(headerHops, "1")
	direct := forwardedBy(newNeedsCall(t.Context(), nil, "/"), pki.RoleServer)
	direct.Request.Header.Del(headerHops)
	for name, c := range map[string]*Call{
		"plain":              plain,
		"of an operator":     forwardedBy(newNeedsCall(t.Context(), nil, "/"), pki.RoleOperator),
		"of a node":          forwardedBy(newNeedsCall(t.Context(), nil, "/"), pki.RoleNode),
		"a server by itself": direct,
	} {
		c.Caller = &judge{err: structs.Deniedf("no")}
		_, err := serveAuthorized(c, logs)
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: got %v, want the denial", name, err)
		}
	}
}

// A server that forwards says whether its caller passed only because access control is off, and nobody else
// can say so.
func TestIsOpen_OfAForwardedRequest(t *testing.T) {
	passed := http.Header{}
	far := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		passed = r.Header
	}))
	defer far.Close()
	for _, open := range []bool{true, false} {
		c := newNeedsCall(t.Context(), &judge{}, "/v1/agent/host")
		c.Connect = connectPlain
		c.StreamStall = time.Minute
		c.wasOpen.Store(open)
		c.proxyTo(&structs.Node{Name: "s2", HTTPAddr: far.Listener.Addr().String()}, "")

		roles := map[pki.Role]bool{pki.RoleServer: open, pki.RoleNode: false, pki.RoleOperator: false}
		for role, want := range roles {
			next := forwardedBy(newNeedsCall(t.Context(), &judge{}, "/v1/agent/host"), role)
			next.Request.Header.Set(headerHops, passed.Get(headerHops))
			next.wasOpen.Store(false)
			if got := IsOpen(next); got != want {
				t.Errorf("access control is off: %t; forwarded by a %s: open is %t", open, role, got)
			}
		}
	}
}

// The agent of a node gets the secret of a caller only where it has to ask about it.
func TestProxy_HidesTokensFromProvenNodes(t *testing.T) {
	for _, hides := range []bool{true, false} {
		got := http.Header{}
		node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = r.Header
		}))
		defer node.Close()
		c := newNeedsCall(t.Context(), &judge{}, "/v1/client/fs/logs/x")
		c.Connect = connectPlain
		c.HidesTokens = hides
		c.StreamStall = time.Minute
		for _, name := range tokenHeaders {
			c.Request.Header.Set(name, "t")
		}
		c.proxyTo(&structs.Node{ID: "n1", HTTPAddr: node.Listener.Addr().String()}, "")
		if got.Get(headerHops) != "1" {
			t.Fatal("the request did not arrive as one that is forwarded")
		}
		for _, name := range tokenHeaders {
			if (got.Get(name) == "") != hides {
				t.Errorf("hides tokens: %t; the node got %s: %q", hides, name, got.Get(name))
			}
		}
	}
}

// callerFunc is a rpc.Caller.
type callerFunc func(req any) error

func (f callerFunc) Call(_ context.Context, _ string, req, _ any) error { return f(req) }

// The right of a route is enough: its caller need not read allocations and nodes to be forwarded.
func TestProxy_FindsTheNodeByItself(t *testing.T) {
	for name, find := range map[string]func(c *Call) error{
		"the allocation": func(c *Call) error { return c.ProxyToAlloc(nil) },
		"the node":       func(c *Call) error { return c.proxyToNode("n1", "") },
	} {
		c := newNeedsCall(t.Context(), nil, "/v1/client/fs/logs/x")
		c.Caller = callerFunc(func(any) error { return structs.Deniedf("the caller may not") })
		c.Own = callerFunc(func(req any) error {
			secret := req.(interface{ Query() *structs.QueryOptions }).Query().AuthToken
			return structs.NotFoundf("asked with the secret %q", secret)
		})
		err := find(c)
		if err == nil || err.Error() != `asked with the secret ""` {
			t.Errorf("%s: got %v, want the answer to the agent", name, err)
		}
	}
}
