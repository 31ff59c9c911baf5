package endpointstest

import (
	"context"
	"net"
	"sync"
	"time"

	"berth/internal/agentproof"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/oneserver"
)

// FakeRaft is a cluster of one server: it applies a proposal at once.
type FakeRaft struct {
	*oneserver.Log
	Mu         sync.Mutex
	LeaderAddr string
	IsMe       bool
	Verify     error
	Verifies   func() error // if set, it answers in place of verify
	Lost       chan struct{}
	Watched    func()        // called for each watch of lost
	Hold       chan struct{} // if set, proposals wait until it is closed
	Forwards   []string
	Silence    func() time.Duration // since the last contact with a leader; nil: one second
	OnLeads    context.Context
	Frozen     bool // a forwarded call waits for its end
	OnForward  func(method string, req, resp any) error
}

// Do runs a function under its lock.
func (r *FakeRaft) Do(f func()) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	f()
}

// Propose implements core.Raft.
func (r *FakeRaft) Propose(ctx context.Context, entry []byte) (uint64, any, error) {
	r.Mu.Lock()
	hold := r.Hold
	r.Mu.Unlock()
	if hold != nil {
		<-hold
		ctx = context.WithoutCancel(ctx) // the entry was on its way
	}
	return r.Log.Propose(ctx, entry)
}

// Leader implements core.Raft.
func (r *FakeRaft) Leader() (string, bool, bool, time.Duration) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	silence := time.Second
	if r.Silence != nil {
		silence = r.Silence()
	}
	return r.LeaderAddr, r.IsMe, r.LeaderAddr != "", silence
}

// VerifyLeader implements core.Raft.
func (r *FakeRaft) VerifyLeader() error {
	if r.Verifies != nil {
		return r.Verifies()
	}
	return r.Verify
}

// Alone implements core.Raft.
func (r *FakeRaft) Alone() bool { return r.IsMe && r.Verify == nil }

// Servers implements core.Raft.
func (r *FakeRaft) Servers() []string { return []string{r.LeaderAddr} }

// LostLeadership implements core.Raft.
func (r *FakeRaft) LostLeadership() <-chan struct{} {
	if r.Watched != nil {
		r.Watched()
	}
	return r.Lost
}

// Configuration implements core.Raft.
func (r *FakeRaft) Configuration() []*cluster.RaftServer {
	return []*cluster.RaftServer{{ID: "s1", Address: r.LeaderAddr, Leader: true, Voter: true}}
}

// Leads implements core.Raft.
func (r *FakeRaft) Leads(string) context.Context {
	if r.OnLeads != nil {
		return r.OnLeads
	}
	return context.Background()
}

// RemovePeer implements core.Raft.
func (r *FakeRaft) RemovePeer(string, string) (uint64, error) { return 7, nil }

// TransferLeadership implements core.Raft.
func (r *FakeRaft) TransferLeadership(context.Context, string, string) error {
	return nil
}

// Forward implements core.Raft.
func (r *FakeRaft) Forward(ctx context.Context, addr, method string, req, resp any) error {
	r.Mu.Lock()
	r.Forwards = append(r.Forwards, addr+" "+method)
	r.Mu.Unlock()
	if r.Frozen {
		<-ctx.Done()
		return ctx.Err()
	}
	return r.OnForward(method, req, resp)
}

// FakeLeases grants each lease, and notes whose it is.
type FakeLeases struct {
	mu      sync.Mutex
	Renewed []string
	// extended has the node and the length of each longer lease.
	Extended []string
	second   *structs.SecondAgent
	NotYet   int              // how often the server has not begun to lead yet
	Granting func()           // called before each lease is granted
	Last     *agentproof.Last // the proof that the leader has accepted last; nil: none
}

// Admit implements core.Leases.
func (l *FakeLeases) Admit(n agentproof.Node, agent *structs.AgentProof) error {
	n.Last = l.Last
	return agentproof.Check(n, agent)
}

// NoteSecond implements core.Leases.
func (l *FakeLeases) NoteSecond(_ string, _ *structs.AgentProof, s structs.SecondAgent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.second = &s
}

// Second implements core.Leases.
func (l *FakeLeases) Second(string) *structs.SecondAgent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.second
}

// Forget implements core.Leases.
func (l *FakeLeases) Forget(string) {}

// Renew implements core.Leases.
func (l *FakeLeases) Renew(id string, _ *structs.AgentProof) (structs.LeaseGrant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.NotYet > 0 {
		l.NotYet--
		return structs.LeaseGrant{}, structs.NotServedf("not yet")
	}
	if l.Granting != nil {
		l.Granting()
	}
	l.Renewed = append(l.Renewed, id)
	return structs.LeaseGrant{HeartbeatTTL: 10 * time.Second, LeaseTerm: 1}, nil
}

// Length implements core.Leases.
func (l *FakeLeases) Length(ordered time.Duration) (time.Duration, error) {
	if ordered > time.Hour {
		return 0, structs.Invalidf("too long")
	}
	return ordered + time.Second, nil
}

// Extend implements core.Leases.
func (l *FakeLeases) Extend(id string, length time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Extended = append(l.Extended, id+" "+length.String())
	return nil
}

// FakeAutopilot knows one server, which is unhealthy.
type FakeAutopilot struct{}

// Stats implements core.Autopilot.
func (FakeAutopilot) Stats() cluster.RaftStats {
	return cluster.RaftStats{LastTerm: 3, LastIndex: 70}
}

// Health implements core.Autopilot.
func (FakeAutopilot) Health() (*cluster.AutopilotHealthResponse, error) {
	return &cluster.AutopilotHealthResponse{
		Leader:  "s1",
		Servers: []*cluster.ServerHealth{{ID: "s1", LastContact: -1}},
	}, nil
}

// FakeNode answers the calls that servers make.
type FakeNode struct {
	mu     sync.Mutex
	Calls  []string
	Answer func(method string, req, resp any) error
	Ended  chan struct{}
}

// Call implements nodeconn.Session.
func (n *FakeNode) Call(_ context.Context, method string, req, resp any) error {
	n.mu.Lock()
	n.Calls = append(n.Calls, method)
	answer := n.Answer
	n.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(method, req, resp)
}

// Done implements nodeconn.Session.
func (n *FakeNode) Done() <-chan struct{} { return n.Ended }

// RemoteAddr implements nodeconn.Session.
func (n *FakeNode) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// Called returns the methods of all calls so far.
func (n *FakeNode) Called() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.Calls...)
}
