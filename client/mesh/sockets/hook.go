package sockets

import (
	"context"
	"slices"

	"berth/client/hooks"
	"berth/structs"
)

// sockets is the hook of one allocation.
type sockets struct {
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
	return &sockets{s, env.Alloc.ID, env.Dir}
}

// Name implements hook.Alloc.
func (*sockets) Name() string { return "consul_socket" }

// Up opens the sockets.
func (h *sockets) Up(context.Context, *hooks.AllocEnv) error { return h.of.listen(h.allocID, h.dir) }

// Down closes them and removes their files.
func (h *sockets) Down(context.Context) error { return h.of.remove(h.allocID, h.dir) }
