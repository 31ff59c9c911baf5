package nodeconn

import (
	"context"
	"net"
	"sync"
	"time"

	"berth/structs"
	"berth/structs/nodecalls"
)

// Session is a connection that a node opened and over which it can be called: a *rpc.Session.
type Session interface {
	Call(ctx context.Context, method string, req, resp any) error
	Done() <-chan struct{}
	RemoteAddr() net.Addr
}

// Sessions has the connection over which each node can be called. An ended session is removed when a call
// finds it, so the map holds at most about twice as many as are alive.
type Sessions struct {
	peers Peers // nil: there are no other servers

	mu     sync.Mutex
	byNode map[string]Session
	// elsewhere has the nodes of byNode that last spoke to another server: they may not reach this one.
	elsewhere map[string]bool
	sweepAt   int
}

// NewSessions returns an empty set. peers is nil for a server without others.
func NewSessions(peers Peers) *Sessions {
	return &Sessions{
		peers:     peers,
		byNode:    map[string]Session{},
		elsewhere: map[string]bool{},
		sweepAt:   64,
	}
}

// Bind makes a session the one over which the node is called: the newest wins.
func (s *Sessions) Bind(nodeID string, session Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byNode[nodeID] = session
	delete(s.elsewhere, nodeID)
	if len(s.byNode) < s.sweepAt {
		return
	}

	for id, old := range s.byNode {
		if hasEnded(old) {
			s.forget(id)
		}
	}

	s.sweepAt = max(64, 2*len(s.byNode))
}

// Drop removes a node.
func (s *Sessions) Drop(nodeID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(nodeID)
}

// forget removes a node. The caller holds s.mu.
func (s *Sessions) forget(nodeID string) {
	delete(s.byNode, nodeID)
	delete(s.elsewhere, nodeID)
}

// NoteElsewhere notes that a node has spoken to another server, until the next Bind. The connection to it, if
// there is one, may be dead without a reset.
func (s *Sessions) NoteElsewhere(nodeID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byNode[nodeID] != nil {
		s.elsewhere[nodeID] = true
	}
}

// Session returns the connection over which the node can be called now, nil if there is none.
func (s *Sessions) Session(nodeID string) Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.byNode[nodeID]
	if session != nil && hasEnded(session) {
		s.forget(nodeID)
		return nil
	}
	return session
}

func hasEnded(s Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// Call calls a method of a node, over the connection of another server if the node speaks to that one.
// Without any connection it is unavailable: nothing was sent.
func (s *Sessions) Call(ctx context.Context, nodeID, method string, req, resp any) error {
	session := s.Session(nodeID)
	s.mu.Lock()
	elsewhere := s.elsewhere[nodeID]
	s.mu.Unlock()
	if session != nil && !elsewhere {
		return session.Call(ctx, method, req, resp)
	}

	called, err := s.relay(ctx, nodeID, method, req, resp)
	if session != nil && !called {
		return session.Call(ctx, method, req, resp)
	}
	return err
}

// Caller calls methods of nodes: *Sessions, or a test's.
type Caller interface {
	Call(ctx context.Context, nodeID, method string, req, resp any) error
}

// Target is where a call goes.
type Target struct {
	Nodes Caller
	IDs   []string      // of the nodes that can serve it, the best first
	Limit time.Duration // of the call of one node, if the request has no timeout of its own
}

// Call makes a call at the first reachable node of the target. It tries the next node as long as TryNext
// allows it, and returns the error of the last.
func Call[Req, Resp any](
	ctx context.Context,
	to Target,
	m structs.Method[Req, Resp],
	req *Req,
) (*Resp, error) {
	limit := to.Limit
	if r, ok := any(req).(interface {
		AnswerWithin(none time.Duration) time.Duration
	}); ok {
		limit = r.AnswerWithin(limit)
	}

	err := ErrNoController
	for _, id := range to.IDs {
		resp := new(Resp)
		limited, cancel := context.WithTimeout(ctx, limit)
		err = to.Nodes.Call(limited, id, m.Name, req, resp)
		cancel()
		if err == nil {
			return resp, nil
		}

		if !TryNext(err) || ctx.Err() != nil {
			break
		}
	}

	return nil, err
}

// TryNext reports whether another controller of the plugin may be called at once after an error: see
// nodecalls.TriesOther.
func TryNext(err error) bool { return nodecalls.TriesOther(structs.KindOf(err), structs.CodeOf(err)) }
