package endpointstest

import (
	"fmt"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints/rights"
	"berth/rpc"
	"berth/structs/access"
)

// Guard makes the server ask for tokens. Callers over a port have certificates from then on: s.Roles is true.
func (s *Server) Guard() {
	s.T.Helper()
	s.Roles = true // a caller without a certificate is of the same process
	s.Gate = rights.NewGate(rights.Config{
		Mode:   access.ModeEnforce,
		Now:    s.Now,
		Logger: hclog.NewNullLogger(),
	})
	s.RPC.Close()
	s.RPC = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
	s.T.Cleanup(s.RPC.Close)
}

// Token makes a token with a policy of its own, "p1" and so on, and returns its secret.
func (s *Server) Token(rules string) (secret string) {
	s.T.Helper()
	defer s.asOwnProcess()()
	s.policies++
	p := &access.Policy{Name: fmt.Sprint("p", s.policies), Rules: rules}
	Must(s, access.PolicyPut, &access.PolicyPutRequest{Policy: p})
	return Must(s, access.TokenPut, &access.TokenPutRequest{
		Token: &access.Token{Type: access.TypeClient, Policies: []string{p.Name}},
	}).SecretID
}

// ManagementToken makes a management token and returns its secret.
func (s *Server) ManagementToken() (secret string) {
	s.T.Helper()
	defer s.asOwnProcess()()
	return Must(s, access.TokenPut, &access.TokenPutRequest{
		Token: &access.Token{Type: access.TypeManagement},
	}).SecretID
}

// asOwnProcess lets a caller without a certificate count as one of the same process.
func (s *Server) asOwnProcess() (end func()) {
	roles := s.Roles
	s.Roles = true
	return func() { s.Roles = roles }
}
