package connect

import (
	"context"
	"slices"

	"berth/client/hooks"
	"berth/structs"
)

// socketsHook is the hook of one allocation.
type socketsHook struct {
	of      *Sockets
	allocID string
	dir     string
}

// Hook makes the hook of an allocation. It is nil for an allocation without a network of its own, or without
// a task in the service mesh.
func (s *Sockets) Hook(env *hooks.AllocEnv) hooks.Alloc {
	network := env.Group.Network()
	uses := func(t *structs.Task) bool { return t.Kind.UsesConnect() }
	if network == nil || !network.Isolated() || !slices.ContainsFunc(env.Group.Tasks, uses) {
		return nil
	}
	return &socketsHook{s, env.Alloc.ID, env.Dir}
}

// Name implements hook.Alloc.
func (*socketsHook) Name() string { return "consul_socket" }

// Up opens the sockets.
func (h *socketsHook) Up(context.Context, *hooks.AllocEnv) error {
	return h.of.listen(h.allocID, h.dir)
}

// Down closes them and removes their files.
func (h *socketsHook) Down(context.Context) error { return h.of.remove(h.allocID, h.dir) }
