package cluster_test

import (
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// leadershipLog records the log messages of servers that gain and lose leadership.
type leadershipLog struct {
	mu       sync.Mutex
	messages map[string][]string // by server
}

func (b *leadershipLog) logger() hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Info, Output: io.Discard})
	l.RegisterSink(b)
	return l
}

// Accept is called for each line of the log (hclog.SinkAdapter).
func (b *leadershipLog) Accept(name string, _ hclog.Level, msg string, _ ...any) {
	if !strings.HasPrefix(msg, "leadership ") {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.messages == nil {
		b.messages = map[string][]string{}
	}
	server, _, _ := strings.Cut(name, ".")
	b.messages[server] = append(b.messages[server], msg)
}

func (b *leadershipLog) lastMessage(server string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if notes := b.messages[server]; len(notes) > 0 {
		return notes[len(notes)-1]
	}
	return ""
}

// checkPairs fails unless each leadership ended before the next one of the server, and at the end.
func (b *leadershipLog) checkPairs(t *testing.T, server string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	leads := false
	for _, note := range b.messages[server] {
		gained := note == "leadership gained"
		if gained && leads {
			t.Errorf("%s gained leadership while its loops ran: %v", server, b.messages[server])
		}
		leads = gained
	}
	if leads {
		t.Errorf("the loops of %s did not end: %v", server, b.messages[server])
	}
}
