package client

import (
	"context"
	"slices"
	"testing"
	"time"

	"berth/client/membership"
	"berth/structs"
)

// leave serves Node.Leave, and drainStatus the status of the drain: it has ended at once.
func (p *fakeServers) leave(_ context.Context, r *structs.NodeLeaveRequest) (*structs.Empty, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = r.DrainSpec != nil
	return &structs.Empty{}, nil
}

func (p *fakeServers) drainStatus(context.Context, *structs.NodeGetRequest) (
	*structs.NodeDrainStatusResponse, error,
) {
	return &structs.NodeDrainStatusResponse{}, nil
}

// leaves lists the calls of Node.Leave: whether each starts a drain.
func (p *fakeServers) leaves() (starts []bool) {
	for _, c := range p.called(structs.NodeLeave.Name) {
		starts = append(starts, c.req.(*structs.NodeLeaveRequest).DrainSpec != nil)
	}
	return starts
}

func TestLeave_DrainsOnlyIfConfigured(t *testing.T) {
	for _, configured := range []bool{false, true} {
		inVirtualTime(t, func(t *testing.T) {
			r := newFixture(t)
			if configured {
				r.edit = func(c *Config) { c.DrainOnShutdown = &membership.LeaveConfig{} }
			}
			r.start(false)
			defer r.stop()
			r.client.Leave(t.Context())
			if got := len(r.servers.leaves()) > 0; got != configured {
				t.Errorf("configured %t: the node drains: %t", configured, got)
			}
		})
	}
}

// The next agent ends the drain once, also if its first attempts fail. A later registration ends none.
func TestLeave_TheNextAgentEndsTheDrain(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.edit = func(c *Config) { c.DrainOnShutdown = &membership.LeaveConfig{} }
		r.start(false)
		r.client.Leave(t.Context())
		r.flip(broken)
		r.pass(time.Minute) // a registration of the agent that leaves
		r.stop()
		r.servers.do(func() {
			r.servers.fail = func(_, method string) error {
				if method == structs.NodeLeave.Name {
					return structs.NotServedf("electing")
				}
				return nil
			}
		})
		r.start(false)
		defer r.stop()
		r.pass(time.Minute)
		if isClosed(r.client.registered) || len(r.servers.leaves()) < 3 {
			t.Errorf("the node is registered while it cannot end the drain, after %v", r.servers.leaves())
		}
		r.servers.do(func() { r.servers.fail = nil })
		r.pass(time.Minute)
		starts := r.servers.leaves()
		if !starts[0] || slices.Contains(starts[1:], true) || r.servers.left || !isClosed(r.client.registered) {
			t.Errorf("the node left and came back: %v", starts)
		}
		r.servers.do(func() { r.servers.left = true })
		r.flip(working)
		r.pass(time.Minute)
		if again := r.servers.leaves(); len(again) != len(starts) {
			t.Errorf("a later registration calls Node.Leave: %v", again)
		}
	})
}

// A node that cannot end the drain for good takes part in the cluster nevertheless, and is ineligible.
func TestLeave_AFinalErrorKeepsNoNodeOut(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.servers.left = true
		r.servers.fail = func(_, method string) error {
			if method == structs.NodeLeave.Name {
				return structs.Preconditionf("a server has level 1")
			}
			return nil
		}
		r.start(false)
		defer r.stop()
		if !isClosed(r.client.registered) {
			t.Error("the node is not registered")
		}
	})
}

// An agent that is told to stop while its first registration is in flight does not end its own drain. It
// drains no node before the servers have accepted it: the node may have another agent.
func TestLeave_ComesAfterTheFirstRegistration(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.edit = func(c *Config) { c.DrainOnShutdown = &membership.LeaveConfig{} }
		r.servers.fail = func(_, method string) error {
			if method == structs.NodeRegister.Name {
				return structs.NotServedf("electing")
			}
			return nil
		}
		r.start(false)
		defer r.stop()
		left := make(chan struct{})
		go func() {
			defer close(left)
			r.client.Leave(t.Context())
		}()
		r.pass(time.Second)
		if got := r.servers.leaves(); len(got) != 0 {
			t.Errorf("before the registration: got the calls %v", got)
		}
		r.servers.do(func() { r.servers.fail = nil })
		r.pass(time.Minute)
		<-left
		if got := r.servers.leaves(); !slices.Equal(got, []bool{true}) || !isClosed(r.client.registered) {
			t.Errorf("got the calls %v", got)
		}
	})
}

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
