package simulate

import (
	"bytes"
	"container/heap"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// world is a cluster with its machines. All its events run on one goroutine.
type world struct {
	*rand.Rand
	log    io.Writer
	began  time.Time
	now    time.Duration // since began
	events events
	seq    int

	store   *state.Store
	fsm     *fsm.FSM
	entries []*raft.Log
	kicked  bool // the leader is about to look at the newest entries

	servers    []*serverClocks
	quarantine time.Duration // of the clocks
	stepped    time.Duration // when the cluster time followed the clocks in one step
	term       uint64
	leader     *leader          // nil: nobody leads
	leads      int              // the server that leads, or led last
	silent     [3]time.Duration // until when each server is silent
	nodes      []*node
	device     *device
	volumes    []*volume
	jobs       []string
	quiet      bool // no fault happens any more
	copies     int  // that were made of the disks of nodes
	drawn      int  // nonces
	seen       seen
	script     *script                     // nil: faults happen at any time
	rule       *structs.DisconnectStrategy // of all jobs

	violations int
	texts      []string // the first of them
}

// mostTexts bounds the violations that are printed.
const mostTexts = 20

// event is something that happens at a time. Events of one time happen in the order in which they were made.
type event struct {
	at  time.Duration
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }

func (e events) Less(i, j int) bool {
	if e[i].at != e[j].at {
		return e[i].at < e[j].at
	}
	return e[i].seq < e[j].seq
}

func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }

func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

// after makes an event.
func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.events, event{
		at:  w.now + d,
		seq: w.seq,
		do:  do,
	})
}

// pass lets a time pass, with all events in it, or less if ctx ends. An event may call it.
func (w *world) pass(ctx context.Context, d time.Duration) {
	until := w.now + d
	for ctx.Err() == nil && len(w.events) > 0 && w.events[0].at <= until {
		next := heap.Pop(&w.events).(event)
		w.advance(next.at)
		w.noteReach()
		next.do()
		w.noteReach()
	}
	if ctx.Err() == nil {
		w.advance(until)
	}
}

// noteReach notes which nodes do not reach the leader.
func (w *world) noteReach() {
	for _, n := range w.nodes {
		if !n.reaches() {
			n.unreached = max(n.unreached, w.now)
		}
	}
}

// advance sets the time. The clock of the bubble follows: the servers read it.
func (w *world) advance(to time.Duration) {
	w.now = max(w.now, to)
	ahead := w.now - time.Since(w.began)
	if ahead > 0 {
		time.Sleep(ahead)
	}
}

// chance reports true in one of n cases.
func (w *world) chance(n int) bool { return w.IntN(n) == 0 }

// upTo returns a random time.
func (w *world) upTo(most time.Duration) time.Duration { return time.Duration(w.Int64N(int64(most))) }

// oneOf returns a random element.
func oneOf[T any](w *world, all ...T) T { return all[w.IntN(len(all))] }

// note adds a line to the log.
func (w *world) note(format string, args ...any) {
	if w.log == io.Discard {
		return
	}
	fmt.Fprintf(w.log, "%.6f ", w.now.Seconds())
	fmt.Fprintf(w.log, format, args...)
	fmt.Fprintln(w.log)
}

// violate records that a property does not hold.
func (w *world) violate(p property, format string, args ...any) {
	text := fmt.Sprintf("%s: %s", p, fmt.Sprintf(format, args...))
	w.note("VIOLATION of %s", text)
	w.violations++
	if len(w.texts) < mostTexts {
		w.texts = append(w.texts, fmt.Sprintf("%s at %s", text, w.now))
	}
}

// stamp returns the time of a request.
func (w *world) stamp() structs.WriteOptions {
	return structs.WriteOptions{
		Region:    structs.DefaultRegion,
		Namespace: structs.DefaultNamespace,
		Now:       w.clusterTime().Now().UnixNano(),
	}
}

// apply appends an entry to the log of the servers, and checks all that follows from it.
func (w *world) apply(entry []byte) (index uint64, answer any) {
	entry = bytes.Clone(entry)
	l := &raft.Log{
		Index: uint64(101 + len(w.entries)),
		Type:  raft.LogCommand,
		Data:  entry,
	}
	w.entries = append(w.entries, l)
	command := fsm.CommandOf(entry).Name
	answer = w.fsm.Apply(l)
	w.note("entry %d: %s %x: %v", l.Index, command, sha256.Sum256(entry), answer)
	w.checkEntry(command)
	w.kick()
	return l.Index, answer
}

// kick lets the leader and the nodes see the newest entries.
func (w *world) kick() {
	if w.kicked {
		return
	}
	w.kicked = true
	w.after(20*time.Millisecond, func() {
		w.kicked = false
		for _, n := range w.nodes {
			n.answerPoll()
		}
		if w.leader != nil {
			w.leader.work()
		}
	})
}

// propose is the entry of a request that has reached the leader. A lost leader answers nothing.
func propose[P any](w *world, c fsm.Command[P], payload *P) error {
	if w.leader == nil {
		return structs.Unavailablef("nobody leads")
	}
	_, err := fsm.Propose(context.Background(), w.leader, c, payload)
	return err
}
