package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"berth/csi"
	"berth/structs"
)

// maxEndings bounds the records of a node. The oldest ones are forgotten first.
const maxEndings = 512

// settleTime bounds the wait for the calls that a process has lost. They end with its connection, unless a
// child of the process keeps that open.
const settleTime = 2 * time.Second

// exclusive is the weight of a call that runs alone.
const exclusive = 1 << 20

// unwatched are the calls that are not counted: see Suspects.
var unwatched = map[string]bool{
	"Probe":                          true,
	"GetPluginInfo":                  true,
	"GetPluginCapabilities":          true,
	"ControllerGetCapabilities":      true,
	"GroupControllerGetCapabilities": true,
	"NodeGetCapabilities":            true,
	"NodeGetInfo":                    true,
}

// Suspects finds the calls that end the process of a CSI plugin, and stops them: a driver that ends at one
// call would otherwise end with each repeat, until its allocation fails and nobody is served any more.
//
// Its rules:
//
//   - A call is lost if its connection ended before the plugin answered. If the process then ends by itself,
//     each call that it lost becomes a suspect: one of them may be the cause.
//   - The next call of a suspect runs alone at its process. Other calls wait for its end. If the process ends
//     by itself again, the cause is known, and the call is not made any more. Any other end of the call
//     clears it.
//   - The end of a process that berth stops, for a restart, an update or a silent plugin, proves nothing.
//   - A stopped call is made again if the plugin or its job has another version, if an operator allows it,
//     and after a restart of the agent: the records are only in memory. Each node has its own.
//
// The calls that the agent makes to each new process before any other, such as Probe, are not counted, and
// wait for none: a plugin that ends at them never becomes healthy, and gets no others.
//
// Make one with NewSuspects. It is safe for concurrent use.
type Suspects struct {
	mu        sync.Mutex
	records   map[callName]*ending
	processes map[string]*process // by their socket
}

// NewSuspects returns Suspects without suspects.
func NewSuspects() *Suspects {
	return &Suspects{
		records:   map[callName]*ending{},
		processes: map[string]*process{},
	}
}

// callName names a call. Its repeats have the same name.
type callName struct {
	plugin string
	half   structs.CSIKind
	rpc    string
	volume string // see csi.Options.Guard
}

// ending is a call that a process has lost at its end.
type ending struct {
	version PluginVersion
	first   int64 // UnixNano of the end that made it a suspect
	last    int64 // of the end at which it ran alone; 0 for a suspect
}

// PluginVersion tells whether a call has another outcome than before.
type PluginVersion struct {
	Provider, Driver string
	Job              uint64 // index of the last change of the job that runs the plugin
}

// PluginHalf is one half of a plugin as a task runs it.
type PluginHalf struct {
	ID      string
	Half    structs.CSIKind
	Socket  string // both halves of one process have the same
	Version PluginVersion
}

// process has the calls at the process behind a socket, and at the next one that the task starts.
type process struct {
	users int // of Open
	turns *semaphore.Weighted

	losses uint64 // a number for each loss
	lost   map[callName]loss
}

// loss is a call without an answer of the present process.
type loss struct {
	number  uint64
	version PluginVersion
	alone   bool
}

// SuspectGuard guards the calls of one half of a plugin. Close it after its last call.
type SuspectGuard struct {
	calls   *Suspects
	plugin  PluginHalf
	process *process
}

// Open returns the guard of the calls of a half.
func (c *Suspects) Open(p PluginHalf) *SuspectGuard {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.processes[p.Socket]
	if at == nil {
		at = &process{turns: semaphore.NewWeighted(exclusive), lost: map[callName]loss{}}
		c.processes[p.Socket] = at
	}
	at.users++
	return &SuspectGuard{calls: c, plugin: p, process: at}
}

// Close drops what only open halves need.
func (h *SuspectGuard) Close() {
	h.calls.mu.Lock()
	defer h.calls.mu.Unlock()
	h.process.users--
	if h.process.users == 0 {
		delete(h.calls.processes, h.plugin.Socket)
	}
}

// Do makes a call, unless it has ended the plugin twice. It is a csi.Options.Guard. A suspect waits until it
// is alone.
func (h *SuspectGuard) Do(ctx context.Context, rpc, volume string, call func() error) error {
	if unwatched[rpc] {
		return call()
	}

	n := callName{plugin: h.plugin.ID, half: h.plugin.Half, rpc: rpc, volume: volume}
	alone, release, err := h.awaitTurn(ctx, n)
	if err != nil {
		return err
	}
	defer release()
	began := h.lossesSoFar()
	err = call()
	h.settle(n, alone, began, err)
	return err
}

