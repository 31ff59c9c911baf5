package fsm

import (
	"time"

	"github.com/hashicorp/raft"

	"berth/state"
)

// marks are the entries at which all servers look at their states, to compare them: the first entry of each
// period, by the clock of the leader that made it. A server that has restarted knows none before the next.
type marks struct {
	every  time.Duration // 0: there are none
	take   func(index uint64, tx *state.ReadTx)
	period int64 // of the last entry, 0: none was seen
}

// Mark makes the FSM call take with the state after the first entry of each period, and returns the FSM. It
// must be called before the first entry. take must not wait.
func (f *FSM) Mark(every time.Duration, take func(index uint64, tx *state.ReadTx)) *FSM {
	f.marks = marks{every: every, take: take}
	return f
}

// next returns the number of the entries up to the first mark, which it includes, and whether there is one.
func (m *marks) next(logs []*raft.Log) (run int, marked bool) {
	if m.every == 0 {
		return len(logs), false
	}
	for i, log := range logs {
		period := log.AppendedAt.UnixNano() / int64(m.every)
		begins := m.period != 0 && period != m.period
		m.period = period
		if begins {
			return i + 1, true
		}
	}
	return len(logs), false
}
