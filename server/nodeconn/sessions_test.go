package nodeconn

import (
	"net"
	"testing"

	"berth/structs"
)

// fakeSession is a connection that carries nothing.
type fakeSession struct {
	Session
	done chan struct{}
}

func (s *fakeSession) Done() <-chan struct{} { return s.done }
func (s *fakeSession) RemoteAddr() net.Addr {
	return &net.TCPAddr{}
}

func TestSessions_RemoveEndedSessions(t *testing.T) {
	s := NewSessions(nil)
	gone := make(chan struct{})
	close(gone)
	for i := range 1000 {
		s.Bind(structs.DeriveID(uint64(i)), &fakeSession{done: gone})
	}
	if n := len(s.byNode); n > 64 {
		t.Errorf("%d sessions that ended are kept", n)
	}
	live := &fakeSession{done: make(chan struct{})}
	s.Bind("n", live)
	s.Bind("n", live)
	if s.Session("n") != Session(live) {
		t.Error("a live session is not found")
	}
	s.Drop("n")
	if s.Session("n") != nil {
		t.Error("a dropped session is found")
	}
}