// awaitTurn waits until the call may be made. The calls are served in their order, so a suspect waits for
// those before it alone. It may become one during the wait, or may be none any more.
func (h *SuspectGuard) awaitTurn(ctx context.Context, n callName) (alone bool, release func(), err error) {
	alone, err = h.check(n)
	for err == nil {
		weight := int64(1)
		if alone {
			weight = exclusive
		}
		err = h.process.turns.Acquire(ctx, weight)
		if err != nil {
			return false, nil, structs.Unavailablef(
				"plugin %q: %s is not called yet, because a call that may have ended the plugin runs alone: %w",
				n.plugin, n.rpc, err)
		}

		release = func() { h.process.turns.Release(weight) }
		var now bool
		now, err = h.check(n)
		if err == nil && now == alone {
			return alone, release, nil
		}
		release()
		alone = now
	}
	return false, nil, err
}

// check reports whether a call is a suspect. The error says that it has ended the plugin twice.
func (h *SuspectGuard) check(n callName) (suspect bool, err error) {
	h.calls.mu.Lock()
	defer h.calls.mu.Unlock()
	r := h.calls.records[n]
	switch {
	case r == nil:
		return false, nil
	case r.version != h.plugin.Version:
		delete(h.calls.records, n)
		return false, nil
	case r.last == 0:
		return true, nil
	}

	of, remedy := "", ""
	if n.volume != "" {
		of = " for the volume"
		remedy = ", or an operator allows it: berth volume retry"
	}
	return false, &structs.Error{
		Kind: structs.KindPrecondition,
		Code: structs.CSICodeEndsPlugin,
		Text: fmt.Sprintf("plugin %q: %s is not called%s: this call ended the plugin twice, at %s and at %s; "+
			"it is called again when the plugin or its job has another version%s",
			n.plugin, n.rpc, of, clock(r.first), clock(r.last), remedy),
	}
}

func clock(nanos int64) string { return time.Unix(0, nanos).UTC().Format(time.RFC3339) }

func (h *SuspectGuard) lossesSoFar() uint64 {
	h.calls.mu.Lock()
	defer h.calls.mu.Unlock()
	return h.process.losses
}

// settle records the end of a call. began is the number of losses at its begin.
func (h *SuspectGuard) settle(n callName, alone bool, began uint64, err error) {
	c := h.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	p := h.process
	switch {
	case csi.Unsent(err): // it says nothing
	case csi.Lost(err):
		p.losses++
		p.lost[n] = loss{number: p.losses, version: h.plugin.Version, alone: alone}
	default:
		if r := c.records[n]; alone && r != nil && r.last == 0 {
			delete(c.records, n)
		}
		// The process has answered since, so it has outlived these losses.
		for other, l := range p.lost {
			if l.number <= began && err == nil {
				delete(p.lost, other)
			}
		}
	}
}

// Ended records the end of the process behind a socket. byItself: neither berth nor an operator has stopped
// it. It waits for the calls that the process has lost.
func (c *Suspects) Ended(ctx context.Context, socket string, byItself bool) {
	c.mu.Lock()
	p := c.processes[socket]
	c.mu.Unlock()
	if p == nil {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	// A repeat that waits behind it finds out that it is a suspect.
	if p.turns.Acquire(ctx, exclusive) == nil {
		defer p.turns.Release(exclusive)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().UnixNano()
	for n, l := range p.lost {
		if byItself {
			c.accuse(n, l, now)
		}
	}
	clear(p.lost)
}

// accuse makes a lost call a suspect, and one that was alone and a suspect before the cause.
func (c *Suspects) accuse(n callName, l loss, now int64) {
	r := c.records[n]
	if r == nil || r.version != l.version {
		c.makeSpace()
		c.records[n] = &ending{version: l.version, first: now}
		return
	}
	if l.alone {
		r.last = now
	}
}

// makeSpace forgets the oldest record if there are too many.
func (c *Suspects) makeSpace() {
	if len(c.records) < maxEndings {
		return
	}
	var oldest callName
	for n, r := range c.records {
		if o := c.records[oldest]; o == nil || r.first < o.first {
			oldest = n
		}
	}
	delete(c.records, oldest)
}

// Stopped returns the calls of the half that are not made any more, at most structs.MaxEndingCalls.
func (h *SuspectGuard) Stopped() []*structs.CSIEndingCall {
	c := h.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*structs.CSIEndingCall
	for n, r := range c.records {
		here := n.plugin == h.plugin.ID && n.half == h.plugin.Half && r.version == h.plugin.Version
		if here && r.last != 0 {
			out = append(out, &structs.CSIEndingCall{RPC: n.rpc, Volume: n.volume, Time: r.last})
		}
	}
	slices.SortFunc(out, func(a, b *structs.CSIEndingCall) int {
		return cmp.Or(cmp.Compare(a.RPC, b.RPC), cmp.Compare(a.Volume, b.Volume))
	})
	return out[:min(len(out), structs.MaxEndingCalls)]
}

// Allow forgets the records of a volume of a plugin, by any of its names.
func (c *Suspects) Allow(pluginID string, volumes []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range c.records {
		if n.plugin == pluginID && n.volume != "" && slices.Contains(volumes, n.volume) {
			delete(c.records, n)
		}
	}
}
