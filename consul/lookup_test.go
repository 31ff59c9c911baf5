package consul

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"berth/consul/lookup"
	"berth/structs"
	"berth/test/consultest"
)

// scripted returns the link with a Consul that a function plays.
func scripted(t *testing.T, answer http.HandlerFunc) *Link {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	c := DefaultConfig()
	c.Address = server.Listener.Addr().String()
	c.Timeout = time.Minute
	c.Token = "t0ken"
	l, err := New(c, t.Name(), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.transport.CloseIdleConnections)
	return l
}

func withHead(answer string, head ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Consul-Knownleader", "true")
		w.Header().Set("X-Consul-Lastcontact", "0")
		w.Header().Set("X-Consul-Index", "5")
		for i := 0; i+1 < len(head); i += 2 {
			w.Header().Set(head[i], head[i+1])
		}
		_, _ = w.Write([]byte(answer))
	}
}

var (
	webService = lookup.Query{Kind: lookup.ConsulService, Name: "web", Filter: "passing"}
	oneKey     = lookup.Query{Kind: lookup.ConsulKey, Name: "a"}
	keysBelow  = lookup.Query{Kind: lookup.ConsulKeys, Name: "a/"}
)

func TestLookup_EndsWithoutAnAnswer(t *testing.T) {
	const deadline = "deadline exceeded"
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"hangs": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, deadline},
		"hangs within": {func(w http.ResponseWriter, r *http.Request) {
			withHead("[")(w, r)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, deadline},
		"fails": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("x", 1<<20), http.StatusInternalServerError)
		}, "500"},
		"denies": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no", http.StatusForbidden)
		}, "denies it to the agent's token"},
		"garbage":    {withHead("<html>"), "invalid character"},
		"other type": {withHead(`{"a": 1}`), "cannot unmarshal"},
		"leaderless": {withHead("[]", "X-Consul-Knownleader", "false"), "has no leader"},
		"hidden": {
			withHead("[]", "X-Consul-Results-Filtered-By-Acls", "true"), "hidden from the agent's token",
		},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			withHead(`[{"Service":{"ID":"`)(w, r)
			for {
				_, err := w.Write(make([]byte, 1<<16))
				if err != nil {
					return
				}
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := scripted(t, c.answer)
			if c.want == deadline {
				l.config.Timeout = 200 * time.Millisecond
			}
			_, err := l.Lookup(t.Context(), webService, 0, time.Minute)
			kind := structs.KindOf(err)
			known := kind == structs.KindUnavailable || kind == structs.KindDenied
			if !known || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			if text := err.Error(); len(text) > structs.MaxText+3 || strings.Contains(text, "127.0.0.1") {
				t.Errorf("the error is %d bytes: %.200s", len(text), text)
			}
		})
	}
}

func TestLookup_BoundsAnswers(t *testing.T) {
	long := `[{"Service":{"ID":"` + strings.Repeat("x", maxLookup) + `"},"Node":{}}]`
	l := scripted(t, withHead(long))
	_, err := l.Lookup(t.Context(), webService, 0, time.Minute)
	if err == nil || !strings.Contains(err.Error(), errTooLong.Error()) {
		t.Errorf("got %.200v", err)
	}
}

// Each request has the token of the configuration alone, and waits for another answer at any server.
func TestLookup_AsksTheConfiguredConsul(t *testing.T) {
	t.Setenv("CONSUL_HTTP_TOKEN", "other")
	t.Setenv("CONSUL_NAMESPACE", "ns")
	var got *http.Request
	l := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		withHead("[]")(w, r)
	})
	q := webService
	q.Tag = "v1"
	q.Place = "dc2"
	q.Near = "n1"
	answer, err := l.Lookup(t.Context(), q, 4, time.Minute)
	if err != nil || answer.Index != 5 {
		t.Fatalf("got %+v, %v", answer, err)
	}
	query := got.URL.Query()
	want := map[string]string{
		"dc": "dc2", "tag": "v1", "near": "n1", "index": "4", "wait": "60000ms", "stale": "", "passing": "1",
	}
	for name, value := range want {
		if !query.Has(name) || query.Get(name) != value {
			t.Errorf("%s is %q", name, query.Get(name))
		}
	}
	if len(query) != len(want) || got.URL.Path != "/v1/health/service/web" ||
		got.Header.Get("X-Consul-Token") != "t0ken" {
		t.Errorf("got %s with %v", got.URL, got.Header)
	}
}

// Consul's streams of events do not say whether there is a leader.
func TestLookup_TakesAnswersOfStreams(t *testing.T) {
	l := scripted(t, withHead("[]", "X-Consul-Knownleader", "false", "X-Consul-Query-Backend", "streaming"))
	_, err := l.Lookup(t.Context(), webService, 4, time.Minute)
	if err != nil {
		t.Error(err)
	}
}

// A request that waits ends with its context, and takes longer than the timeout of others.
func TestLookup_WaitsForAnotherAnswer(t *testing.T) {
	entered := make(chan struct{})
	l := scripted(t, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	})
	l.config.Timeout = 200 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := l.Lookup(ctx, oneKey, 1, time.Hour)
		ended <- err
	}()
	<-entered
	select {
	case err := <-ended:
		t.Errorf("it ended with %v", err)
	case <-time.After(3 * l.config.Timeout):
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("no error after the end of its context")
	}
}

