package client

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"berth/client/drivers/driver"
	"berth/structs"
)

// A heartbeat also sends updates. One that waited for the request of another would not reach the next server
// before its lease ends.
func TestSendUpdates_WaitsForAnotherRequestUntilItsContextEnds(t *testing.T) {
	r := newFixture(t)
	r.prepare(false)
	defer r.client.close()
	r.client.servers.SetEpoch(1) // they have accepted the agent
	sent := make(chan struct{}, 1)
	r.servers.hang = func(string, string) bool {
		notify(sent)
		return true
	}
	r.client.work.updates.enqueue(&structs.AllocClientUpdate{ID: "a"})
	hanging, end := context.WithCancel(t.Context())
	var requests sync.WaitGroup
	defer requests.Wait()
	defer end()
	requests.Go(func() { _ = r.client.work.sendUpdates(hanging) })
	<-sent
	beat, expire := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer expire()
	done := make(chan error, 1)
	requests.Go(func() { done <- r.client.work.sendUpdates(beat) })
	select {
	case err := <-done:
		if !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("got %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("it waits for a server that does not answer, although its own time is over")
	}
}

// A node that was down tells how its allocations have ended before the heartbeat with which it is up again:
// the servers do no work again that is done.
func TestUpdates_PrecedeTheHeartbeatAfterTheEndOfTheLease(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.edit = func(c *Config) { c.UpdateInterval = time.Hour } // only heartbeats send them
		r.start(false)
		defer r.stop()
		r.servers.place(testAlloc("a"))
		r.pass(time.Second)
		r.servers.do(func() {
			r.servers.fail = func(string, string) error { return structs.NotServedf("the node is cut off") }
		})
		r.machine.Exit("a/web", driver.ExitResult{})
		r.pass(time.Minute)
		cut := 0
		r.servers.do(func() {
			r.servers.fail = nil
			cut = len(r.servers.calls)
		})
		r.pass(time.Minute)
		var calls []string
		r.servers.do(func() {
			for _, c := range r.servers.calls[cut:] {
				calls = append(calls, c.method)
			}
		})
		update := slices.Index(calls, structs.NodeUpdateAllocs.Name)
		beat := slices.Index(calls, structs.NodeHeartbeat.Name)
		if update < 0 || beat < update {
			t.Errorf("the calls after the return are %q", calls)
		}
	})
}
