package audit_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints"
	"berth/endpoints/endpointstest"
	"berth/internal/auditlog"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// auditedTo makes a server with logins write an enforced audit log to w. now is the clock of the log.
func auditedTo(t *testing.T, s *endpointstest.LoginServer, w io.Writer, now func() time.Time) {
	t.Helper()
	c := auditlog.Config{Enabled: true, Sinks: []*auditlog.Sink{{Name: "out", Type: auditlog.TypeStdout}}}
	c.Finish(t.TempDir())
	log, err := auditlog.Open(c, auditlog.Deps{
		Agent:  "s1",
		Logger: hclog.NewNullLogger(),
		Now:    now,
		Stdout: w,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	d := s.Deps
	d.Audit = log
	s.Endpoints = endpoints.NewWith(d, s.Settings)
	s.RPC = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
	t.Cleanup(s.RPC.Close)
}

// A caller without a token cannot fill the disk, and a change without a token has its lines meanwhile.
func TestAudit_FailedCallsWithoutATokenHaveABound(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	s.Rule("ci", ``, access.BindPolicy, "reader")
	var log bytes.Buffer
	now := time.Unix(1, 0)
	auditedTo(t, s, &log, func() time.Time { return now })
	fail := func() {
		_, _ = rpc.Call(t.Context(), s.RPC, access.Bootstrap, &access.BootstrapRequest{Secret: "short"})
		_, _ = rpc.Call(t.Context(), s.RPC, access.TokenLogin, s.ByToken("a.b.c"))
		_, _ = rpc.Call(t.Context(), s.RPC, cluster.CertificateSign, &cluster.CertificateSignRequest{})
		_, _ = rpc.Call(t.Context(), s.RPC, access.AuthURL, &access.AuthURLRequest{Source: "10.0.0.1"})
	}
	const calls = 10_000
	for range calls / 4 {
		fail()
	}
	const most = 1000 // at once
	if n := bytes.Count(log.Bytes(), []byte("\n")); n != most {
		t.Errorf("%d failed calls have %d lines, want %d", calls, n, most)
	}
	if bytes.Contains(log.Bytes(), []byte(auditlog.Received)) {
		t.Error("a failed call has the line of a change that is about to be made")
	}

	log.Reset()
	ann := s.ByToken(s.Issuer.JWT(nil))
	ann.Source = "10.0.0.2"
	for method, change := range map[string]func(){
		access.Bootstrap.Name: func() {
			endpointstest.Must(s.Server, access.Bootstrap,
				&access.BootstrapRequest{})
		},
		access.TokenLogin.Name: func() { endpointstest.Must(s.Server, access.TokenLogin, ann) },
	} {
		log.Reset()
		change()
		first, second, _ := strings.Cut(log.String(), "\n")
		if !strings.Contains(first, auditlog.Received) || !strings.Contains(first, method) ||
			!strings.Contains(second, `"result":"ok","raft_index":`) {
			t.Errorf("%s: got the lines %s", method, log.String())
		}
	}

	log.Reset()
	now = now.Add(time.Second)
	fail()
	if !strings.Contains(log.String(), `"omitted":9000`) {
		t.Errorf("the next line does not tell of those without one: %s", log.String())
	}
}

// failing is a sink that takes nothing.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("the disk is away") }

func TestAudit_AFailedSinkStopsTheChangeWithoutAToken(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	s.Rule("ci", ``, access.BindPolicy, "reader")
	auditedTo(t, s, failing{}, time.Now)
	entries := s.Raft.Len()
	ann := s.ByToken(s.Issuer.JWT(nil))
	for method, err := range map[string]error{
		access.Bootstrap.Name: endpointstest.Rejected(
			s.Server, structs.KindUnavailable, access.Bootstrap, &access.BootstrapRequest{}),
		access.TokenLogin.Name: endpointstest.Rejected(s.Server, structs.KindUnavailable, access.TokenLogin, ann),
	} {
		if !strings.Contains(err.Error(), `sink "out" is enforced and fails`) {
			t.Errorf("%s: got %v", method, err)
		}
	}
	if s.Raft.Len() != entries {
		t.Error("the log has an entry of a change without a line")
	}
}
