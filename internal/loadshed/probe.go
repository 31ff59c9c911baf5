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

// probe sends bytes through a pipe. The runtime's poller makes its reader runnable like the readers of
// sockets, after all that were ready before. It runs after all goroutines that could run before.
type probe struct {
	in, out *os.File

	mu   sync.Mutex
	sent time.Time     // when the byte that is on its way was sent, zero if there is none
	took time.Duration // the least since the last call of least, 0 if there is none
}

func newProbe() (*probe, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("a pipe to time: %w", err)
	}
	return &probe{in: in, out: out}, nil
}

// close makes readBytes return.
func (p *probe) close() {
	_ = p.in.Close()
}

// readBytes reads until the pipe is closed.
func (p *probe) readBytes() {
	defer p.out.Close()
	var b [1]byte
	for {
		_, err := p.out.Read(b[:])
		if err != nil {
			return
		}
		p.arrived()
	}
}

// arrived records the time that the byte on its way took.
func (p *probe) arrived() {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(p.sent)
	if p.took == 0 || took < p.took {
		p.took = took
	}
	p.sent = time.Time{}
}

func (p *probe) send() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sent.IsZero() {
		p.sent = time.Now()
		_, _ = p.in.Write([]byte{1}) // The pipe is never full. An error after close has no reader.
	}
}

func (p *probe) least() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := p.took
	if took == 0 && !p.sent.IsZero() {
		took = time.Since(p.sent)
	}
	p.took = 0
	return took
}
