// Package leases has the leader's memory of the nodes' heartbeats, and the bound of the leases. It also has
// the memory of the locks of variables (VariableLocks), which holders renew in the same way.
//
// The servers place the work of a node elsewhere when its lease and a grace have ended. So a leader must
// never end a lease that the node still counts. Four rules hold that, also for a leader that was frozen
// and for a change of leader:
//
//   - A leader grants a lease only after a check of its leadership that began after the request arrived.
//     Package endpoints makes the check. The node counts from before it sent the request.
//   - A new leader takes every node for alive for the longest lease that an earlier leader may have
//     granted. The log has that bound (cluster.LeaseBound): a leader raises it before it grants a longer
//     lease.
//   - A renewal never shortens the lease that a node may still count.
//   - No lease is renewed from its end on until the log has the node down. From then on its row says so, and
//     package endpoints looks at the row after each renewal.
//
// All times are in CLOCK_BOOTTIME. See package boottime.
package leases

import (
	"slices"
	"sync"
	"time"

	"berth/internal/agentproof"
	"berth/internal/boottime"
	"berth/structs"
)

// Config sets the interval of heartbeats and the time after which a silent node counts as down.
type Config struct {
	TTL   time.Duration // a node sends its next heartbeat within this, in a cluster that is not large
	Grace time.Duration // the most by which a heartbeat may be late
	// MaxPerSecond bounds the heartbeats: with more nodes the TTL grows. 0 is no bound. Nodes send one per
	// half lease.
	MaxPerSecond float64
	// Longest bounds the lease that an operator can order for a node. 0: none can be ordered.
	Longest time.Duration
	// BootID is the ID of the boot of this server's machine, "" if it is not known.
	BootID string
}

// ttl returns the length of a lease in a cluster with a number of live nodes.
func (c Config) ttl(nodes int) time.Duration {
	if c.MaxPerSecond <= 0 {
		return c.TTL
	}
	seconds := float64(nodes) / c.MaxPerSecond
	return max(c.TTL, time.Duration(seconds*float64(time.Second)))
}

// bound returns the bound that these leases need, in whole seconds: a growing cluster raises it seldom.
func (c Config) bound(nodes int) time.Duration {
	longest := c.ttl(nodes) + c.Grace
	return (longest + time.Second - 1).Truncate(time.Second)
}

// Leases are the leases that a leader keeps. A server that does not lead keeps none.
type Leases struct {
	config Config
	clock  boottime.Clock

	mu       sync.Mutex
	term     uint64 // of the leadership; 0: this server does not lead
	ttl      time.Duration
	nodes    map[string]*node // by ID
	earliest boottime.Instant // no lease ends before; zero: there is none
}

// node is what the leader knows of a node that has, or had, a lease.
type node struct {
	end     boottime.Instant // of the grace of its lease; zero: no lease runs
	ending  bool             // its lease has ended, and the log does not have the node down yet
	adopted bool             // its lease runs although no agent was accepted: see adopt
	agent   *agent           // the last one, also of a lease that has ended; nil: none was accepted
	second  *second          // the last one that was rejected; nil: there is none
}

// runs reports whether a lease of the node runs. A node that is not known has none.
func (n *node) runs() bool { return n != nil && !n.end.IsZero() }

// agent is an agent that Renew has accepted.
type agent struct {
	proof structs.AgentProof
	until boottime.Instant // it may count the lease of its last heartbeat until then
}

// New makes the leases of a server. clock nil is CLOCK_BOOTTIME.
func New(config Config, clock boottime.Clock) *Leases {
	if clock == nil {
		clock = boottime.Now
	}

	return &Leases{
		config: config,
		clock:  clock,
		nodes:  map[string]*node{},
	}
}

// known returns what is known of a node, and begins to know it.
func (l *Leases) known(nodeID string) *node {
	n := l.nodes[nodeID]
	if n == nil {
		n = &node{}
		l.nodes[nodeID] = n
	}
	return n
}

// Admit returns an error if another agent than the request's has the lease or the volumes of a node.
// See package agentproof. n has what the log says of the node.
func (l *Leases) Admit(n agentproof.Node, given *structs.AgentProof) error {
	if n.Row == nil {
		return agentproof.CheckProof(given)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	n.LeaderBoot = l.config.BootID
	n.Last = l.last(l.nodes[n.Row.ID])
	return agentproof.Check(n, given)
}

// last returns what is known of the agent of a node, or nil.
func (l *Leases) last(n *node) *agentproof.Last {
	if n == nil || n.agent == nil {
		return nil
	}
	return &agentproof.Last{
		AgentProof: n.agent.proof,
		Counts:     n.agent.until.Sub(l.clock()),
	}
}

// Forget ends the lease of a node that was deleted.
func (l *Leases) Forget(nodeID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.nodes, nodeID)
}

