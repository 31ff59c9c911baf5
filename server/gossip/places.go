package gossip

import (
	"cmp"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/serf/serf"

	"berth/internal/agentproof"
)

// StatusRejected is the status of a server that is not taken into the gossip: see Places.
const StatusRejected = "rejected"

// rejectedFor is the time for which a rejected server is shown after its last attempt, and in which the log
// has it once. A server tries more often.
const rejectedFor = time.Minute

// PlacesConfig are the parts of Places.
type PlacesConfig struct {
	// Describe returns the ID of a server, "" for another member, and where it runs.
	Describe func(serf.Member) (id string, at agentproof.Server)
	// Check returns an error for a member that must not be in this gossip, wherever it runs.
	Check  func(serf.Member) error
	Self   serf.Member
	Wait   time.Duration // see agentproof.CheckServer
	Logger hclog.Logger
	Now    func() time.Time // nil is time.Now
}

// Places know where each server runs, by its ID. They keep a server out of the gossip that Check rejects, and
// one that has the ID of another one: see agentproof.CheckServer. Places begin with the process.
type Places struct {
	PlacesConfig
	began time.Time

	mu       sync.Mutex
	known    map[string]place    // by ID
	pending  map[string]pending  // by ID
	rejected map[string]rejected // by ID, or by the name of a member without one
}

// place is where a server runs.
type place struct {
	agentproof.Server
	alive, left bool
	since       time.Time // of its failure
	// settled: another place of the server was known before, and had ended.
	settled bool
	// moved: that place was on another machine.
	moved bool
}

// pending is a place that the gossip does not have yet, because the former one has not failed.
type pending struct {
	address string
	at      time.Time
}

// rejected is a server that was rejected.
type rejected struct {
	serf.Member
	at, logged time.Time
}

// NewPlaces makes the places of a server that starts.
func NewPlaces(c PlacesConfig) *Places {
	if c.Now == nil {
		c.Now = time.Now
	}
	p := &Places{
		PlacesConfig: c,
		began:        c.Now(),
		known:        map[string]place{},
		pending:      map[string]pending{},
		rejected:     map[string]rejected{},
	}
	id, at := c.Describe(c.Self)
	p.known[id] = place{Server: at, alive: true, settled: true}
	return p
}

// NotifyMerge implements serf.MergeDelegate. Serf calls it for each message that a member is alive, and with
// all members of a server that joins. Of those it does not tell which have failed, and calls again for each
// one that is alive.
func (p *Places) NotifyMerge(members []*serf.Member) error {
	if len(members) != 1 {
		return nil
	}
	return p.admit(*members[0])
}

// admit returns an error for a member that must not be in the gossip, and for a server that must not take the
// place of another one.
func (p *Places) admit(m serf.Member) error {
	id, at := p.Describe(m)
	err := p.Check(m)
	if err == nil && id == "" {
		return nil
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	if err == nil {
		err = p.checkPlace(id, at, now)
	}
	if err != nil {
		p.noteRejected(cmp.Or(id, m.Name), m, now, err)
	}
	return err
}

// checkPlace returns an error for a server that must not take the place of another one.
func (p *Places) checkPlace(id string, at agentproof.Server, now time.Time) error {
	known, ok := p.known[id]
	if !ok {
		return nil
	}

	err := agentproof.CheckServer(&agentproof.KnownServer{
		Server: known.Server,
		Alive:  known.alive,
		Left:   known.left,
		Silent: now.Sub(known.since),
	}, at, p.Wait)
	if err == nil && known.Address != at.Address {
		p.pending[id] = pending{at.Address, now}
	}
	return err
}

// noteRejected shows a member as rejected.
func (p *Places) noteRejected(key string, m serf.Member, now time.Time, err error) {
	if len(p.rejected) >= historyMost {
		clear(p.rejected) // each attempt shows its server again
	}
	last := p.rejected[key]
	if now.Sub(last.logged) >= rejectedFor {
		last.logged = now
		p.Logger.Error("rejected a server", "name", m.Name, "error", err)
	}
	p.rejected[key] = rejected{m, now, last.logged}
}

// Record notes the servers of an event of the gossip.
func (p *Places) Record(e serf.Event) {
	event, ok := e.(serf.MemberEvent)
	if !ok {
		return
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range event.Members {
		id, at := p.Describe(m)
		if id != "" {
			p.note(event.Type, id, at)
		}
	}
}

func (p *Places) note(event serf.EventType, id string, at agentproof.Server) {
	known, ok := p.known[id]
	if !ok && len(p.known) >= historyMost {
		maps.DeleteFunc(p.known, func(_ string, of place) bool { return !of.alive })
	}

	// Only the name identifies a member that has ended.
	switch ended := ok && known.Name == at.Name; event {
	case serf.EventMemberJoin, serf.EventMemberUpdate:
		// Two that came in the same moment were both admitted: the first one stays.
		held := known.Held && !at.Held
		if ok && known.alive && known.Name != at.Name && !held || !ok && len(p.known) >= historyMost {
			return
		}
		next := place{Server: at, alive: true, settled: known.settled, moved: known.moved}
		if ok && known.Server != at {
			next.settled = known.settled || !known.alive
			next.moved = known.Machine != "" && !known.Machine.Same(at.Machine)
		}
		p.known[id] = next
		delete(p.pending, id)
	case serf.EventMemberFailed:
		if ended {
			known.alive = false
			known.since = p.Now()
			p.known[id] = known
		}
	case serf.EventMemberLeave:
		if ended {
			// One that was removed after its failure has not left: it may be alive elsewhere.
			known.left = known.alive
			known.alive = false
			p.known[id] = known
		}
	case serf.EventMemberReap:
		if ended {
			delete(p.known, id)
		}
	}
}

// Has reports whether a server has its place at an address, and whether the place before was on another
// machine.
func (p *Places) Has(id, address string) (has, moved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.known[id]
	return ok && known.alive && known.Address == address, known.moved
}

// Settled reports whether the place of a server is the only one, as far as can be known: another place was
// known and has ended, or none was seen for the whole wait.
func (p *Places) Settled(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.known[id]
	return ok && known.alive && (known.settled || p.Now().Sub(p.began) >= p.Wait)
}

// Pending returns the RPC address at which a server announces itself, while the gossip has it at another one;
// "" for none.
func (p *Places) Pending(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	next, ok := p.pending[id]
	if !ok || p.Now().Sub(next.at) > rejectedFor {
		return ""
	}
	return next.address
}

// Rejected lists the servers that were rejected within the last minute.
func (p *Places) Rejected() (members []serf.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, r := range p.rejected {
		if p.Now().Sub(r.at) > rejectedFor {
			delete(p.rejected, id)
			continue
		}
		members = append(members, r.Member)
	}
	return members
}
