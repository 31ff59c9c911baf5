package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/structs"
)

// A cut makes the pauses of all loops long. Its end is the first heartbeat that reaches a server.
func TestLoops_TryAgainWithTheFirstHeartbeatAfterACut(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		r.servers.do(func() {
			r.servers.fail = func(addr, _ string) error {
				return structs.NotServedf("%s: connection refused", addr)
			}
		})
		r.servers.place(testAlloc("a")) // ends the pull in flight, and the fetch of the allocation fails
		r.parts.plugins.set(instance("p", structs.CSIKindNode, true))
		r.pass(2 * time.Minute)
		pulls := r.servers.called("Node.GetClientAllocs")
		for len(r.servers.called("Node.GetClientAllocs")) == len(pulls) {
			r.pass(100 * time.Millisecond)
		}
		r.servers.do(func() { r.servers.fail = nil }) // just after an attempt of the loop
		beats := len(r.servers.called("Node.UpdateStatus"))
		for len(r.servers.called("Node.UpdateStatus")) == beats {
			r.pass(10 * time.Millisecond)
		}
		if got := r.servers.status("a"); got != structs.AllocPending || r.client.runner("a") == nil {
			t.Errorf("the allocation is %s and has the runner %v after the heartbeat", got, r.client.runner("a"))
		}
		if n := r.servers.pluginsHealthy(); n != 1 {
			t.Errorf("the servers know %d healthy plugins after the heartbeat, want 1", n)
		}
	})
}

// Overloaded servers say when to try again. The end of a cut does not make that time shorter.
func TestRetry_ObeysTheServersAlsoAfterACut(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		c := &Client{logger: hclog.NewNullLogger()}
		begin := time.Now()
		tries := 0
		go func() {
			synctest.Wait()
			c.serversBack.announce()
		}()
		c.retry(t.Context(), "failed", func(context.Context) error {
			tries++
			if tries == 1 {
				return structs.Busy(5*time.Second, "busy")
			}
			return nil
		})
		if took := time.Since(begin); tries != 2 || took < 5*time.Second {
			t.Errorf("%d tries in %s, want 2 in at least 5s", tries, took)
		}
	})
}
