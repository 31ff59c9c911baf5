package simulation

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/structs"
	"berth/structs/cluster"
)

// theServer is the address of the one server.
const theServer = "s1:4747"

// raftLog is a log of one server. An entry takes a moment. While nobody leads it accepts none, and a caller
// whose leader is lost does not learn what became of its entry.
type raftLog struct {
	applied func(index uint64) // called after each entry

	mu    sync.Mutex
	fsm   *fsm.FSM
	index uint64
	dice  *rand.Rand
	lost  chan struct{} // closed at the end of the leadership; nil: nobody leads
}

// pause returns a random time.
func (l *raftLog) pause(most time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.dice.Int64N(int64(most)))
}

// Propose applies an entry.
func (l *raftLog) Propose(_ context.Context, entry []byte) (uint64, any, error) {
	time.Sleep(l.pause(20 * time.Millisecond))
	l.mu.Lock()
	lost := l.lost
	if lost == nil {
		l.mu.Unlock()
		return 0, nil, structs.Unavailablef("nobody leads")
	}
	l.index++
	index := l.index
	result := l.fsm.Apply(&raft.Log{Index: index, Type: raft.LogCommand, Data: entry})
	l.applied(index)
	l.mu.Unlock()
	time.Sleep(l.pause(5 * time.Millisecond))
	select {
	case <-lost:
		return 0, nil, structs.Timeoutf("the leader was lost, and the outcome is not known")
	default:
		return index, result, nil
	}
}

// lead begins a leadership.
func (l *raftLog) lead() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = make(chan struct{})
}

// resign ends it.
func (l *raftLog) resign() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.lost)
	l.lost = nil
}

func (l *raftLog) leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost != nil
}

// Leader implements core.Raft, as do the methods below.
func (l *raftLog) Leader() (addr string, isMe, known bool, lastContact time.Duration) {
	leads := l.leads()
	return theServer, leads, leads, 0
}

func (l *raftLog) VerifyLeader() error {
	if l.leads() {
		return nil
	}
	return structs.Unavailablef("nobody leads")
}

func (l *raftLog) Alone() bool       { return l.leads() }
func (l *raftLog) Servers() []string { return []string{theServer} }

func (l *raftLog) LostLeadership() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return l.lost
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

func (l *raftLog) Leads(string) context.Context { return context.Background() }

func (l *raftLog) Configuration() []*cluster.RaftServer {
	return []*cluster.RaftServer{{ID: "s1", Address: theServer, Leader: true, Voter: true}}
}

func (l *raftLog) RemovePeer(string, string) (uint64, error) {
	return 0, structs.Invalidf("there is one server")
}

func (l *raftLog) TransferLeadership(context.Context, string, string) error {
	return structs.Invalidf("there is one server")
}

func (l *raftLog) Forward(context.Context, string, string, any, any) error {
	return structs.Unavailablef("there is one server")
}
