package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"berth/client/assembly"
	"berth/structs"
)

// fakeConsul is a Consul that gives the node attributes. The test uses no services.
type fakeConsul struct {
	assembly.Consul
	mu         sync.Mutex
	attributes map[string]string
	changes    chan struct{}
}

func (f *fakeConsul) WaitFirst(context.Context) {}

func (f *fakeConsul) Attributes() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.attributes)
}

func (f *fakeConsul) Changes() <-chan struct{} { return f.changes }

func TestClient_RegistersWithTheAttributesOfConsul(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		c := &fakeConsul{changes: make(chan struct{}, 1)}
		r.consul = c
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		if _, has := r.client.Node().Attributes["consul.version"]; has {
			t.Error("an attribute before the first answer of Consul")
		}
		c.mu.Lock()
		c.attributes = map[string]string{"consul.version": "1.15.4"}
		c.mu.Unlock()
		c.changes <- struct{}{}
		r.pass(time.Second)
		r.servers.mu.Lock()
		defer r.servers.mu.Unlock()
		row := r.servers.nodes[r.client.NodeID()]
		if row == nil || row.Attributes["consul.version"] != "1.15.4" {
			t.Errorf("the servers have the node %+v", row)
		}
	})
}

func TestClient_FindsServersWhenNoneAnswers(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.edit = func(c *Config) { c.Servers = []string{"gone:1"} }
		r.servers.fail = func(addr, _ string) error {
			if addr == "gone:1" {
				return structs.NotServedf("connection refused")
			}
			return nil
		}
		asked := 0
		r.find = func(context.Context) ([]string, error) {
			asked++
			if asked == 1 {
				return nil, errors.New("Consul is away")
			}
			return []string{"gone:1", "s1:1"}, nil
		}
		r.start(false)
		defer r.stop()
		r.pass(time.Minute)
		if !isClosed(r.client.Registered()) || asked != 2 {
			t.Errorf("registered %v after %d questions", isClosed(r.client.Registered()), asked)
		}
		if got := r.client.Servers(); !slices.Equal(got, []string{"s1:1", "s2:1"}) {
			t.Errorf("the list is %q, want that of the servers", got)
		}
	})
}
