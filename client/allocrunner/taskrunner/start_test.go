package taskrunner

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner/lifecycle"
	"berth/client/hooks"
	"berth/structs"
)

// lateContext has ended, but has not notified its waiters yet.
type lateContext struct{ context.Context }

func (lateContext) Done() <-chan struct{} {
	return make(chan struct{})
}
func (lateContext) Err() error { return context.Canceled }

// notedHook notes the calls of its methods.
type notedHook struct {
	calls []string
	ctx   context.Context
}

func (*notedHook) Name() string                             { return "noted" }
func (*notedHook) Up(context.Context, *hooks.TaskEnv) error { return nil }
func (*notedHook) Down(context.Context) error               { return nil }

func (h *notedHook) Started(ctx context.Context, _ hooks.Control) {
	h.ctx = ctx
	h.calls = append(h.calls, "started")
}

func (h *notedHook) Stopped() {
	h.calls = append(h.calls, "stopped, and the agent stops: "+strconv.FormatBool(h.ctx.Err() != nil))
}

func TestHooks_KnowThatTheAgentStops(t *testing.T) {
	h := &notedHook{}
	s := &Shared{
		Logger: hclog.NewNullLogger(),
		Orders: lifecycle.NewOrders(),
		Hooks:  func(*hooks.AllocEnv, *structs.Task) []hooks.Task { return []hooks.Task{h} },
	}
	task := NewTask(s, lifecycle.NewRound(s.Orders), &structs.Task{Name: "web"})
	task.startHooks(lateContext{t.Context()}).stopped()
	want := []string{"started", "stopped, and the agent stops: true"}
	if !slices.Equal(h.calls, want) {
		t.Errorf("got %q, want %q", h.calls, want)
	}
}
