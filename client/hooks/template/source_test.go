package template

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/consul/lookup"
	"berth/structs"
)

// source answers queries by their texts.
type source struct {
	mu      sync.Mutex
	index   uint64
	answers map[string]any
	away    bool
	changed chan struct{}
	asked   map[string]int // requests in flight
}

func (s *source) Lookup(
	ctx context.Context, q lookup.Query, after uint64, _ time.Duration,
) (*lookup.Answer, error) {
	s.count(q, 1)
	defer s.count(q, -1)
	for {
		s.mu.Lock()
		answer, known := s.answers[q.Namespace+q.String()]
		index := s.index
		changed := s.changed
		away := s.away
		s.mu.Unlock()
		if away {
			return nil, structs.Unavailablef("connection refused")
		}
		if known && index > after {
			return &lookup.Answer{Value: answer, Index: index}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *source) count(q lookup.Query, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[q.String()] += n
	if s.asked[q.String()] == 0 {
		delete(s.asked, q.String())
	}
}

// following returns the queries in flight.
func (s *source) following() string {
	time.Sleep(time.Second) // the pause between two requests
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for q := range s.asked {
		all = append(all, q)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (s *source) edit(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.index++
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *source) set(query string, answer any) { s.edit(func() { s.answers[query] = answer }) }

func (s *source) setAway(away bool) { s.edit(func() { s.away = away }) }

// withAnswers runs a test in virtual time with a node whose Consul and servers have some answers.
func withAnswers(t *testing.T, list []*structs.Template, test func(*testing.T, *fixture, *source)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &source{
			index:   1,
			answers: map[string]any{},
			changed: make(chan struct{}),
			asked:   map[string]int{},
		}
		fx := newFixture(t, list...)
		ctx, cancel := context.WithCancel(context.Background())
		fx.pool = lookup.New(lookup.Config{Consul: s, Vault: s, Servers: s, Logger: hclog.NewNullLogger()})
		ended := make(chan struct{})
		go func() {
			fx.pool.Run(ctx)
			close(ended)
		}()
		test(t, fx, s)
		cancel()
		<-ended
	})
}

func reading(text string, edit ...func(*structs.Template)) []*structs.Template {
	x := &structs.Template{
		EmbeddedTmpl: text,
		DestPath:     "local/a",
		ChangeMode:   structs.TemplateSignal,
		ChangeSignal: "SIGHUP",
		Splay:        new(time.Duration(0)),
	}
	for _, f := range edit {
		f(x)
	}
	return []*structs.Template{x}
}

func waiting(least, most time.Duration) func(*structs.Template) {
	return func(x *structs.Template) { x.Wait = &structs.TemplateWait{Min: &least, Max: &most} }
}

func pair(path, key, text string) *lookup.KeyPair {
	return &lookup.KeyPair{Path: path, Key: key, Value: text, Exists: true}
}
