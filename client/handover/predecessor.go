package handover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/hooks"
	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
)

const (
	queryTime         = 5 * time.Minute // of one blocking query for the end of an allocation
	namedPredecessors = 3               // allocations that the reason of a wait names
)

// retryPause is the pause between two tries to reach the servers.
var retryPause = backoff.Backoff{Min: time.Second, Max: 30 * time.Second}

// PredecessorConfig has the parts of the node that the hook uses.
type PredecessorConfig struct {
	NodeID  string
	Region  string
	Servers rpc.Caller
	// ServersBack, if not nil, is announced when the servers can be reached again after a cut.
	ServersBack *backoff.Recovery
	Logger      hclog.Logger
	// Complete is closed when Local knows all allocations of this node, also an earlier agent's whose records
	// are lost.
	Complete <-chan struct{}
	// Local finds an allocation on this node. The channel is closed when its tasks are dead, and everything
	// of it is released.
	Local func(allocID string) (unwound <-chan struct{}, here bool)
	// Progress receives the reason for which an allocation waits, "" once it no longer waits.
	Progress func(allocID, reason string)
	// Report adds an event to the tasks of an allocation.
	Report func(allocID, message string)
}

// predecessors is the hook of one allocation.
type predecessors struct {
	PredecessorConfig
	ids []string

	mu       sync.Mutex
	waits    map[string]string // by allocation: where it is, or why this is not known
	reported bool
}

// Predecessors makes an allocation wait, before it is set up, until the allocations that it replaces or
// displaces have let go of everything: processes, mounts, claims and devices.
//
// Predecessors makes the hook of an allocation. It is nil for one that waits for no other.
func Predecessors(env *hooks.AllocEnv, c PredecessorConfig) hooks.Alloc {
	ids := slices.Collect(env.Alloc.Awaits())
	if len(ids) == 0 {
		return nil
	}
	return &predecessors{PredecessorConfig: c, ids: ids}
}

func (w *predecessors) Name() string { return "predecessors" }

// Up returns when all have ended, or with an error when ctx ends. The tasks of an allocation that runs since
// before the agent restarted do not wait again.
func (w *predecessors) Up(ctx context.Context, env *hooks.AllocEnv) error {
	if env.Running != nil && env.Running() {
		return nil
	}

	select {
	case <-w.Complete:
	case <-ctx.Done():
		return ctx.Err()
	}

	// Up may be called again after an error.
	w.waits = map[string]string{}
	errs := make([]error, len(w.ids))
	var all sync.WaitGroup
	for i, id := range w.ids {
		unwound, here := w.Local(id)
		// A wait that is over at once shows nothing.
		if here && isClosed(unwound) {
			continue
		}

		all.Go(func() {
			if here {
				errs[i] = w.awaitLocal(ctx, env.Alloc, id, unwound)
			} else {
				errs[i] = w.awaitRemote(ctx, env.Alloc, id)
			}

			w.show(env.Alloc, id, "")
		})
	}

	all.Wait()
	w.Progress(env.Alloc.ID, "")
	// Then each of the errors is that end.
	if ctx.Err() != nil {
		return ctx.Err()
	}

	return errors.Join(errs...)
}

// Down has nothing to undo.
func (w *predecessors) Down(context.Context) error { return nil }

// awaitLocal waits for an allocation of this node.
func (w *predecessors) awaitLocal(
	ctx context.Context, a *structs.Allocation, id string, unwound <-chan struct{},
) error {
	w.show(a, id, "on this node")
	select {
	case <-unwound:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitRemote waits for an allocation that is not here: the servers know its end, and the volumes that its
// node has not released. One of this node is gone, and so is one that the servers have deleted.
func (w *predecessors) awaitRemote(ctx context.Context, a *structs.Allocation, id string) error {
	pause := retryPause
	index := uint64(0)
	for {
		back := w.ServersBack.Next()
		found, err := w.get(ctx, a, id, index)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case structs.IsKind(err, structs.KindNotFound):
			return nil
		case structs.IsKind(err, structs.KindInvalid), structs.IsKind(err, structs.KindDenied):
			return fmt.Errorf("waiting for the end of allocation %s: %w", id, err)
		case err != nil:
			w.Logger.Warn("failed to read an allocation that another one waits for, retrying",
				"alloc_id", a.ID, "awaited_alloc", id, "error", err)
			w.show(a, id, "the servers do not answer")
			// The next answer may come from a server with an older state.
			index = 0
			if !pause.SleepAfter(ctx, pause.After(err), err, back) {
				return ctx.Err()
			}

			continue

		case w.hasLetGo(found):
			return nil
		}

		pause.Reset()
		w.show(a, id, placeOf(found))
		if found.Index < index {
			found.Index = 0 // the servers went back to an older state
		}

		index = found.Index
	}
}

// hasLetGo reports whether an allocation that is not here has ended, and its node has released its volumes.
// Nothing waits for one that is unknown, because its replacement runs meanwhile. Its claims keep its volumes.
func (w *predecessors) hasLetGo(found *structs.AllocGetResponse) bool {
	a := found.Alloc
	return a == nil || a.NodeID == w.NodeID || a.IsUnknown() ||
		a.ClientTerminal() && len(found.HeldVolumes) == 0
}

// placeOf describes where an allocation is, and what is left of one that has ended.
func placeOf(found *structs.AllocGetResponse) string {
	place := "on node " + nodeName(found.Alloc)
	if len(found.HeldVolumes) > 0 {
		place += ", which has volume " + found.HeldVolumes[0] + " still"
	}
	return place
}

func nodeName(a *structs.Allocation) string {
	if a.NodeName != "" {
		return a.NodeName
	}
	return structs.ShortID(a.NodeID)
}

// get reads an allocation when it has changed since an index.
func (w *predecessors) get(
	ctx context.Context, a *structs.Allocation, id string, index uint64,
) (*structs.AllocGetResponse, error) {
	req := &structs.AllocGetRequest{AllocID: id, NodeID: w.NodeID}
	req.Region = w.Region
	req.Namespace = a.Namespace
	req.MinIndex = index
	req.MaxWait = queryTime
	return rpc.Call(ctx, w.Servers, structs.AllocGet, req)
}

// show notes that the allocation waits for another one, or with "" that it does not any more, and publishes
// the reason. The first time it also adds an event.
func (w *predecessors) show(a *structs.Allocation, id, where string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waits[id] == where {
		return
	}
	if where == "" {
		delete(w.waits, id)
	} else {
		w.waits[id] = where
	}

	reason := w.reason()
	// Under the lock no older reason follows a newer one.
	w.Progress(a.ID, reason)
	if reason != "" && !w.reported {
		w.reported = true
		w.Report(a.ID, "The allocation "+reason)
	}
}

// reason names the allocations that it waits for, in their order.
func (w *predecessors) reason() string {
	var names []string
	for _, id := range w.ids {
		if where := w.waits[id]; where != "" && len(names) < namedPredecessors {
			names = append(names, fmt.Sprintf("%s (%s)", id, where))
		}
	}
	switch more := len(w.waits) - len(names); {
	case len(names) == 0:
		return ""
	case more > 0:
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return "waits for the end of allocation " + strings.Join(names, ", ")
}
