package membership

import (
	"context"
	"net"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"

	"berth/client/store"
)

// The bounds of what a node remembers: servers tell it, and they may be wrong.
const (
	maxRemembered   = 32
	maxAddressBytes = 255
)

// ServerOrigin is where a node has its servers from. One of another origin belongs to another cluster, or an
// operator has decided anew which servers the node calls.
type ServerOrigin struct {
	Configured []string // the addresses of the configuration, in any order
	Cluster    string   // the ID of the cluster of the node, "": it has joined none
}

func (o ServerOrigin) equal(other ServerOrigin) bool {
	return o.Cluster == other.Cluster && slices.Equal(sortedAddrs(o.Configured), sortedAddrs(other.Configured))
}

// learnedServers is what a node remembers.
type learnedServers struct {
	Origin  ServerOrigin
	Servers []string // in order of the addresses
}

var serversTable = store.NewTable[learnedServers]("servers")

// learnedKey is the key of the only record.
const learnedKey = "learned"

// ServerMemory keeps the addresses that the servers have told a node over restarts of its agent. So a node
// comes back whose servers have all changed their addresses since its configuration was written.
type ServerMemory struct {
	db     *store.DB
	logger hclog.Logger
	origin func() (ServerOrigin, error)
	due    chan struct{} // has a value: the disk does not have the last answer yet

	// Only write uses these two.
	stored learnedServers
	failed bool // the last time

	mu      sync.Mutex
	learned []string // of the last answer
}

// RememberServers opens the memory of a node. The function tells from where the node has its servers now.
func RememberServers(db *store.DB, origin func() (ServerOrigin, error), logger hclog.Logger) *ServerMemory {
	m := &ServerMemory{db: db, logger: logger, origin: origin, due: make(chan struct{}, 1)}
	kept, err := serversTable.Get(db, learnedKey)
	if err != nil { // the configuration has servers, too
		logger.Error("failed to read the addresses of the servers that the node has learned", "error", err)
	}
	if kept != nil {
		m.stored = *kept
	}
	return m
}

// Recall returns the servers that an earlier agent has learned from the present origin. Run must not have
// begun.
func (m *ServerMemory) Recall() []string {
	now, err := m.origin()
	if err != nil || !now.equal(m.stored.Origin) {
		return nil
	}
	return slices.Clone(m.stored.Servers)
}

// Note has Run store the servers of an answer. It does not wait for the disk.
func (m *ServerMemory) Note(addrs []string) {
	if len(addrs) == 0 {
		return
	}
	m.mu.Lock()
	m.learned = addrs
	m.mu.Unlock()
	select {
	case m.due <- struct{}{}:
	default: // write is due already
	}
}

// Run stores what Note has, until ctx ends.
func (m *ServerMemory) Run(ctx context.Context) {
	for {
		select {
		case <-m.due:
		case <-ctx.Done():
			return
		}
		m.write()
	}
}

// write stores the last answer if it is another set of servers. The next answer repeats a failed write. The
// log has the first failure of a series alone: a disk may be full for long.
func (m *ServerMemory) write() {
	m.mu.Lock()
	next := learnedServers{Servers: boundedAddrs(m.learned)}
	m.mu.Unlock()
	var err error
	next.Origin, err = m.origin()
	// A node without a cluster is to join the next one, and not the one that it asked last.
	if err == nil && next.Origin.Cluster == "" {
		return
	}
	if err == nil && next.Origin.equal(m.stored.Origin) && slices.Equal(next.Servers, m.stored.Servers) {
		return
	}

	if err == nil {
		err = serversTable.Put(m.db, learnedKey, &next)
	}
	if err == nil {
		m.stored = next
	} else if !m.failed {
		m.logger.Warn("failed to store the addresses of the servers: a restarted agent begins with those of "+
			"its configuration and those stored before", "error", err)
	}
	m.failed = err != nil
}

// boundedAddrs returns the addresses that are worth storing, in their order.
func boundedAddrs(addrs []string) []string {
	all := slices.DeleteFunc(sortedAddrs(addrs), func(addr string) bool {
		_, _, err := net.SplitHostPort(addr)
		return err != nil || len(addr) > maxAddressBytes
	})
	return all[:min(len(all), maxRemembered)]
}

// sortedAddrs returns each address once, in their order.
func sortedAddrs(addrs []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(addrs)))
}
