package endpoints

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/internal/admission"
	"berth/structs"
)

// fakeRaft is a cluster of one server: it applies a proposal at once.
type fakeRaft struct {
	mu       sync.Mutex
	fsm      *fsm.FSM
	index    uint64
	entries  int
	largest  int // bytes of an entry
	log      bytes.Buffer
	leader   string
	isMe     bool
	verify   error
	verifies func() error // if set, it answers in place of verify
	lost     chan struct{}
	watched  func() // called for each watch of lost
	proposed error
	hold     chan struct{} // if set, proposals wait until it is closed
	forwards []string
	leads    context.Context
	frozen   bool // a forwarded call waits for its end
	forward  func(method string, req, resp any) error
}

func (r *fakeRaft) do(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *fakeRaft) Propose(_ context.Context, entry []byte) (uint64, any, error) {
	r.mu.Lock()
	if hold := r.hold; hold != nil {
		r.mu.Unlock()
		<-hold
		r.mu.Lock()
	}
	defer r.mu.Unlock()
	if r.proposed != nil {
		return 0, nil, r.proposed
	}
	r.index++
	r.entries++
	r.largest = max(r.largest, len(entry))
	r.log.Write(entry)
	return r.index, r.fsm.Apply(&raft.Log{
		Index: r.index,
		Type:  raft.LogCommand,
		Data:  entry,
	}), nil
}

func (r *fakeRaft) Leader() (string, bool, bool, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader, r.isMe, r.leader != "", time.Second
}

func (r *fakeRaft) VerifyLeader() error {
	if r.verifies != nil {
		return r.verifies()
	}
	return r.verify
}

func (r *fakeRaft) Alone() bool { return r.isMe && r.verify == nil }

func (r *fakeRaft) Servers() []string { return []string{r.leader} }

func (r *fakeRaft) LostLeadership() <-chan struct{} {
	if r.watched != nil {
		r.watched()
	}
	return r.lost
}

func (r *fakeRaft) Configuration() []*structs.RaftServer {
	return []*structs.RaftServer{{ID: "s1", Address: r.leader, Leader: true, Voter: true}}
}

func (r *fakeRaft) Leads(string) context.Context {
	if r.leads != nil {
		return r.leads
	}
	return context.Background()
}

func (r *fakeRaft) RemovePeer(string, string) (uint64, error) { return 7, nil }

func (r *fakeRaft) TransferLeadership(context.Context, string, string) error {
	return nil
}

func (r *fakeRaft) Forward(ctx context.Context, addr, method string, req, resp any) error {
	r.mu.Lock()
	r.forwards = append(r.forwards, addr+" "+method)
	r.mu.Unlock()
	if r.frozen {
		<-ctx.Done()
		return ctx.Err()
	}
	return r.forward(method, req, resp)
}

func (r *fakeRaft) written() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries
}

type fakeLeases struct {
	mu      sync.Mutex
	renewed []string
	// extended has the node and the length of each longer lease.
	extended []string
	second   *structs.SecondAgent
	notYet   int    // how often the server has not begun to lead yet
	granting func() // called before each lease is granted
}

func (l *fakeLeases) Admit(row *structs.Node, hasVolumes bool, agent *structs.AgentProof) error {
	return admission.Check(admission.Node{Row: row, HasVolumes: hasVolumes}, agent)
}

func (l *fakeLeases) NoteSecond(_ string, _ *structs.AgentProof, s structs.SecondAgent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.second = &s
}

func (l *fakeLeases) Second(string) *structs.SecondAgent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.second
}

func (l *fakeLeases) Forget(string) {}

func (l *fakeLeases) Renew(id string, _ *structs.AgentProof) (structs.LeaseGrant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.notYet > 0 {
		l.notYet--
		return structs.LeaseGrant{}, structs.NotServedf("not yet")
	}
	if l.granting != nil {
		l.granting()
	}
	l.renewed = append(l.renewed, id)
	return structs.LeaseGrant{HeartbeatTTL: 10 * time.Second, LeaseTerm: 1}, nil
}

func (l *fakeLeases) Length(ordered time.Duration) (time.Duration, error) {
	if ordered > time.Hour {
		return 0, structs.Invalidf("too long")
	}
	return ordered + time.Second, nil
}

func (l *fakeLeases) Extend(id string, length time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extended = append(l.extended, id+" "+length.String())
	return nil
}

// fakeAutopilot knows one server, which is unhealthy.
type fakeAutopilot struct{}

func (fakeAutopilot) Stats() structs.RaftStats {
	return structs.RaftStats{LastTerm: 3, LastIndex: 70}
}

func (fakeAutopilot) Health() (*structs.AutopilotHealthResponse, error) {
	return &structs.AutopilotHealthResponse{
		Leader:  "s1",
		Servers: []*structs.ServerHealth{{ID: "s1", LastContact: -1}},
	}, nil
}

// fakeNode answers the calls that servers make.
type fakeNode struct {
	mu     sync.Mutex
	calls  []string
	answer func(method string, req, resp any) error
	done   chan struct{}
}

func (n *fakeNode) Call(_ context.Context, method string, req, resp any) error {
	n.mu.Lock()
	n.calls = append(n.calls, method)
	answer := n.answer
	n.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(method, req, resp)
}

func (n *fakeNode) Done() <-chan struct{} { return n.done }

func (n *fakeNode) RemoteAddr() net.Addr { return &net.TCPAddr{} }

func (n *fakeNode) called() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.calls...)
}
