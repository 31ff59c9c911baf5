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
	// least is the least that one took since it was asked last, or has taken so far.
	least() time.Duration
}

// probe sends bytes through a pipe. Its reader is woken as those who read from sockets are: by the runtime's
// poller, after all that were ready before, and it runs after all that could run before.
type probe struct {
	in, out *os.File

	mu   sync.Mutex
	sent time.Time     // when the one that is on its way was sent, zero when there is none
	took time.Duration // the least since it was asked for
	any  bool          // there is one
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
		p.mu.Lock()
		if took := time.Since(p.sent); !p.any || took < p.took {
			p.took, p.any = took, true
		}
		p.sent = time.Time{}
		p.mu.Unlock()
	}
}

func (p *probe) send() {
	p.mu.Lock()
	onItsWay := !p.sent.IsZero()
	if !onItsWay {
		p.sent = time.Now()
	}
	p.mu.Unlock()
	if !onItsWay {
		_, _ = p.in.Write([]byte{1}) // one byte always has room; when the pipe is closed nobody asks any more
	}
}

func (p *probe) least() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := p.took
	if !p.any && !p.sent.IsZero() {
		took = time.Since(p.sent)
	}
	p.took, p.any = 0, false
	return took
}
