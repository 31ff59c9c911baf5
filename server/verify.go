package server

import (
	"sync"

	"github.com/hashicorp/raft"

	"berth/structs"
)

// verifier lets those who ask at the same time whether this server still leads share the answer: one
// question is under way, and who comes meanwhile shares the next one, which begins after they came.
type verifier struct {
	turn chan struct{} // holds one while a question is under way

	mu   sync.Mutex
	next *question // has not begun yet
}

type question struct {
	done chan struct{}
	err  error
}

func newVerifier() *verifier { return &verifier{turn: make(chan struct{}, 1)} }

func (v *verifier) ask(quorum func() error) error {
	v.mu.Lock()
	q := v.next
	if q != nil {
		v.mu.Unlock()
		<-q.done
		return q.err
	}
	q = &question{done: make(chan struct{})}
	v.next = q
	v.mu.Unlock()

	v.turn <- struct{}{}
	v.mu.Lock()
	v.next = nil
	v.mu.Unlock()
	q.err = quorum()
	<-v.turn
	close(q.done)
	return q.err
}

// verify asks a quorum whether this server still leads.
func (c *consensus) verify() error {
	if err := c.gate.enter(); err != nil {
		return err
	}
	defer c.gate.inside.Done()
	if err := c.verifier.ask(func() error { return c.VerifyLeader().Error() }); err != nil {
		return structs.Errorf(structs.KindUnavailable, "this server may lead no more: %w", err)
	}
	return nil
}

// alone reports whether this server leads and is the only voter. Nobody else can have been elected then:
// Raft counts by its newest configuration, committed or not, and so does this.
func (c *consensus) alone() bool {
	if c.State() != raft.Leader {
		return false
	}
	voters, me := 0, false
	for _, s := range c.GetConfiguration().Configuration().Servers {
		if s.Suffrage == raft.Voter {
			voters, me = voters+1, me || s.ID == c.id
		}
	}
	return voters == 1 && me
}
