package peertls

import (
	"bytes"
	"crypto/x509"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/structs"
)

// replacing is an authority that another one replaces.
type replacing struct {
	t      *testing.T
	former *pkitest.Authority
	next   *pki.Authority
	cross  []byte
}

func newReplacing(t *testing.T) *replacing {
	t.Helper()
	r := &replacing{t: t, former: pkitest.New(t, "global")}
	var err error
	r.next, r.cross, err = r.former.Replace(pki.Successor{
		Region: "global",
		From:   time.Now(),
		Life:   10 * pkitest.Life,
		Cross:  pkitest.Life,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// open opens keys of the former authority, in files of their own.
func (r *replacing) open(role pki.Role, id string) *Keys {
	r.t.Helper()
	k := open(r.t, r.former, role, id)
	k.cfg.CAFile = r.t.TempDir() + "/ca.pem"
	pkitest.Write(r.t, k.cfg.CAFile, r.former.CertPEM())
	return k
}

// renew gives keys a certificate of the new authority.
func (r *replacing) renew(k *Keys, trusted ...*pki.Authority) {
	r.t.Helper()
	err := r.tryRenew(k, trusted...)
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *replacing) tryRenew(k *Keys, trusted ...*pki.Authority) error {
	r.t.Helper()
	der, err := k.CSR()
	if err != nil {
		r.t.Fatal(err)
	}
	csr, err := pki.ParseCSR(der)
	if err != nil {
		r.t.Fatal(err)
	}
	cert, err := r.next.Sign(csr.Public, pki.Request{
		Identity: csr.Identity,
		From:     time.Now(),
		Life:     pkitest.Life,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	var authorities bytes.Buffer
	for _, a := range trusted {
		authorities.Write(a.CertPEM())
	}
	return k.Replace(append(cert, r.cross...), authorities.Bytes())
}

// The agent may end between two writes, and must start again.
func TestReplace_TheFilesAreValidBetweenTheWrites(t *testing.T) {
	r := newReplacing(t)
	k := r.open(pki.RoleNode, "n1")
	cfg := k.cfg
	k.cfg.CertFile = t.TempDir() + "/missing/cert.pem" // the second write fails
	if r.tryRenew(k, r.next) == nil {
		t.Fatal("the certificate was written")
	}
	k, err := Open(cfg, "global", pki.RoleNode, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	r.renew(k, r.next)
	if !k.Follows([]string{pki.AuthorityID(r.next.Cert)}) {
		t.Error("it trusts others, too")
	}
}

// An answer of others has a certificate of their own authority. The rows of a server are its own: they have
// another authority without a cross certificate after a restore.
func TestReplace_ANodeTakesAnAuthorityThatItsOwnHasSignedAlone(t *testing.T) {
	for role, taken := range map[pki.Role]bool{pki.RoleNode: false, pki.RoleServer: true} {
		r := newReplacing(t)
		k := r.open(role, "m1")
		other := newReplacing(t)
		r.next, r.cross = other.next, other.cross
		err := r.tryRenew(k, r.next, r.former.Authority)
		if (err == nil) != taken || !taken && !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("a %s: %v; expected taken %v", role, err, taken)
		}
		if changed := !k.Follows([]string{pki.AuthorityID(r.former.Cert)}); changed != taken {
			t.Errorf("a %s: it follows others: %v; expected %v", role, changed, taken)
		}
		got, err := os.ReadFile(k.cfg.CAFile)
		if err != nil || bytes.Equal(got, r.former.CertPEM()) == taken {
			t.Errorf("a %s: the file of the authorities has changed or stayed: %v", role, err)
		}
	}
}

func TestFollows_ComparesTheAuthoritiesAndTheSigner(t *testing.T) {
	r := newReplacing(t)
	k := r.open(pki.RoleNode, "n1")
	former, next := pki.AuthorityID(r.former.Cert), pki.AuthorityID(r.next.Cert)
	check := func(when string, want bool, ids ...string) {
		t.Helper()
		if got := k.Follows(ids); got != want {
			t.Errorf("%s: %v; expected %v", when, got, want)
		}
	}
	check("before", true, former)
	check("a new one", false, next, former)
	pkitest.Write(t, k.cfg.CAFile, append(r.former.CertPEM(), r.next.CertPEM()...))
	_, err := k.Reload()
	if err != nil {
		t.Fatal(err)
	}
	check("a certificate of the former one", false, next, former)
	r.renew(k, r.next, r.former.Authority)
	check("after", true, next, former)
	check("a removed one", false, next)
}

// Agents of the former authority alone and of the new one take each other's certificates.
func TestReplacedAuthority_AgentsBeforeAndAfterConnect(t *testing.T) {
	r := newReplacing(t)
	for name, c := range map[string]struct{ server, client bool }{
		"a new server": {true, false},
		"a new client": {false, true},
		"both":         {true, true},
	} {
		server, client := r.open(pki.RoleServer, "s1"), r.open(pki.RoleNode, "n1")
		if c.server {
			r.renew(server, r.next, r.former.Authority)
		}
		if c.client {
			r.renew(client, r.next, r.former.Authority)
		}
		addr := echo(t, server.Server(Roles(pki.RoleNode)))
		conn, err := dial(t, dialing(addr, client.Client(Roles(pki.RoleServer)), false))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		mustEcho(t, conn)
	}
}

func TestReplacedAuthority_AJoiningMachineKnowsEachOfThem(t *testing.T) {
	r := newReplacing(t)
	server := r.open(pki.RoleServer, "s1")
	r.renew(server, r.next, r.former.Authority)
	addr := echo(t, server.Joins())
	for name, by := range map[string]*pki.Authority{"former": r.former.Authority, "new": r.next} {
		_, err := dial(t, dialing(addr, JoinClient("global", pki.Fingerprint(by.Cert)), false))
		if err != nil {
			t.Errorf("the token of the %s authority: %v", name, err)
		}
	}
	r.renew(server, r.next)
	_, err := dial(t, dialing(addr, JoinClient("global", pki.Fingerprint(r.former.Cert)), false))
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("the token of a removed authority: %v; expected denied", err)
	}
}

// Both ends end their connections with a machine of a removed authority, and take no others.
func TestRemovedAuthority_ItsConnectionsEnd(t *testing.T) {
	for name, c := range map[string]struct{ ofServer bool }{
		"the server removes it": {true},
		"the client removes it": {false},
	} {
		r := newReplacing(t)
		server, client := r.open(pki.RoleServer, "s1"), r.open(pki.RoleNode, "n1")
		other := r.open(pki.RoleNode, "n2")
		r.renew(server, r.next, r.former.Authority)
		r.renew(other, r.next, r.former.Authority)
		removes := server
		if !c.ofServer {
			removes = client
			server = r.open(pki.RoleServer, "s2")
			r.renew(client, r.next, r.former.Authority)
		}
		addr := echo(t, server.Server(Roles(pki.RoleNode)))
		var conns []net.Conn
		for _, k := range []*Keys{client, other} {
			conn, err := dial(t, dialing(addr, k.Client(Roles(pki.RoleServer)), false))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			mustEcho(t, conn)
			conns = append(conns, conn)
		}
		r.renew(removes, r.next)
		awaitEnd(t, conns[0])
		mustEcho(t, conns[1])
		conn, err := dial(t, dialing(addr, client.Client(Roles(pki.RoleServer)), false))
		if err == nil {
			awaitEnd(t, conn)
		}
	}
}

// The file has the removed authority, too. A server that does not renew, or cannot, does not write it.
func TestSetRemoved_EndsTheTrustInAnAuthorityOfTheFile(t *testing.T) {
	r := newReplacing(t)
	server, client := r.open(pki.RoleServer, "s1"), r.open(pki.RoleNode, "n1")
	other := r.open(pki.RoleNode, "n2")
	former := []string{pki.AuthorityID(r.former.Cert)}
	r.renew(other, r.next, r.former.Authority)
	addr := echo(t, server.Server(Roles(pki.RoleNode)))
	open := func(k *Keys) net.Conn {
		conn, err := dial(t, dialing(addr, k.Client(Roles(pki.RoleServer)), false))
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}

	server.SetRemoved(former) // its own certificate is of it
	mustEcho(t, open(client))
	server.SetRemoved(nil)
	r.renew(server, r.next, r.former.Authority)
	conn, stays := open(client), open(other)
	mustEcho(t, conn)
	server.SetRemoved(former)
	awaitEnd(t, conn)
	mustEcho(t, stays)
	conn, err := dial(t, dialing(addr, client.Client(Roles(pki.RoleServer)), false))
	if err == nil {
		awaitEnd(t, conn)
	}
	pkitest.Write(t, server.cfg.CAFile, append(r.former.CertPEM(), r.next.CertPEM()...)) // another order
	changed, err := server.Reload()
	if err != nil || !changed || server.checkTrust([]*x509.Certificate{client.current.Load().cert.Leaf}) == nil {
		t.Errorf("it is trusted once the file was read again: %v, %v", changed, err)
	}
}

// The files are read every few seconds.
func TestSetRemoved_WarnsOnce(t *testing.T) {
	r := newReplacing(t)
	server := r.open(pki.RoleServer, "s1")
	var log bytes.Buffer
	server.logger = hclog.New(&hclog.LoggerOptions{Output: &log})
	for range 3 {
		server.SetRemoved([]string{pki.AuthorityID(r.former.Cert)})
		_, err := server.Reload()
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "replace both files"); n != 1 {
		t.Errorf("%d warnings; expected one: %s", n, log.String())
	}
}

// A certificate of the removed authority is replaced by one of the new one: from then on it is not trusted.
func TestSetRemoved_TakesEffectWithTheNextCertificate(t *testing.T) {
	r := newReplacing(t)
	server, client := r.open(pki.RoleServer, "s1"), r.open(pki.RoleNode, "n1")
	server.SetRemoved([]string{pki.AuthorityID(r.former.Cert)})
	chain := []*x509.Certificate{client.current.Load().cert.Leaf}
	if err := server.checkTrust(chain); err != nil {
		t.Errorf("before: %v", err)
	}
	r.renew(server, r.next, r.former.Authority)
	if server.checkTrust(chain) == nil {
		t.Error("the removed authority is trusted")
	}
}

// The file of the authorities stays as it is.
func TestSetRemoved_ANewCertificateAloneEndsConnections(t *testing.T) {
	r := newReplacing(t)
	server, client := r.open(pki.RoleServer, "s1"), r.open(pki.RoleNode, "n1")
	both := append(r.former.CertPEM(), r.next.CertPEM()...)
	pkitest.Write(t, server.cfg.CAFile, both)
	_, err := server.Reload()
	if err != nil {
		t.Fatal(err)
	}
	server.SetRemoved([]string{pki.AuthorityID(r.former.Cert)})
	addr := echo(t, server.Server(Roles(pki.RoleNode)))
	conn, err := dial(t, dialing(addr, client.Client(Roles(pki.RoleServer)), false))
	if err != nil {
		t.Fatal(err)
	}
	mustEcho(t, conn)

	r.renew(server, r.former.Authority, r.next)
	if !bytes.Equal(server.current.Load().raw[0], both) {
		t.Fatal("the file of the authorities has changed")
	}
	awaitEnd(t, conn)
}

// A server that was off for so long has the former authority alone. Both ends say what helps.
func TestReplacedAuthority_AServerThatWasOffForTooLongIsToldToJoinAgain(t *testing.T) {
	r := newReplacing(t)
	off, other := r.open(pki.RoleServer, "s1"), r.open(pki.RoleServer, "s2")
	r.cross = nil // the servers no longer give it out
	pkitest.Write(t, other.cfg.CAFile, append(r.former.CertPEM(), r.next.CertPEM()...))
	_, err := other.Reload()
	if err != nil {
		t.Fatal(err)
	}
	r.renew(other, r.next)
	for name, k := range map[string][2]*Keys{"the one that was off": {off, other}, "the other": {other, off}} {
		err := k[0].checkTrust([]*x509.Certificate{k[1].current.Load().cert.Leaf})
		if err == nil || !strings.Contains(err.Error(), "`berth server join-token create`") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A handshake that was verified before the removal must not leave a connection behind.
func TestRemovedAuthority_AHandshakeMeanwhileIsRejected(t *testing.T) {
	r := newReplacing(t)
	server, client := r.open(pki.RoleServer, "s1"), r.open(pki.RoleNode, "n1")
	near, _ := piped(t, server, client)
	state := near.ConnectionState()
	r.renew(server, r.next)
	far, raw := net.Pipe()
	defer func() { _ = far.Close() }()
	conn := NewConn(raw)
	defer func() { _ = conn.Close() }()
	if err := server.hold(conn, state); !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("got %v; expected denied", err)
	}
}

func TestRetireAt_IsPastOnceAnotherAuthorityHasSigned(t *testing.T) {
	r := newReplacing(t)
	server, client := r.open(pki.RoleServer, "s1"), r.open(pki.RoleNode, "n1")
	_, conn := piped(t, server, client)
	if !RetireAt(conn).After(time.Now()) {
		t.Error("a new connection retires")
	}
	r.renew(client, r.next, r.former.Authority)
	if at := RetireAt(conn); at.IsZero() || at.After(time.Now()) {
		t.Errorf("it retires at %s", at)
	}
	_, conn = piped(t, server, client)
	if !RetireAt(conn).After(time.Now()) {
		t.Error("a connection with the new certificate retires")
	}
}
