package gossip

import (
	"net"
	"strconv"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/serf/serf"

	"berth/structs"
)

// Names notice another server with the name of this one, as machines have that are copies or that were never
// named. The gossip takes one server of a name, so such servers never form a cluster.
type Names struct {
	name, id string
	idOf     func(serf.Member) string
	next     serf.MergeDelegate // may be nil
	logger   hclog.Logger

	mu     sync.Mutex
	self   func() serf.Member // nil until the gossip works
	logged string             // the address of the last other server in the log
	fault  error
}

// WatchNames has a configuration of the gossip tell Names of each server. id is this one's. A delegate
// of the configuration is called after them.
func WatchNames(sc *serf.Config, id string, idOf func(serf.Member) string, logger hclog.Logger) *Names {
	n := &Names{
		name:   sc.NodeName,
		id:     id,
		idOf:   idOf,
		next:   sc.Merge,
		logger: logger,
	}
	sc.Merge = n
	return n
}

// Follow gives Names the own member of the gossip, whose address tells this server from another one.
func (n *Names) Follow(self func() serf.Member) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.self = self
}

// NotifyMerge implements serf.MergeDelegate. Serf calls it with one member for each message that it is alive.
func (n *Names) NotifyMerge(members []*serf.Member) error {
	if len(members) == 1 {
		n.see(members[0])
	}
	if n.next == nil {
		return nil
	}
	return n.next.NotifyMerge(members)
}

// see notes a server with the own name. The gossip goes on with the one that it knows. The former place of
// this server has the same ID, and after the loss of its disk the same address.
func (n *Names) see(m *serf.Member) {
	n.mu.Lock()
	self := n.self
	n.mu.Unlock()
	if m.Name != n.name || n.idOf(*m) == n.id || self == nil {
		return
	}
	own := self()
	at := addressOf(*m)
	if at == addressOf(own) {
		return
	}

	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = structs.Conflictf("the server at %s has the name of this one, %q: give each server a name of its own, with -name (name)", at, n.name)
	if n.logged != at {
		n.logged = at
		n.logger.Error("rejected another server", "error", n.fault)
	}
}

// addressOf returns the gossip address of a member.
func addressOf(m serf.Member) string {
	return net.JoinHostPort(m.Addr.String(), strconv.Itoa(int(m.Port)))
}

// Fault names the last server with the name of this one, nil for none.
func (n *Names) Fault() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fault
}
