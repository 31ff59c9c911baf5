package job_test

import (
	"testing"

	"go.uber.org/goleak"

	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a test server, to which the tests of this package add helpers of their own.
type server struct{ *endpointstest.Server }

type (
	fakeNode   = endpointstest.FakeNode
	fakeConsul = endpointstest.FakeConsul
)

const testJobSource = endpointstest.JobSource

var (
	secretOf   = endpointstest.SecretOf
	testClaim  = endpointstest.Claim
	testJob    = endpointstest.Job
	runsPlugin = endpointstest.RunsPlugin
	evalOf     = endpointstest.EvalOf
	wantText   = endpointstest.WantText
)

func newServer(t testing.TB, config ...core.Settings) *server {
	t.Helper()
	return &server{endpointstest.New(t, config...)}
}

// in returns the server for a subtest.
func (s *server) in(t testing.TB) *server {
	sub := *s.Server
	sub.T = t
	return &server{&sub}
}

func newHolding(t *testing.T, c core.Settings) (*server, *endpointstest.HoldingRaft) {
	t.Helper()
	s, held := endpointstest.NewHolding(t, c)
	return &server{s}, held
}

func must[Req, Resp any](s *server, m structs.Method[Req, Resp], req *Req) *Resp {
	s.T.Helper()
	return endpointstest.Must(s.Server, m, req)
}

func rejected[Req, Resp any](s *server, kind structs.Kind, m structs.Method[Req, Resp], req *Req) error {
	s.T.Helper()
	return endpointstest.Rejected(s.Server, kind, m, req)
}

func mustPropose[P any](s *server, c fsm.Command[P], p *P) {
	s.T.Helper()
	endpointstest.MustPropose(s.Server, c, p)
}
