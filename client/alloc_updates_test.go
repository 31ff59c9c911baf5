package client

import (
	"context"
	"sync"
	"testing"
	"time"

	"berth/structs"
)

// A heartbeat also sends updates. One that waited for the request of another would not reach the next server
// before its lease ends.
func TestSendUpdates_WaitsForAnotherRequestUntilItsContextEnds(t *testing.T) {
	r := newFixture(t)
	r.prepare(false)
	defer r.client.close()
	sent := make(chan struct{}, 1)
	r.servers.hang = func(string, string) bool {
		notify(sent)
		return true
	}
	r.client.updates.enqueue(&structs.AllocClientUpdate{ID: "a"})
	hanging, end := context.WithCancel(t.Context())
	var requests sync.WaitGroup
	defer requests.Wait()
	defer end()
	requests.Go(func() { _ = r.client.sendUpdates(hanging) })
	<-sent
	beat, expire := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer expire()
	done := make(chan error, 1)
	requests.Go(func() { done <- r.client.sendUpdates(beat) })
	select {
	case err := <-done:
		if !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("got %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it waits for a server that does not answer, although its own time is over")
	}
}
