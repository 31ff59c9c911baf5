package api_test

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"berth/api"
	accessapi "berth/api/access"
	"berth/api/operator"
	"berth/api/transport"
	"berth/structs"
	"berth/structs/access"
)

// redirecting is a proxy that answers each request with a redirect to a server, which remembers its requests.
type redirecting struct {
	mu       sync.Mutex
	sent     string // the method that the proxy got
	arrived  []string
	server   *httptest.Server
	proxy    *httptest.Server
	hostname string // of the target, "" for the same one
}

func newRedirecting(t *testing.T, status int) *redirecting {
	r := &redirecting{}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.arrived = append(r.arrived, req.Method)
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(r.server.Close)
	r.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sent = req.Method
		to := r.server.URL
		if r.hostname != "" {
			to = strings.Replace(to, "127.0.0.1", r.hostname, 1)
		}
		http.Redirect(w, req, to+req.URL.RequestURI(), status)
	}))
	t.Cleanup(r.proxy.Close)
	return r
}

// TestClient_RedirectsNoWrite has all calls meet a proxy that leads to https: a write is an error that
// names the target, and a read goes there.
func TestClient_RedirectsNoWrite(t *testing.T) {
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusPermanentRedirect} {
		r := newRedirecting(t, status)
		c := api.NewClient(api.ClientConfig{Address: r.proxy.URL})
		defer c.Close()
		writes := 0
		eachCall(t.Context(), c, func(name string, _ int, err error) {
			isWrite := r.sent != http.MethodGet
			switch {
			case isWrite && (!structs.IsKind(err, structs.KindInvalid) ||
				!strings.Contains(err.Error(), r.server.URL) || len(r.arrived) > 0):
				t.Errorf("%d: %s: got %v after the requests %q", status, name, err, r.arrived)
			case !isWrite && len(r.arrived) != 1:
				t.Errorf("%d: %s: got %v, and %d requests, want 1", status, name, err, len(r.arrived))
			}
			if isWrite {
				writes++
			}
			r.arrived = nil
		})
		if writes < 40 {
			t.Errorf("%d calls write", writes)
		}
	}
}

func TestClient_RedirectsAReadOnTheSameHostOnly(t *testing.T) {
	r := newRedirecting(t, http.StatusFound)
	r.hostname = "localhost" // the same server by another name
	c := api.NewClient(api.ClientConfig{Address: r.proxy.URL, Token: "tok"})
	defer c.Close()
	_, err := operator.ReadAgent(t.Context(), c)
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), "http://localhost:") ||
		len(r.arrived) > 0 {
		t.Errorf("got %v after the requests %q", err, r.arrived)
	}

	// A proxy that leads to itself ends, too.
	var loop *httptest.Server
	loop = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, loop.URL+req.URL.RequestURI(), http.StatusFound)
	}))
	defer loop.Close()
	c = api.NewClient(api.ClientConfig{Address: loop.URL})
	defer c.Close()
	if _, err := operator.ReadAgent(t.Context(), c); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("got %v, want an invalid redirect", err)
	}

	// From https to http everybody on the way would read the token.
	plain := newRedirecting(t, http.StatusFound)
	secure := httptest.NewTLSServer(plain.proxy.Config.Handler)
	defer secure.Close()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(authority, block, 0o600); err != nil {
		t.Fatal(err)
	}
	c = api.NewClient(api.ClientConfig{Address: secure.URL, TLS: transport.TLS{CACert: authority}})
	defer c.Close()
	_, err = operator.ReadAgent(t.Context(), c)
	if !structs.IsKind(err, structs.KindInvalid) || len(plain.arrived) > 0 ||
		!strings.Contains(err.Error(), plain.server.URL) {
		t.Errorf("got %v after the requests %q", err, plain.arrived)
	}
}

// streams are the calls whose answer is not JSON.
var streams = []string{
	"allocs.Cat", "allocs.Logs", "allocs.ReadAt", "allocs.StreamFile", "events.Open", "operator.Export",
	"operator.Metrics", "operator.Monitor",
}

// needNothing are the calls whose callers need nothing of the answer but its success, or whose answer may be
// empty.
var needNothing = []string{
	"allocs.GC", "allocs.ListChecks", "allocs.Restart", "allocs.Signal", "operator.ForceLeave",
	"operator.Leave", "operator.ReadHealth", "operator.Reload", "operator.RestoreSnapshot",
}

// TestClient_RejectsTheAnswerOfAnotherProgram has all calls meet a server that answers everything with some
// other JSON: none of them is a success without what its caller needs.
func TestClient_RejectsTheAnswerOfAnotherProgram(t *testing.T) {
	for _, body := range []string{"{}", "null", `{"ok":true}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(body))
		}))
		c := api.NewClient(api.ClientConfig{Address: server.URL})
		eachCall(t.Context(), c, func(name string, _ int, err error) {
			accepted := slices.Contains(streams, name) || body == "{}" && slices.Contains(needNothing, name) ||
				body == "null" && name == "jobs.LatestDeployment" // there is none
			if err == nil && !accepted {
				t.Errorf("%s: the answer %s is a success", name, body)
			}
		})
		for _, op := range []string{access.VariableSet, access.VariableAcquire, access.VariableDelete} {
			_, err := accessapi.WriteVariable(t.Context(), c, accessapi.VariableWrite{Op: op, Path: "p"})
			if !structs.IsKind(err, structs.KindInternal) {
				t.Errorf("%s of a variable: the answer %s: got %v, want internal", op, body, err)
			}
		}
		c.Close()
		server.Close()
	}

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"Path":"p"}`))
	}))
	defer server.Close()
	c := api.NewClient(api.ClientConfig{Address: server.URL})
	defer c.Close()
	w := accessapi.VariableWrite{Op: access.VariableAcquire, Path: "p"}
	_, err := accessapi.WriteVariable(t.Context(), c, w)
	if !structs.IsKind(err, structs.KindInternal) {
		t.Errorf("a lock without its ID: got %v, want internal", err)
	}
}

// The options for the target of a redirect, as -ca-cert, need its address. The address of the proxy would
// mislead: it answers.
func TestClient_NamesTheTargetOfARedirectThatFails(t *testing.T) {
	stranger := httptest.NewTLSServer(http.NotFoundHandler())
	stranger.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer stranger.Close()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for what, target := range map[string]string{
		"of an unknown authority": stranger.URL,
		"that nobody serves":      closed.URL,
	} {
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, target+req.URL.RequestURI(), http.StatusMovedPermanently)
		}))
		c := api.NewClient(api.ClientConfig{Address: proxy.URL})
		_, err := operator.ReadAgent(t.Context(), c)
		want := proxy.URL + " redirects to " + target + ", which does not answer: "
		if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "name that address with -address or BERTH_ADDR") {
			t.Errorf("a target %s: got %v, want %q", what, err, want)
		}
		c.Close()
		proxy.Close()
	}
}
