package registry

import (
	"maps"
	"sync"

	"berth/csi"
	"berth/structs/nodecalls"
)

// Parks reports whether an answer of a plugin parks the call: see nodecalls.ParksRelease.
func Parks(err error) bool { return nodecalls.ParksRelease(csi.Code(err)) }

// ParkedCall names a call that takes a volume back.
type ParkedCall struct {
	Volume string // of the cluster, with its namespace
	RPC    string
	Path   string // of the volume, on the host
}

// Answerer identifies the process of a plugin that answers, as well as the node can. Each instance has its
// own client, and another process behind the same socket has another connection.
type Answerer struct {
	Client            *csi.Client
	Connections       uint64
	Provider, Version string
}

// Parked remembers the calls that take a volume back and that a process of a plugin has rejected for good:
// that process is not called again before an operator requests it. The answers are only in memory, so a
// restarted agent makes each call once. The zero value holds none. It is safe for concurrent use.
type Parked struct {
	mu      sync.Mutex
	answers map[ParkedCall]rejection
}

// rejection is the answer of a process that is not called again.
type rejection struct {
	by  Answerer
	err error
}

// Rejected returns the answer by which the process rejected the call, or nil if the call is allowed.
func (p *Parked) Rejected(c ParkedCall, by Answerer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.answers[c]
	if ok && r.by == by {
		return r.err
	}
	return nil
}

// RecordAnswer stores an answer that parks the call. Any other answer removes the stored one.
func (p *Parked) RecordAnswer(c ParkedCall, by Answerer, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !Parks(err) {
		delete(p.answers, c)
		return
	}
	if p.answers == nil {
		p.answers = map[ParkedCall]rejection{}
	}
	p.answers[c] = rejection{by, err}
}

// Unpark allows the calls for a volume again.
func (p *Parked) Unpark(volume string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.answers, func(c ParkedCall, _ rejection) bool { return c.Volume == volume })
}

// Len returns the number of calls that are parked.
func (p *Parked) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.answers)
}
