package handover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/hooks"
	"berth/structs"
)

// otherNodes is a node with some allocations, and the servers in memory.
type otherNodes struct {
	mu      sync.Mutex
	local   map[string]chan struct{}
	remote  map[string]*structs.Allocation
	held    []string      // volumes that the node of an ended allocation has not released
	changed chan struct{} // closed at the next change
	index   uint64
	fail    error
	calls   int
	said    []string
	events  []string
}

func newOtherNodes() *otherNodes {
	return &otherNodes{
		local:   map[string]chan struct{}{},
		remote:  map[string]*structs.Allocation{},
		changed: make(chan struct{}),
		index:   1,
	}
}

// set changes an allocation at the servers, nil to delete it.
func (n *otherNodes) set(id, nodeID, status string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.remote, id)
	if status != "" {
		n.remote[id] = &structs.Allocation{ID: id, NodeID: nodeID, NodeName: "name-" + nodeID, ClientStatus: status}
	}
	n.index++
	close(n.changed)
	n.changed = make(chan struct{})
}

// Call implements rpc.Caller: it answers a blocking Alloc.GetAlloc.
func (n *otherNodes) Call(ctx context.Context, _ string, req, resp any) error {
	r := req.(*structs.AllocGetRequest)
	n.mu.Lock()
	n.calls++
	for n.fail == nil && n.index <= r.MinIndex {
		changed := n.changed
		n.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		n.mu.Lock()
		if ctx.Err() != nil {
			n.mu.Unlock()
			return ctx.Err()
		}
	}
	defer n.mu.Unlock()
	if n.fail != nil {
		return n.fail
	}
	a := n.remote[r.AllocID]
	if a == nil {
		return structs.NotFoundf("no allocation %q", r.AllocID)
	}
	answer := resp.(*structs.AllocGetResponse)
	answer.Alloc = a
	if a.ClientTerminal() {
		answer.HeldVolumes = n.held
	}
	answer.Index = n.index
	return nil
}

func (n *otherNodes) hook(a *structs.Allocation) (hooks.Alloc, *hooks.AllocEnv) {
	complete := make(chan struct{})
	close(complete)
	env := &hooks.AllocEnv{Alloc: a}
	return Predecessors(env, PredecessorConfig{
		NodeID:   "here",
		Servers:  n,
		Logger:   hclog.NewNullLogger(),
		Complete: complete,
		Local: func(id string) (<-chan struct{}, bool) {
			c, ok := n.local[id]
			return c, ok
		},
		Progress: func(_, reason string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.said = append(n.said, reason)
		},
		Report: func(_, message string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.events = append(n.events, message)
		},
	}), env
}

func (n *otherNodes) lastSaid() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.said) == 0 {
		return ""
	}
	return n.said[len(n.said)-1]
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestNew_IsNilWithoutPredecessors(t *testing.T) {
	if h, _ := newOtherNodes().hook(&structs.Allocation{ID: "a"}); h != nil {
		t.Error("an allocation that waits for no other has a hook")
	}
}

// Allocations that have ended, that this node no longer has or that nobody has cost no wait.
func TestUp_ReturnsAtOnceForEndedAllocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newOtherNodes()
		n.local["ended"] = closed()
		n.set("collected", "here", structs.AllocRunning)
		n.set("lost", "there", structs.AllocLost)
		h, env := n.hook(&structs.Allocation{
			ID:                   "a",
			PreviousAllocation:   "lost",
			PreemptedAllocations: []string{"ended", "unknown"},
			AwaitedAllocations:   []string{"collected"},
		})
		if err := h.Up(t.Context(), env); err != nil {
			t.Fatal(err)
		}
		if n.calls != 3 || len(n.events) > 0 || n.lastSaid() != "" {
			t.Errorf("%d calls, events %q, it said %q", n.calls, n.events, n.said)
		}
	})
}

