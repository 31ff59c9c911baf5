package peertls

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/structs"
	"berth/structs/cluster"
)

// asked is the outcome of a question of a port on the certificate of a caller.
type asked struct {
	resumed bool
	err     error
}

// noting returns a configuration of Keys.Server that also tells a channel each outcome of its questions.
func noting(port *tls.Config) (noted *tls.Config, outcomes chan asked) {
	outcomes = make(chan asked, 100)
	noted = port.Clone()
	noted.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		own, err := port.GetConfigForClient(hello)
		if err != nil {
			return nil, err
		}
		verify := own.VerifyConnection
		own.VerifyConnection = func(s tls.ConnectionState) error {
			err := verify(s)
			outcomes <- asked{s.DidResume, err}
			return err
		}
		return own, nil
	}
	return noted, outcomes
}

// link has the keys of a server and of a node, and the port of the server.
type link struct {
	a              *pkitest.Authority
	server, client *Keys
	accept         Accept // of the server; nil: nodes
	port           *tls.Config
	asked          chan asked
	addr           string
}

func newLink(t *testing.T) *link {
	a := pkitest.New(t, "global")
	l := &link{
		a:      a,
		server: open(t, a, pki.RoleServer, "s1"),
		client: open(t, a, pki.RoleNode, "n1"),
	}
	l.listen(t)
	return l
}

// listen opens the port.
func (l *link) listen(t *testing.T) {
	l.port, l.asked = noting(l.server.Server(func(id pki.Identity) error {
		if l.accept != nil {
			return l.accept(id)
		}
		return Roles(pki.RoleNode)(id)
	}))
	l.addr = echo(t, l.port)
}

// mustConnect connects, and checks whether it resumes a session at both ends.
func (l *link) mustConnect(t *testing.T, resumes bool) *tls.Conn {
	t.Helper()
	conn, err := dial(t, dialing(l.addr, l.client.Client(Roles(pki.RoleServer)), false))
	if err != nil {
		t.Fatal(err)
	}
	mustEcho(t, conn) // reads the ticket, too
	secured := conn.(*tls.Conn)
	got := secured.ConnectionState().DidResume
	outcome := <-l.asked
	if got != resumes || outcome.resumed != resumes || outcome.err != nil {
		t.Fatalf("resumed %v, at the server %v, %v; expected %v", got, outcome.resumed, outcome.err, resumes)
	}
	return secured
}

// checkRejected connects, and checks that the port rejects the caller, by a session that it resumes or not.
func (l *link) checkRejected(t *testing.T, resumes bool) {
	t.Helper()
	conn, err := dial(t, dialing(l.addr, l.client.Client(Roles(pki.RoleServer)), false))
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = conn.Write([]byte{1})
		_, err = conn.Read(make([]byte, 1))
	}
	outcome := <-l.asked
	if err == nil || os.IsTimeout(err) || outcome.err == nil || outcome.resumed != resumes {
		t.Errorf("error %v; the server: resumed %v, error %v", err, outcome.resumed, outcome.err)
	}
}

func TestClient_ResumesASessionOfTheSameServer(t *testing.T) {
	l := newLink(t)
	l.mustConnect(t, false)
	l.mustConnect(t, true)
	l.mustConnect(t, true)
	l.listen(t) // at another address
	l.mustConnect(t, false)
}

// A session of another server at the same address is not that of the server which answers there.
func TestClient_HasTheCertificateOfTheServerThatAnswers(t *testing.T) {
	a := pkitest.New(t, "global")
	client := open(t, a, pki.RoleNode, "n1")
	for _, id := range []string{"s1", "s2", "s1"} {
		server := open(t, a, pki.RoleServer, id)
		near, far := pipe() // each pipe has the same address
		d := Dialing{
			Connect: func(context.Context) (net.Conn, error) { return near, nil },
			Answer:  true,
			TLS:     client.Client(Roles(pki.RoleServer)),
		}
		secured := tls.Server(NewConn(far), server.Server(Roles(pki.RoleNode)))
		answered := make(chan error, 1)
		go func() {
			_, err := secured.Write([]byte{1})
			answered <- err
		}()
		conn, err := d.Dial(t.Context())
		if err == nil {
			err = <-answered
		}
		if err != nil {
			t.Fatal(err)
		}
		got, _ := PeerOf(conn.(*tls.Conn).ConnectionState())
		if got.ID != id {
			t.Errorf("the other end is %s; expected %s", got, id)
		}
		_ = far.Close()
		_ = conn.Close()
	}
}

func TestClient_ResumesNoSessionOfAFormerCertificate(t *testing.T) {
	l := newLink(t)
	l.mustConnect(t, false)
	for name, c := range map[string]struct {
		keys *Keys
		role pki.Role
		id   string
	}{
		"of the node":   {l.client, pki.RoleNode, "n1"},
		"of the server": {l.server, pki.RoleServer, "s1"},
	} {
		l.mustConnect(t, true)
		l.a.Files(t, c.role, c.id) // another certificate in the same files
		changed, err := c.keys.Reload()
		if err != nil || !changed {
			t.Fatalf("%s: changed %v, %v", name, changed, err)
		}
		conn := l.mustConnect(t, false)
		if got := pki.Serial(conn.ConnectionState().PeerCertificates[0]); got != l.server.Serial() {
			t.Errorf("%s: the server has the certificate %s; expected %s", name, got, l.server.Serial())
		}
	}
}

