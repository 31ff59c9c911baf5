package client

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocwatcher"
	"berth/client/hook"
	"berth/structs"
)

// mount is a hook whose Down ends when the test lets it.
type mount struct{ gone chan struct{} }

func (mount) Name() string                             { return "mount" }
func (mount) Up(context.Context, *hook.AllocEnv) error { return nil }
func (m mount) Down(ctx context.Context) error {
	select {
	case <-m.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The successor starts when its victims have let go of everything, also if the agent restarts meanwhile.
func TestPredecessors_AreAwaitedAcrossRestarts(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.prepare(false)
		held := mount{make(chan struct{})}
		r.parts.hooks = func(env *hook.AllocEnv) []hook.Alloc {
			h := allocwatcher.New(env, allocwatcher.Config{
				NodeID:   r.client.NodeID(),
				Logger:   hclog.NewNullLogger(),
				Servers:  r.client.servers,
				Restored: r.client.restored,
				Local: func(id string) (<-chan struct{}, bool) {
					local, here := r.client.localAlloc(id)
					return local.Unwound, here
				},
				Progress: r.client.setProgress,
				Report:   r.client.report,
			})
			switch {
			case env.Alloc.ID == "stubborn":
				return []hook.Alloc{held}
			case h != nil:
				return []hook.Alloc{h}
			}
			return nil
		}
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
			u := r.client.runner("next").ClientState()
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
		events := r.client.runner("next").ClientState().TaskStates["web"].Events
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
			t.Errorf("next does not run: %s", r.client.runner("next").ClientState().ClientDescription)
		}
		r.stop()
		r.start(false)
		r.pass(time.Minute)
		if !slices.Contains(r.machine.Running(), "next/web") {
			t.Error("next does not run after another restart")
		}
	})
}
