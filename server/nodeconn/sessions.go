package nodeconn

import (
	"context"
	"net"
	"sync"
	"time"

	"berth/structs"
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
	mu      sync.Mutex
	byNode  map[string]Session
	sweepAt int
}

// NewSessions returns an empty set.
func NewSessions() *Sessions {
	return &Sessions{
		byNode:  map[string]Session{},
		sweepAt: 64,
	}
}

// Bind makes a session the one over which the node is called: the newest wins.
func (s *Sessions) Bind(nodeID string, session Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byNode[nodeID] = session
	if len(s.byNode) < s.sweepAt {
		return
	}

	for id, old := range s.byNode {
		if hasEnded(old) {
			delete(s.byNode, id)
		}
	}

	s.sweepAt = max(64, 2*len(s.byNode))
}

// Drop removes a node.
func (s *Sessions) Drop(nodeID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byNode, nodeID)
}

// Session returns the connection over which the node can be called now, nil if there is none.
func (s *Sessions) Session(nodeID string) Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.byNode[nodeID]
	if session != nil && hasEnded(session) {
		delete(s.byNode, nodeID)
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

// Call calls a method of a node. Without a session it is unavailable: nothing was sent.
func (s *Sessions) Call(ctx context.Context, nodeID, method string, req, resp any) error {
	session := s.Session(nodeID)
	if session == nil {
		return structs.Unavailablef(
			"node %s has no connection to the leader now; it connects with its next heartbeat",
			structs.ShortID(nodeID))
	}
	return session.Call(ctx, method, req, resp)
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

// TryNext reports whether another controller of the plugin may be called at once after an error. Unavailable
// means that the node did not get the call or did not begin it. The calls that change storage are timeouts
// after each answer of the plugin that leaves the outcome open, so what is left are calls that only read.
// Their repeat with the same arguments is legal at any controller. After ABORTED it is not: the plugin works
// on another operation for the volume, and two controllers must not have calls for it at a time (CSI spec,
// "Concurrency"). The request fails, and its sender may repeat it later. For a list of volumes, ABORTED
// rejects the token of its page, which no other controller knows.
func TryNext(err error) bool {
	return structs.IsKind(err, structs.KindUnavailable) &&
		structs.CodeOf(err) != structs.CSICodeAborted
}
