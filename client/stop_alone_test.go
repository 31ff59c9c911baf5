package client

import (
	"testing"
	"time"

	"berth/structs"
)

// A node that is cut off ends the tasks of a group with stop_on_client_after that long after its lease, also
// if it slept meanwhile, and no others. The servers learn that they have not done their work.
func TestStopAlone_EndsTasksAfterTheLease(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		stops := testAlloc("stops")
		stops.Job.TaskGroups[0].Disconnect = &structs.DisconnectStrategy{StopOnClientAfter: new(time.Minute)}
		r.servers.place(stops, testAlloc("stays"))
		r.pass(2 * time.Second)
		status := func(id string) string { return r.client.Allocs()[id].ClientStatus }
		r.servers.do(func() {
			r.servers.fail = func(string, string) error { return structs.NotServedf("the node is cut off") }
		})

		ttl, age := r.client.Lease()
		r.pass(ttl - age + 58*time.Second)
		if got := status("stops"); got != structs.AllocRunning {
			t.Fatalf("it is %s before its time", got)
		}
		r.suspended.Store(int64(2 * time.Second))
		r.pass(2 * time.Second)
		if got := status("stops"); got != structs.AllocFailed {
			t.Errorf("the allocation is %s", got)
		}
		if got := status("stays"); got != structs.AllocRunning {
			t.Errorf("an allocation without the block is %s", got)
		}
	})
}

// An agent that has not reached the servers since its start counts from its start.
func TestStopAlone_CountsFromTheStartOfAnAgent(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		stops := testAlloc("stops")
		stops.Job.TaskGroups[0].Disconnect = &structs.DisconnectStrategy{StopOnClientAfter: new(time.Minute)}
		r.servers.place(stops)
		r.pass(2 * time.Second)
		r.stop()
		r.servers.do(func() {
			r.servers.fail = func(string, string) error { return structs.NotServedf("the node is cut off") }
		})
		r.start(false)
		defer r.stop()
		r.pass(58 * time.Second)
		if got := r.client.Allocs()["stops"].ClientStatus; got != structs.AllocRunning {
			t.Fatalf("it is %s before its time", got)
		}
		r.pass(4 * time.Second)
		if got := r.client.Allocs()["stops"].ClientStatus; got != structs.AllocFailed {
			t.Errorf("the allocation is %s", got)
		}
	})
}

// A node reports an allocation that the servers do not know the state of, although it has not changed.
func TestUpdates_TellTheStateOfAnUnknownAllocation(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.servers.place(testAlloc("a"))
		r.pass(5 * time.Second)
		before := len(r.servers.called(structs.NodeUpdateAllocs.Name))
		unknown := testAlloc("a")
		unknown.ClientStatus = structs.AllocUnknown
		unknown.AllocModifyIndex++
		r.servers.place(unknown)
		r.pass(5 * time.Second)
		calls := r.servers.called(structs.NodeUpdateAllocs.Name)[before:]
		if len(calls) != 1 {
			t.Fatalf("%d reports", len(calls))
		}
		u := calls[0].req.(*structs.AllocsClientUpdateRequest).Allocs[0]
		if u.ID != "a" || u.ClientStatus != structs.AllocRunning {
			t.Errorf("it reports %+v", u)
		}
	})
}
