package endpoints

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/endpoints/core"
	"berth/fsm"
	"berth/internal/level"
	"berth/internal/opsocket"
	"berth/rpc"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is one server with its procedures.
type server struct {
	*Endpoints
	t      testing.TB
	raft   *fakeRaft
	leases *fakeLeases
	rpc    *rpc.Server
	clock  time.Time
	// overSocket makes must and rejected call over the operator socket.
	overSocket bool
}

// testJobSource bounds the sources of jobs in tests.
const testJobSource = 1_000_000

func newServer(t testing.TB, config ...core.Settings) *server {
	t.Helper()
	store := state.New()
	s := &server{
		t:      t,
		leases: &fakeLeases{},
		clock:  time.Unix(1_000_000, 0),
	}
	s.raft = &fakeRaft{
		fsm:    fsm.New(store),
		leader: "s1:4747",
		isMe:   true,
		index:  100,
	}
	d := core.Deps{
		Store:          store,
		Raft:           s.raft,
		Leases:         s.leases,
		Autopilot:      fakeAutopilot{},
		Nodes:          nodeconn.NewSessions(),
		Logger:         hclog.NewNullLogger(),
		Level:          func() int { return level.Now },
		Now:            func() time.Time { return s.clock },
		JobSource:      testJobSource,
		CollectGarbage: func(context.Context, fsm.Proposer) (uint64, error) { return 0, nil },
	}
	c := core.DefaultSettings()
	if len(config) > 0 {
		c = config[0]
	}
	s.Endpoints = NewWith(d, c)
	s.rpc = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
	t.Cleanup(s.rpc.Close)
	return s
}

// callContext returns the context of a request: over the operator socket, or over a port.
func (s *server) callContext() context.Context {
	if s.overSocket {
		return opsocket.Mark(s.t.Context())
	}
	return s.t.Context()
}

// must calls a method and fails the test when it fails.
func must[Req, Resp any](s *server, m structs.Method[Req, Resp], req *Req) *Resp {
	s.t.Helper()
	resp, err := rpc.Call(s.callContext(), s.rpc, m, req)
	if err != nil {
		s.t.Fatalf("%s: %v (%s)", m.Name, err, structs.KindOf(err))
	}
	return resp
}

// rejected calls a method and fails the test unless it fails with the kind.
func rejected[Req, Resp any](s *server, kind structs.Kind, m structs.Method[Req, Resp], req *Req) error {
	s.t.Helper()
	_, err := rpc.Call(s.callContext(), s.rpc, m, req)
	if !structs.IsKind(err, kind) {
		s.t.Fatalf("%s: got %v (%s), want %s", m.Name, err, structs.KindOf(err), kind)
	}
	return err
}

func mustPropose[P any](s *server, c fsm.Command[P], p *P) {
	s.t.Helper()
	if _, err := fsm.Propose(s.t.Context(), s.raft, c, p); err != nil {
		s.t.Fatalf("%s: %v", c.Name, err)
	}
}

// wantText fails the test unless the error has the text.
func wantText(t *testing.T, err error, text string) {
	t.Helper()
	if !strings.Contains(err.Error(), text) {
		t.Errorf("got error %q, want %q in it", err, text)
	}
}

func quickSettings() core.Settings {
	c := core.DefaultSettings()
	c.HoldTimeout = 10 * time.Millisecond
	c.VolumeTimeout = 5 * time.Second
	return c
}

// evalOf returns an evaluation of a job as requests make it.
func evalOf(job *structs.Job, trigger string, now int64) *structs.Evaluation {
	e := structs.NewEval(job, trigger, now)
	e.ID = structs.NewID()
	return e
}
