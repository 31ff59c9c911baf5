package endpointstest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints"
	"berth/endpoints/core"
	"berth/fsm"
	"berth/internal/agenttest"
	"berth/internal/level"
	"berth/internal/opsocket"
	"berth/rpc"
	"berth/server/nodeconn"
	"berth/structs"
	"berth/test/oneserver"
)

// Server is one server with its procedures.
type Server struct {
	*endpoints.Endpoints
	T        testing.TB
	Raft     *FakeRaft
	Leases   *FakeLeases
	RPC      *rpc.Server
	Clock    time.Time
	policies int // made by Token
	// OverSocket makes Must and Rejected call over the operator socket.
	OverSocket bool
}

// JobSource bounds the sources of jobs in tests.
const JobSource = 1_000_000

// New makes a server that leads. Without settings it has the default ones.
func New(t testing.TB, config ...core.Settings) *Server {
	t.Helper()
	s := &Server{
		T:      t,
		Leases: &FakeLeases{},
		Clock:  time.Unix(1_000_000, 0),
	}
	s.Raft = &FakeRaft{
		Log:        oneserver.NewLog(),
		LeaderAddr: "s1:4747",
		IsMe:       true,
	}
	d := core.Deps{
		Store:          s.Raft.Store,
		Raft:           s.Raft,
		Leases:         s.Leases,
		Autopilot:      FakeAutopilot{},
		Nodes:          nodeconn.NewSessions(nil),
		Logger:         hclog.NewNullLogger(),
		Level:          func() int { return level.Now },
		Now:            func() time.Time { return s.Clock },
		JobSource:      JobSource,
		CollectGarbage: func(context.Context, fsm.Proposer) (uint64, error) { return 0, nil },
	}
	c := core.DefaultSettings()
	if len(config) > 0 {
		c = config[0]
	}
	s.Endpoints = endpoints.NewWith(d, c)
	s.RPC = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
	t.Cleanup(s.RPC.Close)
	return s
}

// In returns the server for a subtest.
func (s *Server) In(t testing.TB) *Server {
	sub := *s
	sub.T = t
	return &sub
}

// CallContext returns the context of a request: over the operator socket, or over a port.
func (s *Server) CallContext() context.Context {
	if s.OverSocket {
		return opsocket.Mark(s.T.Context())
	}
	return s.T.Context()
}

// Must calls a method and fails the test when it fails. The agent of a node makes its requests: see package
// agenttest.
func Must[Req, Resp any](s *Server, m structs.Method[Req, Resp], req *Req) *Resp {
	s.T.Helper()
	agenttest.Stamp(req)
	resp, err := rpc.Call(s.CallContext(), s.RPC, m, req)
	if err != nil {
		s.T.Fatalf("%s: %v (%s)", m.Name, err, structs.KindOf(err))
	}
	return resp
}

// Rejected calls a method as Must does, and fails the test unless it fails with the kind.
func Rejected[Req, Resp any](s *Server, kind structs.Kind, m structs.Method[Req, Resp], req *Req) error {
	s.T.Helper()
	agenttest.Stamp(req)
	_, err := rpc.Call(s.CallContext(), s.RPC, m, req)
	if !structs.IsKind(err, kind) {
		s.T.Fatalf("%s: got %v (%s), want %s", m.Name, err, structs.KindOf(err), kind)
	}
	return err
}

// MustPropose writes a log entry and fails the test when that fails. An entry of a node has its agent.
func MustPropose[P any](s *Server, c fsm.Command[P], p *P) {
	s.T.Helper()
	agenttest.Stamp(p)
	if _, err := fsm.Propose(s.T.Context(), s.Raft, c, p); err != nil {
		s.T.Fatalf("%s: %v", c.Name, err)
	}
}

// WantText fails the test unless the error has the text.
func WantText(t *testing.T, err error, text string) {
	t.Helper()
	if !strings.Contains(err.Error(), text) {
		t.Errorf("got error %q, want %q in it", err, text)
	}
}

// QuickSettings are settings with short waits.
func QuickSettings() core.Settings {
	c := core.DefaultSettings()
	c.HoldTimeout = 10 * time.Millisecond
	c.VolumeTimeout = 5 * time.Second
	return c
}

// EvalOf returns an evaluation of a job as requests make it.
func EvalOf(job *structs.Job, trigger string, now int64) *structs.Evaluation {
	e := structs.NewEval(job, trigger, now)
	e.ID = structs.NewID()
	return e
}
