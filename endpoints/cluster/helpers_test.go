package cluster_test

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

var (
	testVolume = endpointstest.Volume
	testJob    = endpointstest.Job
)

func newServer(t testing.TB, config ...core.Settings) *server {
	t.Helper()
	return &server{endpointstest.New(t, config...)}
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
