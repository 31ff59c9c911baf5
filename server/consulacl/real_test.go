package consulacl

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"go.uber.org/goleak"

	"berth/consul"
	"berth/endpoints/core"
	"berth/structs"
	"berth/test/consultest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clientOf makes a client of a Consul agent with a token.
func clientOf(t *testing.T, addr, token string, edits ...func(*consul.Config)) *Client {
	t.Helper()
	config := consul.DefaultConfig()
	config.Address = addr
	config.Token = structs.Secret(token)
	config.Timeout = time.Minute // a Consul on a busy machine may need long
	for _, edit := range edits {
		edit(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func order(service string) core.ServiceToken {
	return core.ServiceToken{
		AccessorID:  structs.NewID(),
		Service:     service,
		Description: "a token of " + service,
	}
}

func wantKind(t *testing.T, err error, kind structs.Kind) {
	t.Helper()
	if !structs.IsKind(err, kind) {
		t.Errorf("got error %v (%s), want %s", err, structs.KindOf(err), kind)
	}
}

// with returns a client of the agent that uses a token.
func with(t *testing.T, a *consultest.Agent, token string) *api.Client {
	t.Helper()
	c, err := api.NewClient(&api.Config{
		Address:    a.Addr,
		Token:      token,
		HttpClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTokens_HaveTheRightsOfTheirServiceUntilTheyAreRevoked(t *testing.T) {
	a := consultest.Start(t, consultest.Options{ACLs: true})
	c := clientOf(t, a.Addr, a.Token(`acl = "write"`))
	o := order("web")
	secret, err := c.CreateToken(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%s %v %+v %q %#v", secret, secret, secret, secret, secret); strings.Contains(
		text, string(secret)) {
		t.Error("a text shows the secret")
	}
	made, _, err := a.API.ACL().TokenRead(o.AccessorID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if made.SecretID != string(secret) || !made.Local || made.Description != o.Description ||
		len(made.ServiceIdentities) != 1 || made.ServiceIdentities[0].ServiceName != "web" {
		t.Errorf("Consul has the token %+v", made)
	}
	own := with(t, a, string(secret))
	for _, name := range []string{"web", "web-sidecar-proxy"} {
		if err := own.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: name}); err != nil {
			t.Errorf("the token does not register %s: %v", name, err)
		}
	}
	if err := own.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "api"}); err == nil {
		t.Error("the token registers another service")
	}
	for range 2 { // the second finds nothing
		if err := c.RevokeToken(t.Context(), o.AccessorID); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := own.ACL().TokenReadSelf(nil); !consul.IsRejected(err, http.StatusForbidden) {
		t.Errorf("the revoked token reads itself: %v", err)
	}
}

func TestTokens_NeedTheRightToMakeThem(t *testing.T) {
	a := consultest.Start(t, consultest.Options{ACLs: true})
	kept := order("web")
	if _, err := clientOf(t, a.Addr, consultest.ManagementToken).CreateToken(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"no token":      "",
		"unknown token": structs.NewID(),
		"weak token":    a.Token(`acl = "read"`),
	} {
		t.Run(name, func(t *testing.T) {
			c := clientOf(t, a.Addr, token)
			_, err := c.CreateToken(t.Context(), order("web"))
			wantKind(t, err, structs.KindDenied)
			wantKind(t, c.RevokeToken(t.Context(), kept.AccessorID), structs.KindDenied)
		})
	}
	if _, _, err := a.API.ACL().TokenRead(kept.AccessorID, nil); err != nil {
		t.Error(err)
	}
}

func TestTokens_NeedAConsulWithACLs(t *testing.T) {
	a := consultest.Start(t, consultest.Options{})
	c := clientOf(t, a.Addr, "")
	_, err := c.CreateToken(t.Context(), order("web"))
	wantKind(t, err, structs.KindPrecondition)
}

// A Consul that never answers delays a call by no more than the timeout of the configuration.
func TestClient_BoundsTheTimeOfACall(t *testing.T) {
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices the end of a connection once the body is read
		<-r.Context().Done()
	}))
	defer hangs.Close()
	c := clientOf(t, hangs.Listener.Addr().String(), "", func(c *consul.Config) {
		c.Timeout = 200 * time.Millisecond
	})
	_, err := c.CreateToken(t.Context(), order("web"))
	wantKind(t, err, structs.KindUnavailable)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.CreateToken(ended, order("web"))
	wantKind(t, err, structs.KindUnavailable)
}

// No more than 16 calls are in flight. The others begin as those end. The number is part of the promise to
// Consul, so it stands here without the constant.
func TestClient_BoundsTheCallsInFlight(t *testing.T) {
	const bound, calls = 16, 48
	var inFlight, most, all atomic.Int32
	full, release := make(chan struct{}), make(chan struct{})
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now := inFlight.Add(1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		if all.Add(1) == bound {
			close(full)
		}
		<-release
		inFlight.Add(-1) // before the client has the answer
		w.WriteHeader(http.StatusTeapot)
	}))
	defer busy.Close()
	c := clientOf(t, busy.Listener.Addr().String(), "")
	var done sync.WaitGroup
	call := func() { _, _ = c.CreateToken(t.Context(), order("web")) }
	for range bound {
		done.Go(call)
	}
	select {
	case <-full:
	case <-time.After(time.Minute):
		t.Errorf("fewer than %d calls are in flight", bound)
	}
	if c.permits.TryEnter() {
		t.Errorf("another call may begin beside %d", bound)
		c.permits.Leave()
	}
	for range calls - bound {
		done.Go(call)
	}
	close(release)
	done.Wait()
	if most.Load() != bound || all.Load() != calls {
		t.Errorf("%d of %d calls were made, %d at once; want %d", all.Load(), calls, most.Load(), bound)
	}
}

func TestClient_IsUnavailableWithoutConsul(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	wantKind(t, clientOf(t, addr, "").RevokeToken(t.Context(), structs.NewID()), structs.KindUnavailable)
}
