package control

import (
	"context"
	"slices"
	"time"

	"berth/endpoints"
	"berth/state"
	"berth/structs"
)

// controllerLoop makes the calls to plugins' controllers that rows ask for: creating, deleting and expanding
// volumes, attaching and detaching them. All of them in one loop, because a volume has one call at a time.
type controllerLoop struct{ Deps }

func (c controllerLoop) run(ctx context.Context) {
	runner{
		name: "controllers", logger: c.Logger, store: c.Store, now: c.Now, retry: c.Config.Retry,
		parallel: c.Config.CallsPerPlugin, snapshot: c.Store.Watching, items: c.items,
	}.run(ctx)
}

// work is one call that rows ask for.
type work struct {
	name       string // of the step: operation, volume and node
	volume     string // namespace/volume
	plugin     string
	version    uint64
	lastError  *structs.OperationError
	candidates func(tx *state.Read) []string                        // nodes whose controller may serve it
	act        func(ctx context.Context, candidates []string) error // makes the call and records what came of it
	fail       func(ctx context.Context, err error) error           // records that there was nobody to call
}

// items lists what is to be done: what has not failed before what has, so that one bad volume holds up
// nobody.
func (c controllerLoop) items(tx *state.Read) []item {
	var fresh, failed []item
	add := func(w work) {
		it, ok := c.item(tx, w)
		switch {
		case !ok:
		case w.lastError == nil:
			fresh = append(fresh, it)
		default:
			failed = append(failed, it)
		}
	}
	for v := range state.UnsettledVolumes(tx) {
		add(c.volumeWork(v))
	}
	for a := range state.UnsettledAttachments(tx) {
		add(c.attachmentWork(a))
	}
	return slices.Concat(fresh, failed)
}

// item turns work into a step. Who may serve it is looked up when the call is made. While nobody can, that
// is recorded once; and the call is made as soon as somebody can, for the list is made anew when instances
// change.
func (c controllerLoop) item(tx *state.Read, w work) (item, bool) {
	it := item{key: w.name, version: w.version, serial: w.volume, group: w.plugin, due: c.Config.dueAfter(w.lastError)}
	nobody := noController(w.plugin)
	if w.lastError != nil && w.lastError.Message == nobody.Error() {
		if !state.HealthyInstance(tx, w.plugin, structs.CSIKindController) || len(w.candidates(tx)) == 0 {
			return item{}, false
		}
		it.due = time.Time{}
	}
	it.act = func(ctx context.Context) error {
		candidates := w.candidates(c.Store.Read())
		if len(candidates) == 0 {
			return w.fail(ctx, nobody)
		}
		return w.act(ctx, candidates)
	}
	return it, true
}

func noController(plugin string) error {
	return structs.Errorf(structs.KindUnavailable,
		"no controller of plugin %s is healthy on a node that is ready and reaches the volume: is its job running?", plugin)
}

// callController makes a typed call at one of the candidates.
func callController[Req, Resp any](ctx context.Context, c controllerLoop, candidates []string, m structs.Method[Req, Resp], req *Req) (*Resp, error) {
	return endpoints.CallController(ctx, c.Nodes, c.Config.CallTimeout, candidates, m, req)
}

// stamp is what every outcome of the loop carries.
func (d Deps) stamp(namespace string) structs.WriteOptions {
	return structs.WriteOptions{Namespace: namespace, Now: d.Now().UnixNano()}
}

// failure is what a row is to remember of a failed call; state counts the attempts.
func failure(err error, now time.Time) *structs.OperationError {
	return &structs.OperationError{Message: err.Error(), Kind: structs.KindOf(err), Attempts: 1, Time: now.UnixNano()}
}
