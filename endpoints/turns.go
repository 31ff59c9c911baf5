package endpoints

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/structs"
)

// turns let one at a time have something that has a name. A few more wait in line for each name, not for
// long; whoever comes beyond that is refused at once with when to come again, and nothing was done. Those
// who want different names know nothing of each other.
type turns struct {
	queue    int           // how many may wait for one name
	patience time.Duration // and for how long, for all the names that one wants

	mu   sync.Mutex
	held map[string]*turn
}

type turn struct {
	slot  chan struct{} // holds an element while it is somebody's
	users int           // whose it is and who waits; it is forgotten with the last
}

// take waits for the turn of every name, in an order that is the same for all, so that nobody waits for
// each other. Who gets it says done.
func (t *turns) take(ctx context.Context, names ...string) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	names = slices.Sorted(slices.Values(names))
	var mine []func()
	done = func() {
		for _, free := range slices.Backward(mine) {
			free()
		}
	}
	for _, name := range slices.Compact(names) {
		free, err := t.takeOne(ctx, name)
		if err != nil {
			done()
			return nil, err
		}
		mine = append(mine, free)
	}
	return done, nil
}

func (t *turns) takeOne(ctx context.Context, name string) (free func(), err error) {
	k := t.enter(name)
	if k == nil {
		return nil, t.refuse("full", name)
	}
	free = func() { <-k.slot; t.leave(name, k) }
	select {
	case k.slot <- struct{}{}:
		return free, nil
	default:
	}
	select {
	case k.slot <- struct{}{}:
		return free, nil
	case <-ctx.Done():
		t.leave(name, k)
		return nil, t.refuse("patience", name)
	}
}

// enter joins the line of a name; nil when there is no place in it.
func (t *turns) enter(name string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.held[name]
	if k == nil {
		k = &turn{slot: make(chan struct{}, 1)}
		if t.held == nil {
			t.held = map[string]*turn{}
		}
		t.held[name] = k
	}
	if k.users > t.queue {
		return nil
	}
	k.users++
	return k
}

func (t *turns) leave(name string, k *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(t.held, name)
	}
}

func (t *turns) refuse(why, name string) error {
	metrics.IncrCounterWithLabels([]string{"rpc", "refused"}, 1, []metrics.Label{{Name: "limit", Value: "turn " + why}})
	return structs.Busy(t.patience, "nothing was written: others are changing %q and more wait for it", name)
}
