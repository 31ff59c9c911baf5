package client

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/handover"
	"berth/client/hooks"
	"berth/structs"
)

// mount is a hook whose Down ends when the test lets it.
type mount struct{ gone chan struct{} }

func (mount) Name() string                              { return "mount" }
func (mount) Up(context.Context, *hooks.AllocEnv) error { return nil }
func (m mount) Down(ctx context.Context) error {
	select {
	case <-m.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watchPredecessors gives each allocation the watcher, and the one named stubborn another hook instead.
func (r *fixture) watchPredecessors(stubborn hooks.Alloc) {
	r.parts.hooks = func(env *hooks.AllocEnv) []hooks.Alloc {
		h := handover.Predecessors(env, handover.PredecessorConfig{
			NodeID:   r.client.NodeID(),
			Logger:   hclog.NewNullLogger(),
			Servers:  r.client.servers,
			Complete: r.client.contacted,
			Local: func(id string) (<-chan struct{}, bool) {
				local, here := r.client.work.allocs.local(id)
				return local.Unwound, here
			},
			Progress: r.client.work.allocs.setProgress,
			Report:   r.client.work.allocs.report,
		})
		switch {
		case env.Alloc.ID == "stubborn":
			return []hooks.Alloc{stubborn}
		case h != nil:
			return []hooks.Alloc{h}
		}
		return nil
	}
}

// The successor starts when its victims have let go of everything, also if the agent restarts meanwhile.
func TestPredecessors_AreAwaitedAcrossRestarts(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.prepare(false)
		held := mount{make(chan struct{})}
		r.watchPredecessors(held)
		r.run()
		defer func() { r.stop() }()
		r.servers.place(testAlloc("stubborn"), testAlloc("quick"))
		r.pass(time.Second)
		next := testAlloc("next")
		next.PreemptedAllocations = []string{"quick", "stubborn"}
		r.servers.place(next)
		r.servers.stopAlloc("quick")
		r.servers.stopAlloc("stubborn")
		r.pass(time.Minute)
		waiting := func(life string) {
			t.Helper()
			u := r.client.work.allocs.get("next").ClientState()
			const want = "waits for the end of allocation stubborn (on this node)"
			if u.ClientStatus != structs.AllocPending || u.ClientDescription != want {
				t.Errorf("%s: next is %s: %s", life, u.ClientStatus, u.ClientDescription)
			}
			if slices.Contains(r.machine.Running(), "next/web") {
				t.Errorf("%s: next runs beside what it displaces", life)
			}
		}
		r.pass(time.Minute)
		waiting("first life")
		events := r.client.work.allocs.get("next").ClientState().TaskStates["web"].Events
		if !slices.ContainsFunc(events, func(e *structs.TaskEvent) bool {
			return strings.Contains(e.DisplayMessage, "waits for the end of allocation")
		}) {
			t.Errorf("no event tells of the wait: %+v", events)
		}

		r.stop()
		r.start(false)
		r.pass(time.Minute)
		waiting("second life")
		close(held.gone)
		r.pass(2 * time.Minute) // a failed Down is retried
		if !slices.Contains(r.machine.Running(), "next/web") {
			t.Errorf("next does not run: %s", r.client.work.allocs.get("next").ClientState().ClientDescription)
		}
		r.stop()
		r.start(false)
		r.pass(time.Minute)
		if !slices.Contains(r.machine.Running(), "next/web") {
			t.Error("next does not run after another restart")
		}
	})
}

// An agent that has lost its records knows its allocations when the servers have sent all of them. Until then
// a successor cannot know that what it displaces is gone.
func TestPredecessors_AreAwaitedWithoutRecords(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.prepare(false)
		r.watchPredecessors(nil)
		r.run()
		defer func() { r.stop() }()
		victim := testAlloc("victim")
		victim.NodeID = r.client.NodeID()
		r.servers.place(victim)
		r.pass(time.Second)

		r.stop()
		if err := os.Remove(filepath.Join(r.dir, "client", "client.db")); err != nil {
			t.Fatal(err)
		}
		next := testAlloc("a-next")
		next.PreemptedAllocations = []string{"victim"}
		all := []*structs.Allocation{next}
		for i := range fetchBatch - 1 {
			all = append(all, testAlloc(fmt.Sprintf("b%02d", i)))
		}
		r.servers.stopAlloc("victim")
		r.servers.place(all...)
		fetches := 0
		r.servers.do(func() {
			r.servers.fail = func(_, method string) error {
				if method == structs.AllocsGet.Name {
					fetches++
				}
				if fetches == 2 { // the victim would be in this one
					return structs.NotServedf("no leader")
				}
				return nil
			}
		})
		r.start(false)
		r.pass(time.Minute)
		log := r.machine.Log()
		ended := slices.Index(log, "stop victim/web")
		started := slices.Index(log, "start a-next/web")
		if fetches < 3 || ended < 0 || started < 0 || started < ended {
			t.Errorf("%d fetches; next started at %d, its victim ended at %d of %q", fetches, started, ended, log)
		}
	})
}
