package authmethod

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// slowProvider is a server with TLS, with a client of this package for it.
type slowProvider struct {
	*httptest.Server
	transport *Transport
	client    *http.Client
	now       time.Time
}

func newSlowProvider(t *testing.T, handle http.HandlerFunc, others ...string) *slowProvider {
	p := &slowProvider{Server: httptest.NewTLSServer(handle), now: time.Unix(1000, 0)}
	t.Cleanup(p.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	transport, err := NewTransport(append(others, p.URL), string(ca), func() time.Time { return p.now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.Close)
	p.transport = transport
	p.client = &http.Client{Transport: transport}
	return p
}

func (p *slowProvider) get(path string) (string, error) {
	resp, err := p.client.Get(path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestTransport_ReachesWhatTheConfigurationNames(t *testing.T) {
	p := newSlowProvider(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "keys") })
	got, err := p.get(p.URL)
	if got != "keys" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// The issuer itself may be on this machine. A redirect to there may not, and neither may an address that the
// issuer names.
func TestTransport_GoesNowhereElseOnThisMachine(t *testing.T) {
	var p *slowProvider
	p = newSlowProvider(t, func(w http.ResponseWriter, r *http.Request) {
		target := map[string]string{
			"/same":   p.URL + "/keys",
			"/host":   strings.Replace(p.URL, "127.0.0.1", "localhost", 1),
			"/plain":  "http://example.org/",
			"/meta":   "https://169.254.169.254/latest/meta-data/",
			"/around": p.URL + "/around",
		}[r.URL.Path]
		if target != "" {
			http.Redirect(w, r, target, http.StatusFound)
		}
	})
	_, err := p.get(p.URL + "/keys") // its connection stays open and must not serve the redirect
	if err != nil {
		t.Fatal(err)
	}

	for path, want := range map[string]string{
		"/same":   "which is not public",
		"/host":   "which is not public",
		"/plain":  "expected https",
		"/meta":   "which is not public",
		"/around": "which is not public",
	} {
		p.now = p.now.Add(time.Minute)
		_, err := p.get(p.URL + path)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", path, err, want)
		}
	}

	other := newSlowProvider(t, func(http.ResponseWriter, *http.Request) {})
	p.now = p.now.Add(time.Minute)
	_, err = p.get(other.URL)
	if err == nil || !strings.Contains(err.Error(), "one of this machine") {
		t.Errorf("another port of this machine: got %v", err)
	}
}

func TestTransport_RepeatsNoSecretAtARedirect(t *testing.T) {
	p := newSlowProvider(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://example.org/", http.StatusTemporaryRedirect)
	})
	_, err := p.client.PostForm(p.URL, url.Values{"client_secret": {"s"}})
	if err == nil || !strings.Contains(err.Error(), "redirects a POST") {
		t.Errorf("got %v", err)
	}
}

func TestTransport_BoundsAnswers(t *testing.T) {
	p := newSlowProvider(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("x"), MaxBody+1))
	})
	got, err := p.get(p.URL)
	if err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") || len(got) > MaxBody {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// elsewhere answers the requests of a scheme of its own, and keeps the context of the last one.
type elsewhere struct{ last context.Context }

func (e *elsewhere) RoundTrip(req *http.Request) (*http.Response, error) {
	e.last = req.Context()
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("keys"))}, nil
}

// The time is that of the answer with its body: a provider that sends it slowly does not hold a login.
func TestTransport_BoundsTheTimeOfARequest(t *testing.T) {
	provider := &elsewhere{}
	transport, err := NewTransport([]string{"slow://id.example.org"}, "", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	transport.configured.RegisterProtocol("slow", provider)
	begun := time.Now()
	req, err := http.NewRequest(http.MethodGet, "slow://id.example.org/keys", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	end, bounded := provider.last.Deadline()
	if !bounded || end.Before(begun.Add(maxTime)) || end.After(time.Now().Add(maxTime)) {
		t.Errorf("the request ends at %s, want it %s after its begin", end, maxTime)
	}
	if provider.last.Err() != nil {
		t.Error("the request has ended before its body was read")
	}
	err = resp.Body.Close()
	if err != nil || provider.last.Err() == nil {
		t.Errorf("the request goes on without its body, error %v", err)
	}
}

// A token that names an unknown key makes the server read the keys again.
func TestTransport_PacesTheRequestsForKeys(t *testing.T) {
	p := newSlowProvider(t, func(http.ResponseWriter, *http.Request) {})
	for range keysAtOnce {
		_, err := p.get(p.URL)
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := p.get(p.URL)
	if structs.RetryAfter(err) != keysEvery {
		t.Errorf("got %v, want unavailable with a time to wait", err)
	}

	p.now = p.now.Add(keysEvery)
	_, err = p.get(p.URL)
	if err != nil {
		t.Errorf("after the time: %v", err)
	}
	req, err := http.NewRequest(http.MethodGet, p.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer a")
	resp, err := p.client.Do(req)
	if err != nil {
		t.Fatalf("the claims of a person: %v", err)
	}
	_ = resp.Body.Close()
}

func TestAddresses_AreSortedByWhereTheyLead(t *testing.T) {
	for address, want := range map[string][2]bool{ // may a provider name it, may it redirect to it
		"127.0.0.1":            {false, false},
		"::1":                  {false, false},
		"169.254.169.254":      {false, false},
		"fe80::1":              {false, false},
		"0.0.0.0":              {false, false},
		"224.0.0.1":            {false, false},
		"::":                   {false, false},
		"10.1.2.3":             {true, false},
		"192.168.1.1":          {true, false},
		"172.16.0.1":           {true, false},
		"fd00::1":              {true, false},
		"100.64.1.1":           {true, false},
		"0.1.2.3":              {true, false},
		"64:ff9b::7f00:1":      {true, false},
		"2002:7f00:1::":        {true, false},
		"255.255.255.255":      {true, false},
		"93.184.216.34":        {true, true},
		"2606:4700::6810:84e5": {true, true},
	} {
		a := netip.MustParseAddr(address)
		got := [2]bool{checkNamed(a) == nil, checkPublic(a) == nil}
		if got != want {
			t.Errorf("%s: got %v, want %v", address, got, want)
		}
	}
}

func TestNew_RejectsWhatIsNoAuthorityOrURL(t *testing.T) {
	_, err := NewTransport(nil, "not PEM", time.Now)
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("authorities: got %v, want invalid", err)
	}
	_, err = NewTransport([]string{"https://a\x7f"}, "", time.Now)
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("a URL: got %v, want invalid", err)
	}
}