func TestLookup_LivesWithNulls(t *testing.T) {
	q := webService
	q.Filter = "any"
	l := scripted(t, withHead(`[null, {}, {"Service": null, "Node": {}},
		{"Service": {"ID": "i", "Tags": null}, "Node": {"Address": "10.0.0.1"}, "Checks": [null]}]`))
	answer, err := l.Lookup(t.Context(), q, 0, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	list := answer.Value.([]*lookup.Service)
	if len(list) != 1 || list[0].ID != "i" || list[0].Address != "10.0.0.1" {
		t.Errorf("got %+v", list)
	}
	l = scripted(t, withHead(`[null]`))
	for _, q := range []lookup.Query{oneKey, keysBelow} {
		answer, err = l.Lookup(t.Context(), q, 0, time.Minute)
		if err != nil || !reflect.ValueOf(answer.Value).IsZero() && reflect.ValueOf(answer.Value).Len() != 0 {
			t.Errorf("%s: got %+v, %v", q, answer, err)
		}
	}
}

// readAll returns the answers to queries as texts.
func readAll(t *testing.T, l *Link, queries ...lookup.Query) (texts []string) {
	t.Helper()
	for _, q := range queries {
		answer, err := l.Lookup(t.Context(), q, 0, time.Minute)
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		var words []string
		switch list := answer.Value.(type) {
		case []*lookup.Service:
			for _, s := range list {
				words = append(words, fmt.Sprintf("%s %s:%d %v %s", s.ID, s.Address, s.Port, s.Tags, s.Status))
			}
		case []*lookup.ServiceName:
			for _, s := range list {
				words = append(words, fmt.Sprintf("%s %v", s.Name, s.Tags))
			}
		case []*lookup.KeyPair:
			for _, p := range list {
				words = append(words, p.Path+" "+p.Key+"="+p.Value)
			}
		case *lookup.KeyPair:
			words = append(words, "none")
			if list != nil {
				words[0] = list.Path + "=" + list.Value
			}
		}
		texts = append(texts, strings.Join(words, ", "))
	}
	return texts
}

func mustParse(t *testing.T, parse func(string) (lookup.Query, error), text string) lookup.Query {
	t.Helper()
	q, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestLookup_ReadsARealConsul(t *testing.T) {
	c := consultest.Start(t, consultest.Options{ACLs: true})
	for i, status := range []string{api.HealthPassing, api.HealthWarning, api.HealthCritical} {
		err := c.API.Agent().ServiceRegister(&api.AgentServiceRegistration{
			ID:    fmt.Sprintf("web-%d", i),
			Name:  "web",
			Tags:  []string{"z", fmt.Sprintf("v%d", i)},
			Port:  80 + i,
			Check: &api.AgentServiceCheck{TTL: "1h", Status: status},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{"app/a": "1", "app/b/c": "2", "app/": ""} {
		_, err := c.API.KV().Put(&api.KVPair{Key: path, Value: []byte(text)}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	l, _ := linkTo(t, c, func(conf *Config) { conf.Token = consultest.ManagementToken })
	got := readAll(t, l,
		mustParse(t, lookup.ParseService, "web"),
		mustParse(t, lookup.ParseService, "web|any"),
		mustParse(t, lookup.ParseService, "web|warning,critical"),
		mustParse(t, lookup.ParseService, "v1.web@dc1|any"),
		mustParse(t, lookup.ParseService, "none"),
		mustParse(t, lookup.ParseServices, ""),
		mustParse(t, lookup.ParseKey, "app/a"),
		mustParse(t, lookup.ParseKey, "none"),
		mustParse(t, lookup.ParseKeys, "app"),
		mustParse(t, lookup.ParseKeys, "none"),
	)
	for i, want := range []string{
		"web-0 127.0.0.1:80 [v0 z] passing",
		"web-0 127.0.0.1:80 [v0 z] passing, " +
			"web-1 127.0.0.1:81 [v1 z] warning, web-2 127.0.0.1:82 [v2 z] critical",
		"web-1 127.0.0.1:81 [v1 z] warning, web-2 127.0.0.1:82 [v2 z] critical",
		"web-1 127.0.0.1:81 [v1 z] warning",
		"",
		"consul [], web [v0 v1 v2 z]",
		"app/a=1",
		"none",
		"app/ =, app/a a=1, app/b/c b/c=2",
		"",
	} {
		if got[i] != want {
			t.Errorf("query %d: got %q, want %q", i, got[i], want)
		}
	}

	blind, _ := linkTo(t, c, func(conf *Config) {
		conf.Token = Secret(c.Token(`key "other" { policy = "read" }`))
	})
	for _, q := range []lookup.Query{webService, oneKey, mustParse(t, lookup.ParseKeys, "app/")} {
		answer, err := blind.Lookup(t.Context(), q, 0, time.Minute)
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s with a token without rights: got %+v, %v", q, answer, err)
		}
	}
}

// TestLookup_FollowsARealConsul changes a key that a pool follows, and kills Consul meanwhile.
func TestLookup_FollowsARealConsul(t *testing.T) {
	c := consultest.Start(t, consultest.Options{Server: true})
	l, _ := linkTo(t, c, nil)
	pool := lookup.New(lookup.Config{Consul: l, Logger: hclog.NewNullLogger()})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		pool.Run(ctx)
		close(ended)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	r := pool.NewReader()
	put := func(text string) {
		t.Helper()
		_, err := c.API.KV().Put(&api.KVPair{Key: "a", Value: []byte(text)}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	await := func(want string) {
		t.Helper()
		limit := time.After(time.Minute)
		for {
			s, err := r.Read(oneKey)
			if err != nil {
				t.Fatal(err)
			}
			pair, _ := s.Value.(*lookup.KeyPair)
			if s.Digest != "" && (pair == nil && want == "" || pair != nil && pair.Value == want) {
				return
			}
			select {
			case <-r.Woken():
			case <-limit:
				t.Fatalf("got %+v, want %q", s, want)
			}
		}
	}
	await("")
	put("one")
	await("one")
	c.Kill()
	await("one")
	c.Run()
	put("two")
	await("two")
}