// Renew starts the lease of a node again, for an agent that Admit has accepted. The caller has confirmed
// since the request arrived that this server leads. The error says that it does not, or not yet, that another
// agent was accepted at the same time, or that the lease has ended and the log does not have that yet.
func (l *Leases) Renew(nodeID string, given *structs.AgentProof) (structs.LeaseGrant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == 0 {
		return structs.LeaseGrant{}, structs.NotServedf(
			"this server grants no lease: it does not lead, or has just begun to")
	}

	n := l.known(nodeID)
	if n.ending {
		return structs.LeaseGrant{}, errEnding
	}

	last := l.last(n)
	if n.runs() && !n.adopted && last != nil && !last.IsFollowedBy(given) {
		return structs.LeaseGrant{}, agentproof.Rejection(nodeID, "it was faster")
	}

	n.agent = &agent{
		proof: *given,
		until: l.clock().Add(l.ttl),
	}

	if n.second != nil && n.second.Nonce == given.Nonce {
		n.second = nil
	}

	n.adopted = false
	l.extend(n, l.ttl+l.config.Grace)
	return structs.LeaseGrant{
		HeartbeatTTL:   l.ttl,
		HeartbeatGrace: l.config.Grace,
		LeaseTerm:      l.term,
		LeaseFor:       n.end.Sub(l.clock()) - l.config.Grace,
	}, nil
}

// errEnding is the error of a renewal that comes too late.
var errEnding = structs.Unavailablef("the lease of this node has just ended: repeat the request")

// Length returns the length, with the grace, of a lease that an operator orders. It rejects a lease that is
// too long.
func (l *Leases) Length(ordered time.Duration) (time.Duration, error) {
	if ordered <= 0 || ordered > l.config.Longest {
		return 0, structs.Invalidf("a lease of %s was ordered; expected more than 0 and at most %s "+
			"(max_node_lease of the servers)", ordered, l.config.Longest)
	}
	return ordered + l.config.Grace, nil
}

// Extend keeps the lease of a node for a length from now. The log has the length already. The error says that
// this server does not lead.
func (l *Leases) Extend(nodeID string, length time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == 0 {
		return structs.NotServedf("this server does not lead any more: repeat the request")
	}
	l.extend(l.known(nodeID), length)
	return nil
}

// lasts reports whether the lease of a node lasts for longer than a time from now.
func (l *Leases) lasts(nodeID string, by time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nodes[nodeID]
	return n.runs() && n.end > l.clock().Add(by)
}

// extend keeps a lease for a time from now, or for longer if it lasts longer: the node may not know of the
// renewal.
func (l *Leases) extend(n *node, by time.Duration) {
	l.keepUntil(n, l.clock().Add(by))
}

// keepUntil keeps a lease until a time, or for longer if it lasts longer.
func (l *Leases) keepUntil(n *node, end boottime.Instant) {
	n.end = max(n.end, end)
	l.noteEnd(n.end)
}

// noteEnd keeps the earliest end of the leases.
func (l *Leases) noteEnd(end boottime.Instant) {
	if l.earliest.IsZero() || end < l.earliest {
		l.earliest = end
	}
}

// begin starts a leadership.
func (l *Leases) begin(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = term
}

// extendAll keeps the leases of nodes for a time from now.
func (l *Leases) extendAll(nodes []string, by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range nodes {
		l.extend(l.known(id), by)
	}
}

// adopt gives a lease to each live node that has none, so that it goes down if it stays silent: the server
// may have ended a registration after its log entry and before its Renew, or a deletion of the node forgot
// the lease of its next registration. The first agent that calls Renew keeps the node. It reports whether
// there was such a node.
func (l *Leases) adopt(live []string, by time.Duration) (any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range live {
		n := l.known(id)
		if n.runs() || n.ending {
			continue
		}

		n.adopted = true
		l.extend(n, by)
		any = true
	}

	return any
}

// end ends the leadership.
func (l *Leases) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = 0
	l.nodes = map[string]*node{}
	l.earliest = 0
}

// setTTL sets the length of the leases to grant.
func (l *Leases) setTTL(ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ttl = ttl
}

// expired removes and returns the nodes whose leases have ended. They get no lease until markedDown. It
// reads all leases when the earliest known one has ended. Nodes renew theirs long before the end, so that
// is seldom.
func (l *Leases) expired() (nodes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	if now < l.earliest {
		return nil
	}

	l.earliest = 0
	for id, n := range l.nodes {
		switch {
		case !n.runs():
			continue
		case n.end > now:
			l.noteEnd(n.end)
			continue
		}

		n.end = 0
		n.adopted = false
		n.ending = true
		nodes = append(nodes, id)
	}

	slices.Sort(nodes)
	return nodes
}

// markedDown says that the log has nodes down: their rows tell it from now on.
func (l *Leases) markedDown(nodes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range nodes {
		if n := l.nodes[id]; n != nil { // a node may have been deleted meanwhile
			n.ending = false
		}
	}
}

// retain keeps leases that ended but could not be recorded, so that they expire again soon. The entry may
// still be applied, so the nodes get no lease meanwhile.
func (l *Leases) retain(nodes []string, until boottime.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range nodes {
		l.keepUntil(l.known(id), until) // an operator may have ordered a longer one
	}
}
