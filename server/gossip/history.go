package gossip

import (
	"sync"

	"github.com/hashicorp/serf/serf"
)

// History records the servers that left the gossip: the last name of each, and whether the gossip has dropped
// it. It begins with the process.
type History struct {
	mu      sync.Mutex
	servers map[string]lastSeen // by ID
}

// lastSeen is the last name of a server, and whether the gossip has forgotten the server since.
type lastSeen struct {
	name      string
	forgotten bool
}

// historyMost bounds the servers of a history. Beyond it the history starts again.
const historyMost = 1024

// Record records the servers of an event of the gossip. idOf returns the ID of a server, "" for another
// member.
func (h *History) Record(e serf.Event, idOf func(serf.Member) string) {
	event, ok := e.(serf.MemberEvent)
	if !ok {
		return
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	if h.servers == nil || len(h.servers) >= historyMost {
		h.servers = map[string]lastSeen{}
	}

	for _, m := range event.Members {
		id := idOf(m)
		if id == "" {
			continue
		}

		h.servers[id] = lastSeen{
			name:      m.Name,
			forgotten: event.Type == serf.EventMemberReap,
		}
	}
}

// NameOf returns the last name of a server, "" for none, and whether the gossip has dropped the server since.
func (h *History) NameOf(id string) (name string, forgotten bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.servers[id]
	return last.name, last.forgotten
}
