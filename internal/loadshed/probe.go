package loadshed

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// prober times bytes.
type prober interface {
	// send sends a byte, unless one is on its way.
	send()
	// least returns the least time that a byte took since the last call, or has taken so far.
	least() time.Duration
}

// probe sends bytes through a pipe. Its reader is woken like the readers of sockets: by the runtime's poller,
// after all that were ready before, and it runs after all that could run before.
type probe struct {
	in, out *os.File

	mu    sync.Mutex
	sent  time.Time     // when the byte that is on its way was sent, zero if there is none
	took  time.Duration // the least since the last call of least
	timed bool          // took is set
}

func newProbe() (*probe, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("a pipe to time: %w", err)
	}
	return &probe{in: in, out: out}, nil
}

// close has read end.
func (p *probe) close() { _ = p.in.Close() }

// read takes bytes until the pipe is closed.
func (p *probe) read() {
	defer func() { _ = p.out.Close() }()
	var b [1]byte
	for {
		if _, err := p.out.Read(b[:]); err != nil {
			return
		}
		p.arrived()
	}
}

// arrived notes the time that the byte on its way took.
func (p *probe) arrived() {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(p.sent)
	if !p.timed || took < p.took {
		p.took = took
		p.timed = true
	}
	p.sent = time.Time{}
}

func (p *probe) send() {
	p.mu.Lock()
	onItsWay := !p.sent.IsZero()
	if !onItsWay {
		p.sent = time.Now()
	}
	p.mu.Unlock()
	if !onItsWay {
		_, _ = p.in.Write([]byte{1}) // the pipe never fills; after close no reader is left
	}
}

func (p *probe) least() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := p.took
	if !p.timed && !p.sent.IsZero() {
		took = time.Since(p.sent)
	}
	p.took = 0
	p.timed = false
	return took
}