func TestServer_VerifiesAResumedSession(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*testing.T, *link)
		resumes bool // else a new handshake is rejected
	}{
		"revoked": {func(_ *testing.T, l *link) {
			l.server.SetRevoked(func(cluster.CertificateRef) *cluster.Revocation { return &cluster.Revocation{} })
		}, true},
		"a role that is not accepted any more": {func(_ *testing.T, l *link) {
			l.accept = Roles(pki.RoleServer)
		}, true},
		"the authority is not known any more": {func(t *testing.T, l *link) {
			former := l.server.current.Load()
			l.moveServer(t)
			// The tickets of the former authority are not readable: the question itself has to reject, too.
			next := *l.server.current.Load()
			next.resumption = former.resumption
			l.server.current.Store(&next)
		}, true},
		"the authority is not known any more, nor the ticket": {func(t *testing.T, l *link) {
			l.moveServer(t)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLink(t)
			l.mustConnect(t, false)
			l.mustConnect(t, true)
			c.change(t, l)
			l.checkRejected(t, c.resumes)
		})
	}
}

// moveServer gives the server files of another authority alone. The client still trusts its certificate.
func (l *link) moveServer(t *testing.T) {
	t.Helper()
	other := pkitest.New(t, "global")
	both := append(l.a.CertPEM(), other.CertPEM()...)
	pkitest.Write(t, l.client.cfg.CAFile, both)
	for _, k := range []*Keys{l.client, l.server} {
		former := k.current.Load()
		if k == l.server {
			k.cfg = configOf(other, other.Files(t, pki.RoleServer, "s1"))
		}
		_, err := k.Reload()
		if err != nil {
			t.Fatal(err)
		}
		if k == l.client {
			next := *k.current.Load()
			next.resumption = former.resumption
			k.current.Store(&next)
		}
	}
}

func TestServer_VerifiesTheTimeOfAResumedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := pkitest.New(t, "global")
		server := openFor(t, a, pki.RoleServer, 5*time.Hour)
		client := openFor(t, a, pki.RoleNode, 2*time.Hour)
		port, outcomes := noting(server.Server(Roles(pki.RoleNode)))
		for _, want := range []asked{{false, nil}, {true, nil}, {false, errors.New("expired")}} {
			if want.err != nil {
				time.Sleep(2*time.Hour + time.Second)
			}
			near, far := pipe()
			conn := NewConn(near)
			config := client.Client(Roles(pki.RoleServer))(conn)
			atServer := tls.Server(NewConn(far), port)
			go func() {
				_, _ = io.Copy(atServer, atServer)
				_ = far.Close()
			}()
			atClient := tls.Client(conn, config)
			err := atClient.Handshake()
			go func() { _, _ = atClient.Write([]byte{7}) }() // a pipe keeps nothing: the port may write, too
			if err == nil {
				_, err = io.ReadFull(atClient, make([]byte, 1))
			}
			got := <-outcomes
			fails := want.err != nil
			if got.resumed != want.resumed || (got.err != nil) != fails || (err != nil) != fails {
				t.Errorf("resumed %v, %v; the client: %v; expected %v", got.resumed, got.err, err, want)
			}
			_ = near.Close()
			_ = far.Close()
		}
	})
}

func TestClient_VerifiesAResumedSession(t *testing.T) {
	l := newLink(t)
	revoke := revoking(l.client)
	l.mustConnect(t, false)
	l.mustConnect(t, true)
	d := dialing(l.addr, l.client.Client(Roles(pki.RoleOperator)), false)
	_, err := dial(t, d)
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("another role: %v; expected denied", err)
	}
	revoke(pki.RoleServer, "s1")
	_, err = dial(t, dialing(l.addr, l.client.Client(Roles(pki.RoleServer)), false))
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("a revoked server: %v; expected denied", err)
	}
	awaitHeld(t, l.client, 0)
}

// The former certificate of a server is revoked by its serial number, and the server has another one.
func TestClient_ConnectsToAServerWhoseFormerCertificateIsRevoked(t *testing.T) {
	l := newLink(t)
	l.mustConnect(t, false)
	former := l.server.Serial()
	l.client.SetRevoked(func(c cluster.CertificateRef) *cluster.Revocation {
		if c.Serial == former {
			return &cluster.Revocation{}
		}
		return nil
	})
	l.a.Files(t, pki.RoleServer, "s1")
	_, err := l.server.Reload()
	if err != nil {
		t.Fatal(err)
	}
	l.mustConnect(t, false)
}

func TestConn_OfAResumedSessionEndsWithTheCertificates(t *testing.T) {
	for name, c := range map[string]struct{ ofServer, ofClient time.Duration }{
		"the client's": {5 * time.Hour, 2 * time.Hour},
		"the server's": {2 * time.Hour, 5 * time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := pkitest.New(t, "global")
			client := openFor(t, a, pki.RoleNode, c.ofClient)
			port := openFor(t, a, pki.RoleServer, c.ofServer).Server(Roles(pki.RoleNode))
			begin := time.Now()
			former, far := pipedTo(t, port, client)
			_ = far.Close()
			_ = former.Close()

			time.Sleep(time.Hour)
			near, far := pipedTo(t, port, client)
			if !far.(*tls.Conn).ConnectionState().DidResume || !near.ConnectionState().DidResume {
				t.Errorf("%s: the session is not resumed", name)
			}
			if got := RetireAt(far).Sub(begin); got != 2*time.Hour-15*time.Minute {
				t.Errorf("%s: retires after %s", name, got)
			}
			checkEnd(t, begin.Add(2*time.Hour), near, far)
		})
	}
}

func TestOpen_KeepsTheSessionsWhileTheFilesStay(t *testing.T) {
	l := newLink(t)
	l.mustConnect(t, false)
	for _, k := range []*Keys{l.client, l.server} {
		changed, err := k.Reload()
		if err != nil || changed {
			t.Fatalf("changed %v, %v", changed, err)
		}
	}
	l.mustConnect(t, true)
	again, err := Open(l.client.cfg, "global", pki.RoleNode, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	l.client = again
	l.mustConnect(t, false)
}
