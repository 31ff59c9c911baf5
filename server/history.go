package server

import (
	"sync"

	"github.com/hashicorp/serf/serf"
)

// history records the servers that left the gossip: the last name of each, and whether the gossip has dropped
// it. It begins with the process.
type history struct {
	mu        sync.Mutex
	names     map[string]string // by server ID
	forgotten map[string]bool   // by server ID
}

// historyMost bounds the servers of a history. Beyond it the history starts again.
const historyMost = 1024

// record takes in an event of the gossip.
func (h *history) record(e serf.Event) {
	event, ok := e.(serf.MemberEvent)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names == nil || len(h.names) >= historyMost {
		h.names, h.forgotten = map[string]string{}, map[string]bool{}
	}
	for _, m := range event.Members {
		id := m.Tags[tagID]
		if m.Tags[tagRole] != roleServer || id == "" {
			continue
		}
		h.names[id] = m.Name
		if event.Type == serf.EventMemberReap {
			h.forgotten[id] = true
		} else {
			delete(h.forgotten, id)
		}
	}
}

// of returns the last name of a server, "" for none, and whether the gossip has dropped the server since.
func (h *history) of(id string) (name string, forgotten bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.names[id], h.forgotten[id]
}