func TestUp_WaitsForAllAndNamesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newOtherNodes()
		n.local["p1"] = make(chan struct{})
		n.local["p2"] = make(chan struct{})
		n.set("r", "there", structs.AllocRunning)
		h, env := n.hook(&structs.Allocation{
			ID:                   "a",
			PreviousAllocation:   "r",
			PreemptedAllocations: []string{"p1", "p2"},
		})
		done := make(chan error, 1)
		go func() { done <- h.Up(t.Context(), env) }()
		synctest.Wait()
		const all = "waits for the end of allocation r (on node name-there), p1 (on this node), p2 (on this node)"
		if n.lastSaid() != all || len(n.events) != 1 {
			t.Errorf("it says %q, events %q", n.lastSaid(), n.events)
		}
		n.set("r", "there", structs.AllocComplete)
		close(n.local["p1"])
		synctest.Wait()
		if want := "waits for the end of allocation p2 (on this node)"; n.lastSaid() != want {
			t.Errorf("it says %q, want %q", n.lastSaid(), want)
		}
		time.Sleep(24 * time.Hour) // a kill_timeout
		select {
		case err := <-done:
			t.Fatalf("it did not wait for the last one: %v", err)
		default:
		}
		close(n.local["p2"])
		if err := <-done; err != nil || n.lastSaid() != "" || len(n.events) != 1 {
			t.Errorf("err %v, it says %q, events %q", err, n.lastSaid(), n.events)
		}
		if err := h.Down(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// An allocation of another node that has ended is awaited until its node has released its volumes.
func TestUp_WaitsForTheVolumesOnAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newOtherNodes()
		n.held = []string{"data"}
		n.set("r", "there", structs.AllocRunning)
		h, env := n.hook(&structs.Allocation{ID: "a", PreviousAllocation: "r"})
		done := make(chan error, 1)
		go func() { done <- h.Up(t.Context(), env) }()
		synctest.Wait()
		n.set("r", "there", structs.AllocComplete)
		synctest.Wait()
		const want = "waits for the end of allocation r (on node name-there, which has volume data still)"
		if n.lastSaid() != want {
			t.Errorf("it says %q, want %q", n.lastSaid(), want)
		}
		select {
		case err := <-done:
			t.Fatalf("it did not wait for the volume: %v", err)
		default:
		}
		n.mu.Lock()
		n.held = nil
		n.mu.Unlock()
		n.set("r", "there", structs.AllocComplete)
		if err := <-done; err != nil || n.lastSaid() != "" {
			t.Errorf("err %v, it says %q", err, n.lastSaid())
		}
	})
}

func TestUp_NamesAFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newOtherNodes()
		a := &structs.Allocation{ID: "a"}
		for _, id := range strings.Fields("1 2 3 4 5") {
			n.local[id] = make(chan struct{})
			a.AwaitedAllocations = append(a.AwaitedAllocations, id)
		}
		h, env := n.hook(a)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := h.Up(ctx, env); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if !slices.ContainsFunc(n.said, func(s string) bool { return strings.HasSuffix(s, "), 2 more") }) {
			t.Errorf("it said %q", n.said)
		}
	})
}

// Servers that do not answer are asked again. An error that stays is the result, after the context's.
func TestUp_RetriesAndReportsErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newOtherNodes()
		n.fail = structs.Unavailablef("no leader")
		n.set("r", "there", structs.AllocRunning)
		h, env := n.hook(&structs.Allocation{ID: "a", PreviousAllocation: "r", AwaitedAllocations: []string{"q"}})
		done := make(chan error, 1)
		go func() { done <- h.Up(t.Context(), env) }()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n.calls < 10 || n.calls > 100 || !strings.Contains(n.lastSaid(), "r (the servers do not answer)") {
			t.Errorf("%d calls in 5 minutes, it says %q", n.calls, n.lastSaid())
		}
		n.mu.Lock()
		n.fail = structs.Deniedf("not for you")
		n.mu.Unlock()
		err := <-done
		if err == nil || strings.Count(err.Error(), "not for you") != 2 {
			t.Errorf("got %v, want both errors", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.Up(ctx, env); err != context.Canceled {
			t.Errorf("got %v, want the error of the context", err)
		}
	})
}

func TestUp_OfARunningAllocationWaitsForNobody(t *testing.T) {
	n := newOtherNodes()
	n.local["p"] = make(chan struct{})
	h, env := n.hook(&structs.Allocation{ID: "a", PreemptedAllocations: []string{"p"}})
	env.Running = func() bool { return true }
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := h.Up(ctx, env); err != nil || len(n.said) > 0 {
		t.Errorf("err %v, it said %q", err, n.said)
	}
}
