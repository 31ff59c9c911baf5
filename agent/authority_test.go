package agent

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
)

// replaceAuthority replaces the authority of a site, and returns the IDs of the trusted ones.
func (s *site) replaceAuthority() (trusted []string) {
	s.t.Helper()
	answer, err := rpc.Call(s.t.Context(), s.leader().server, cluster.AuthorityReplace, &structs.WriteRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	return []string{answer.ID, answer.FormerID}
}

// awaitFollows waits until a machine trusts some authorities alone, and has a certificate of the first.
func (s *site) awaitFollows(m *siteMachine, trusted ...string) {
	s.t.Helper()
	awaitCondition(s.t, m.id.ID+" follows the authorities", func() bool { return m.running.keys.Follows(trusted) })
}

// stranger opens keys with a certificate that the first authority of the site signs now, outside the servers.
func (s *site) stranger(role pki.Role, id string) *peertls.Keys {
	s.t.Helper()
	m := s.machine(id, role)
	s.machines = slices.DeleteFunc(s.machines, func(other *siteMachine) bool { return other == m })
	cert, key, err := s.region.Issue(pki.Request{Identity: m.id, From: time.Now(), Life: day})
	if err != nil {
		s.t.Fatal(err)
	}
	pkitest.Write(s.t, m.cfg.TLS.CertFile, cert)
	pkitest.Write(s.t, m.cfg.TLS.KeyFile, key)
	keys, err := peertls.Open(m.cfg.TLS, "global", role, hclog.NewNullLogger())
	if err != nil {
		s.t.Fatal(err)
	}
	return keys
}

// dialAs opens a connection to the RPC port of the first server with the certificate of keys.
func (s *site) dialAs(keys *peertls.Keys) (net.Conn, error) {
	cfg := &s.machines[0].cfg
	dial := rpc.SecureDialer(rpc.Dial, keys.Client(peertls.Roles(pki.RoleServer)), false)
	return dial(cfg.bind("", cfg.Ports.RPC), time.Minute)
}

// callAll calls each server through each other agent until the end of ctx. It reports each failure.
func (s *site) callAll(ctx context.Context, running *sync.WaitGroup) {
	for _, m := range s.machines {
		caller := m.running.caller
		running.Go(func() {
			for ctx.Err() == nil {
				_, err := rpc.Call(ctx, caller, cluster.CertificateRevocations, &structs.QueryRequest{})
				if err != nil && ctx.Err() == nil {
					s.t.Errorf("a call of %s: %v", m.id.ID, err)
					return
				}
			}
		})
	}
}

func TestAuthority_AllMachinesFollowANewOneByThemselves(t *testing.T) {
	s := newSite(t)
	off := s.addNode("off")
	s.addNode("n1")
	s.addNode("n2")
	before := s.token()
	ended := time.Now().Add(-3 * day)
	s.endRecord(off, ended)
	off.stop()
	s.endCertificate(off, ended)
	s.machines = slices.DeleteFunc(s.machines, func(m *siteMachine) bool { return m == off })

	calling, stop := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	s.callAll(calling, &calls)
	begin := time.Now()
	trusted := s.replaceAuthority()
	for _, m := range s.machines {
		s.awaitFollows(m, trusted...)
	}
	if took := time.Since(begin); took > 45*time.Second { // the next look at the certificates is later
		t.Errorf("the machines followed after %s", took)
	}
	stop()
	calls.Wait()

	s.start(off) // it knows the former authority alone
	s.awaitFollows(off, trusted...)
	s.awaitFollows(s.joinNode("n3", before), trusted...)
	second := s.replaceAuthority()
	trusted = []string{second[0], second[1], trusted[1]}
	for _, m := range s.machines {
		s.awaitFollows(m, trusted...)
	}
}

// The certificate of the server has ended, and its rows and its copy have the former authority alone.
func TestAuthority_AServerThatWasOffFollows(t *testing.T) {
	s := newSite(t)
	leader := s.leader()
	i := slices.IndexFunc(s.machines, func(m *siteMachine) bool { return m.running != leader })
	off := s.machines[i]
	off.stop()
	s.endCertificate(off, time.Now().Add(-3*day))
	trusted := s.replaceAuthority()
	for _, m := range s.machines {
		if m != off {
			s.awaitFollows(m, trusted...)
		}
	}
	s.start(off)
	s.awaitFollows(off, trusted...)
	s.mustServe()
}

// A server that does not renew has the removed authority in its ca_file for good.
func TestAuthority_AServerThatDoesNotRenewDropsARemovedOne(t *testing.T) {
	s := newSite(t)
	keys := s.stranger(pki.RoleNode, "n9")
	trusted := s.replaceAuthority()
	for _, m := range s.machines {
		s.awaitFollows(m, trusted...)
	}
	m := s.machines[0] // the server that dialAs calls
	m.stop()
	m.cfg.TLS.Renew = false
	s.start(m)
	s.mustServe()
	open, err := s.dialAs(keys)
	if err != nil {
		t.Fatal(err)
	}

	_, err = rpc.Call(t.Context(), s.leader().server, cluster.AuthorityRemove,
		&cluster.AuthorityRemoveRequest{ID: trusted[1]})
	if err != nil {
		t.Fatal(err)
	}
	_ = open.SetDeadline(time.Now().Add(time.Minute))
	_, err = io.Copy(io.Discard, open)
	if os.IsTimeout(err) {
		t.Error("the open connection of the removed authority stays")
	}
	_, err = s.dialAs(keys)
	if err == nil {
		t.Error("a certificate of the removed authority is taken")
	}
	content, err := os.ReadFile(m.cfg.TLS.CAFile)
	if err != nil || !bytes.Contains(content, s.region.CertPEM()) {
		t.Errorf("the file does not have the removed authority: %v", err)
	}
	s.mustServe()
}

// rejoin gives a server that is off a certificate for a new token.
func (s *site) rejoin(off *siteMachine) {
	s.t.Helper()
	leader := s.leader()
	token, err := rpc.Call(s.t.Context(), leader.server, cluster.JoinTokenCreate,
		&cluster.JoinTokenCreateRequest{Role: cluster.JoinServer})
	if err != nil {
		s.t.Fatal(err)
	}
	key, err := pki.NewKey()
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := rpc.Join(s.t.Context(), leader.server.RPCAddr(),
		rpc.JoinRequest{Token: token.Token, Key: key, ID: off.id.ID})
	if err != nil {
		s.t.Fatal(err)
	}
	keyPEM, err := key.PEM()
	if err != nil {
		s.t.Fatal(err)
	}
	pkitest.Write(s.t, off.cfg.TLS.CAFile, []byte(answer.Authorities))
	pkitest.Write(s.t, off.cfg.TLS.CertFile, []byte(answer.Certificate))
	pkitest.Write(s.t, off.cfg.TLS.KeyFile, keyPEM)
}

// The trust in the former authority has ended while the server was off. Its rows have that one alone, and
// must not replace the certificate with which it joins again.
func TestAuthority_AServerThatWasOffForTooLongJoinsAgain(t *testing.T) {
	s := newSite(t)
	leader := s.leader()
	i := slices.IndexFunc(s.machines, func(m *siteMachine) bool { return m.running != leader })
	off := s.machines[i]
	off.stop()
	trusted := s.replaceAuthority()
	for _, m := range s.machines {
		if m != off {
			s.awaitFollows(m, trusted...)
		}
	}
	_, err := rpc.Call(t.Context(), s.leader().server, cluster.AuthorityRemove,
		&cluster.AuthorityRemoveRequest{ID: trusted[1]})
	if err != nil {
		t.Fatal(err)
	}
	s.rejoin(off)
	s.start(off)
	s.awaitFollows(off, trusted[0])
	s.mustServe()
}

func TestAuthority_ARemovedOneIsRejectedAtOnce(t *testing.T) {
	s := newSite(t)
	n := s.addNode("n1")
	token := s.token()
	keys := s.stranger(pki.RoleServer, "s9")
	trusted := s.replaceAuthority()
	for _, m := range s.machines {
		s.awaitFollows(m, trusted...)
	}
	open, err := s.dialAs(keys)
	if err != nil {
		t.Fatal(err)
	}
	removed, err := rpc.Call(t.Context(), s.leader().server, cluster.AuthorityRemove,
		&cluster.AuthorityRemoveRequest{ID: trusted[1]})
	if err != nil {
		t.Fatal(err)
	}
	if removed.JoinTokens != 1 { // the others were used
		t.Errorf("%d join tokens are void; expected one", removed.JoinTokens)
	}
	for _, m := range s.machines {
		s.awaitFollows(m, trusted[0])
	}
	_ = open.SetDeadline(time.Now().Add(time.Minute))
	_, err = io.Copy(io.Discard, open)
	if os.IsTimeout(err) {
		t.Error("the open connection of the removed authority stays")
	}
	_, err = s.dialAs(keys)
	if err == nil {
		t.Error("a certificate of the removed authority is taken")
	}
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	late := rpc.JoinRequest{Token: token, Key: key, ID: "late"}
	_, err = rpc.Join(t.Context(), n.cfg.Client.Servers[0], late)
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("a token that names the removed authority: %v", err)
	}
	s.mustServe()
	for _, server := range s.machines[:3] {
		copied := filepath.Join(server.running.config().Server.DataDir, "authority")
		awaitCondition(t, "the copy has the new authority alone", func() bool {
			content, err := os.ReadFile(copied)
			return err == nil && bytes.Contains(content, []byte(trusted[0])) &&
				!bytes.Contains(content, s.region.CertPEM())
		})
	}
}
