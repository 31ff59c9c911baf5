// Package parking remembers the calls that take a volume back and that a process of a plugin has rejected for
// good: that process is not called again before an operator requests it. The answers are only in memory, so a
// restarted agent makes each call once.
package parking

import (
	"maps"
	"sync"

	"berth/csi"
	"berth/structs/nodecalls"
)

// Parks reports whether an answer of a plugin parks the call: see nodecalls.ParksRelease.
func Parks(err error) bool { return nodecalls.ParksRelease(csi.Code(err)) }

// Call names a call that takes a volume back.
type Call struct {
	Volume string // of the cluster, with its namespace
	RPC    string
	Path   string // of the volume, on the host
}

// Process identifies the process of a plugin that answers, as well as the node can. Each instance has its own
// client, and another process behind the same socket has another connection.
type Process struct {
	Client            *csi.Client
	Connections       uint64
	Provider, Version string
}

// Calls holds the calls that are parked. The zero value holds none. It is safe for concurrent use.
type Calls struct {
	mu      sync.Mutex
	answers map[Call]rejection
}

// rejection is the answer of a process that is not called again.
type rejection struct {
	by  Process
	err error
}

// Rejected returns the answer by which the process rejected the call, or nil if the call is allowed.
func (p *Calls) Rejected(c Call, by Process) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.answers[c]
	if ok && r.by == by {
		return r.err
	}
	return nil
}

// RecordAnswer stores an answer that parks the call. Any other answer removes the stored one.
func (p *Calls) RecordAnswer(c Call, by Process, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !Parks(err) {
		delete(p.answers, c)
		return
	}
	if p.answers == nil {
		p.answers = map[Call]rejection{}
	}
	p.answers[c] = rejection{by, err}
}

// Unpark allows the calls for a volume again.
func (p *Calls) Unpark(volume string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.answers, func(c Call, _ rejection) bool { return c.Volume == volume })
}

// Len returns the number of calls that are parked.
func (p *Calls) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.answers)
}
