package client

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"berth/client/membership"
	"berth/structs"
)

// Servers without their state know no allocation of the node. They are another cluster at the same addresses.
func TestOtherCluster_EndsNothingUntilAnOperatorSaysSo(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.servers.cluster = "one"
		r.start(false)
		defer r.stop()
		r.servers.place(testAlloc("a1"))
		r.pass(time.Minute)
		r.servers.do(func() {
			r.servers.cluster = "two"
			clear(r.servers.nodes)
			clear(r.servers.allocs)
			r.servers.index++
			close(r.servers.changed)
			r.servers.changed = make(chan struct{})
		})
		r.pass(10 * time.Minute)
		if got := r.machine.Running(); !slices.Equal(got, []string{"a1/web"}) {
			t.Fatalf("running %v, want that which ran before", got)
		}

		r.stop() // another agent does the same
		r.start(false)
		r.pass(10 * time.Minute)
		if got := r.machine.Running(); !slices.Equal(got, []string{"a1/web"}) {
			t.Fatalf("running %v after a restart of the agent", got)
		}

		err := os.Remove(filepath.Join(r.client.config().StateDir(), membership.ClusterFile))
		if err != nil {
			t.Fatal(err)
		}
		r.pass(10 * time.Minute)
		var registered *structs.Node
		r.servers.do(func() { registered = r.servers.nodes[r.client.id.NodeID] })
		if got := r.machine.Running(); registered == nil || len(got) > 0 {
			t.Errorf("running %v; registered: %t", got, registered != nil)
		}
	})
}
