package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth/fsm"
	"berth/server/leases"
	"berth/structs"
)

// script performs events at the moments at which the order of events decides, and has no other faults. The
// moments: a lease ends on the clock of its node, a loop of the leader is about to append an entry, a new
// leader grants leases, the fence device runs, and a volume is mounted.
type script struct {
	w      *world
	moves  []move // to be performed, and then those that were
	copies bool   // a copy of n0 may start
	next   int
	waits  bool // for the next moment
	turn   int  // counts the moments
	over   bool // all moves were performed, or no moment came
	idle   bool // no moment came
	end    context.CancelFunc
	after  []move   // the moves that may follow
	moment []string // the moments that were reached

	inFlight int // entries that are proposed and not appended
}

// move is an event of a script.
type move struct {
	kind moveKind
	node int
}

type moveKind int

const (
	cutOff       moveKind = iota // the node is cut off in both directions
	connect                      // it is back, and sends a heartbeat at once
	newAgent                     // its agent is killed and started
	startCopy                    // a copy of its disk, as of now, starts on another machine
	newLeader                    // another server leads; entries in flight are lost
	newLeaderHas                 // another server leads, whose log has the entries in flight
	passTime                     // until the next moment
)

// allMoves are the events of the two nodes and the servers.
var allMoves = []move{
	{cutOff, 0}, {connect, 0}, {newAgent, 0}, {startCopy, 0},
	{cutOff, 1}, {connect, 1}, {newAgent, 1},
	{kind: newLeader}, {kind: newLeaderHas}, {kind: passTime},
}

func (m move) String() string {
	names := [...]string{"cut", "back", "agent", "copy", "leader", "leader with the entries", "time"}
	if m.kind < newLeader {
		return fmt.Sprintf("%s n%d", names[m.kind], m.node)
	}
	return names[m.kind]
}

// A request reaches the log sooner than an entry of a loop: so a node may return between the decision of a
// loop and its entry.
const (
	requestTakes = 10 * time.Millisecond
	loopTakes    = 300 * time.Millisecond
)

// patience is longer than any time between two moments. With it, no moment comes any more.
const patience = 90 * time.Second

// leaseConfig returns the settings of a leader: each second one grants shorter leases with a shorter grace.
func (s *script) leaseConfig(term uint64) leases.Config {
	if term%2 == 1 {
		return leases.Config{TTL: 20 * time.Second, Grace: 5 * time.Second}
	}
	return leases.Config{TTL: 8 * time.Second, Grace: time.Second}
}

// loops is the leader as the proposer of its loops.
type loops struct{ *leader }

// Propose implements fsm.Proposer.
func (p loops) Propose(ctx context.Context, entry []byte) (index uint64, answer any, err error) {
	s := p.w.script
	if s == nil || p.w.leader != p.leader {
		return p.leader.Propose(ctx, entry)
	}
	s.inFlight++
	s.reach("the entry " + fsm.CommandOf(entry).Name)
	s.inFlight--
	return s.propose(p.leader, entry, loopTakes)
}

// propose appends an entry after a time.
func (s *script) propose(l *leader, entry []byte, takes time.Duration) (index uint64, answer any, err error) {
	s.inFlight++
	s.w.pass(context.Background(), takes)
	s.inFlight--
	switch {
	case s.w.leader == l:
		index, answer = s.w.apply(entry)
		return index, answer, nil
	case s.w.leader == nil && l.handsOn:
		s.w.apply(entry)
		return 0, nil, structs.Timeoutf("the outcome is not known")
	}
	return 0, nil, structs.Unavailablef("the leader was lost")
}

// play performs the moves. It ends the context after the last one.
func (s *script) play(ctx context.Context) {
	ctx, s.end = context.WithCancel(ctx)
	defer s.end()
	s.perform()
	for !s.over {
		s.w.pass(ctx, time.Second)
	}
}

// reach says that a moment is reached. The moves up to the next passTime are performed at it.
func (s *script) reach(moment string) {
	if s == nil || s.over || !s.waits {
		return
	}
	s.w.note("moment: %s", moment)
	s.moment = append(s.moment, moment)
	s.waits = false
	s.turn++
	s.perform()
}

func (s *script) perform() {
	for s.next < len(s.moves) {
		m := s.moves[s.next]
		s.next++
		s.w.note("move: %s", m)
		if m.kind == passTime {
			s.waits = true
			turn := s.turn
			s.w.after(patience, func() { s.giveUp(turn) })
			return
		}
		s.do(m)
	}
	s.over = true
	s.after = s.possible()
	s.end()
}

// giveUp ends the script if no moment came.
func (s *script) giveUp(turn int) {
	if s.waits && s.turn == turn {
		s.idle = true
		s.over = true
		s.end()
	}
}

func (s *script) do(m move) {
	n := s.w.nodes[m.node]
	switch m.kind {
	case cutOff, connect:
		n.cutOut = m.kind == cutOff
		n.cutIn = n.cutOut
		if m.kind == connect && n.agent != 0 && n.registered {
			n.sendBeat(func(time.Duration) {})
		}
	case newAgent:
		n.killAgent()
		n.startAgent()
	case startCopy:
		s.w.startCopy(n)
	case newLeader, newLeaderHas:
		s.w.leader.handsOn = m.kind == newLeaderHas
		s.w.leader.lose("a move")
	}
}

// possible returns the moves that may follow and change something. Moves of one moment that have no effect on
// each other come in one order only: those of the first node, those of the second, the leader.
func (s *script) possible() (all []move) {
	rank := 0
	var kinds []moveKind // of the moves with this rank, since the last moment
	for _, m := range s.moves {
		if m.rank() != rank {
			rank = m.rank()
			kinds = nil
		}
		kinds = append(kinds, m.kind)
	}

	add := func(m move, can bool) {
		again := m.rank() == rank && slices.Contains(kinds, m.kind)
		if can && m.rank() >= rank && !again {
			all = append(all, m)
		}
	}
	for i, n := range s.w.nodes {
		justCut := move{cutOff, i}.rank() == rank && slices.Contains(kinds, cutOff)
		add(move{cutOff, i}, n.on && !n.cutOut)
		add(move{connect, i}, n.cutOut && !justCut)
		add(move{newAgent, i}, n.on && n.agent != 0)
		// At one moment a copy comes first: it is of the same disk after the other moves.
		first := move{startCopy, i}.rank() != rank
		add(move{startCopy, i}, s.copies && first && i == 0 && n.copy == nil)
	}
	leads := s.w.leader != nil
	add(move{kind: newLeader}, leads)
	add(move{kind: newLeaderHas}, leads && s.inFlight > 0)
	return append(all, move{kind: passTime})
}

// rank is the place of a move among those of one moment, 0 for passTime, with which the next moment begins.
func (m move) rank() int {
	switch m.kind {
	case passTime:
		return 0
	case newLeader, newLeaderHas:
		return 3
	}
	return 1 + m.node
}
