package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// fault is one that the seed has chosen.
type fault struct {
	number int // the virtual sequence number
	pause  time.Duration
	kind   *faultKind
	target int // among the members of the kind
	choice int // for what else the kind has to choose
	length time.Duration
}

// faultKind is a kind of fault. begin makes it and returns its end. It has a token of the member's.
type faultKind struct {
	name    string
	servers bool
	weight  int
	begin   func(ctx context.Context, w *world, m *member, f *fault) (end func() error, err error)
}

// faultKinds has all kinds of faults: see docs/reliability.md.
var faultKinds = []*faultKind{
	{name: "kill-agent", weight: 9, begin: killAgent},
	{name: "freeze-agent", weight: 9, begin: freezeAgent},
	{name: "kill-plugin", weight: 3, begin: signalOne(isPlugin, unix.SIGKILL, 0)},
	{name: "freeze-plugin", weight: 3, begin: signalOne(isPlugin, unix.SIGSTOP, unix.SIGCONT)},
	{name: "kill-supervisor", weight: 6, begin: signalOne(isSupervisor, unix.SIGKILL, 0)},
	{name: "freeze-supervisor", weight: 3, begin: signalOne(isSupervisor, unix.SIGSTOP, unix.SIGCONT)},
	{name: "kill-guard", weight: 3, begin: killGuard},
	{name: "freeze-guard", weight: 3, begin: signalOne(isGuard, unix.SIGSTOP, unix.SIGCONT)},
	{name: "cut-node", weight: 9, begin: cut(true, true)},
	{name: "cut-node-sends", weight: 3, begin: cut(true, false)},
	{name: "cut-node-hears", weight: 3, begin: cut(false, true)},
	{name: "cut-pair", weight: 5, begin: cutPair},
	{name: "power-off", weight: 9, begin: powerOff},
	{name: "full-disk", weight: 3, begin: fillDisk},
	{name: "copy-node", weight: 3, begin: copyMember},
	{name: "device-fails", weight: 3, begin: setDevice(deviceFails)},
	{name: "device-hangs", weight: 3, begin: setDevice(deviceHangs)},
	{name: "kill-server", servers: true, weight: 2, begin: killAgent},
	{name: "kill-leader", servers: true, weight: 2, begin: killAgent},
	{name: "freeze-leader", servers: true, weight: 2, begin: freezeAgent},
	{name: "cut-leader", servers: true, weight: 2, begin: cut(true, true)},
	{name: "cut-leader-sends", servers: true, weight: 1, begin: cut(true, false)},
	{name: "cut-leader-hears", servers: true, weight: 1, begin: cut(false, true)},
	{name: "power-off-server", servers: true, weight: 1, begin: powerOff},
	{name: "full-disk-leader", servers: true, weight: 1, begin: fillDisk},
	{name: "copy-server", servers: true, weight: 1, begin: copyMember},
	{name: "damage-server", servers: true, weight: 1, begin: damage},
}

// steps are the kinds of faults of a program whose wall clock can be stepped.
var steps = []*faultKind{
	{name: "step-clock", weight: 6, begin: stepClock},
	{name: "step-leader-clock", servers: true, weight: 3, begin: stepClock},
}

// errBusy rejects a fault of a member that has another one.
var errBusy = errors.New("another fault lasts")

// drawFault chooses the next fault. It always draws the same number of values.
func (w *world) drawFault(r *rand.Rand, number int, kinds []*faultKind) *fault {
	f := &fault{
		number: number,
		pause:  time.Duration(500+r.IntN(4000)) * time.Millisecond,
		target: r.IntN(12), // a multiple of the servers and of the nodes
		choice: r.IntN(1 << 20),
		length: time.Duration(1000+r.IntN(4000)) * time.Millisecond,
	}
	if r.IntN(3) > 0 {
		f.length = f.length*2 + 15*time.Second // longer than leases with their grace
	}
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	at := r.IntN(sum)
	for _, k := range kinds {
		if at < k.weight {
			f.kind = k
			break
		}
		at -= k.weight
	}
	return f
}

// disturb makes faults until the context ends, and waits for their ends.
func (w *world) disturb(ctx context.Context) {
	kinds := faultKinds
	if w.stepped {
		kinds = append(slices.Clone(kinds), steps...)
	}
	if w.only != "" {
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(k *faultKind) bool {
			return !slices.Contains(strings.Split(w.only, ","), k.name)
		})
	}
	r := w.draws(1)
	var lasting sync.WaitGroup
	defer lasting.Wait()
	for number := 1; ; number++ {
		f := w.drawFault(r, number, kinds)
		if !sleep(ctx, f.pause) {
			return
		}
		m := w.target(f)
		w.note("#%d fault: %s %s for %s", f.number, f.kind.name, m.name, f.length)
		release, ok := w.take(m)
		if !ok {
			w.note("#%d: %v", f.number, errBusy)
			continue
		}
		lasting.Go(func() {
			defer release()
			w.last(ctx, m, f)
		})
	}
}

// losesQuorum is the number of faults of servers of which one may happen while a server that is back has
// no vote yet.
const losesQuorum = 5

// last makes a fault and ends it.
func (w *world) last(ctx context.Context, m *member, f *fault) {
	w.faults.Add(1)
	defer w.faults.Add(-1)
	if f.kind.servers && f.choice%losesQuorum > 0 && w.voters() != nil {
		w.note("#%d: not all servers vote", f.number)
		return
	}
	end, err := f.kind.begin(ctx, w, m, f)
	if err != nil {
		w.note("#%d: %v", f.number, err)
		return
	}
	sleep(ctx, f.length)
	if err := end(); err != nil {
		w.violate(harness, "#%d does not end: %v", f.number, err)
	}
	w.note("#%d ends: %s %s", f.number, f.kind.name, m.name)
}

// target returns the member of a fault. Which server leads is known only now.
func (w *world) target(f *fault) *member {
	if !f.kind.servers {
		return w.nodes[f.target%len(w.nodes)]
	}
	if strings.Contains(f.kind.name, "leader") {
		if leader := w.leader(); leader != nil {
			return leader
		}
	}
	return w.servers[f.target%len(w.servers)]
}

// take reserves a member for a fault. One server at a time has one, because two of three have to agree, and
// two of the nodes: the others take over what is lost.
func (w *world) take(m *member) (release func(), ok bool) {
	tokens := []chan struct{}{m.busy, w.disturbedNodes}
	if m.server {
		tokens[1] = w.disturbedServers
	}
	for i, t := range tokens {
		select {
		case t <- struct{}{}:
		default:
			for _, taken := range tokens[:i] {
				<-taken
			}
			return nil, false
		}
	}
	return func() {
		for _, t := range tokens {
			<-t
		}
	}, true
}

// sleep reports whether the time has passed before the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
