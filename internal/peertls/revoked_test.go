package peertls

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/structs"
	"berth/structs/cluster"
)

// awaitEnd reads a connection until the other end closes it.
func awaitEnd(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	_, err := io.Copy(io.Discard, conn)
	if os.IsTimeout(err) {
		t.Error("the connection is open")
	}
}

// revoking makes keys ask a set of revocations, which a test changes.
func revoking(k *Keys) (revoke func(role pki.Role, id string)) {
	var known sync.Map
	k.SetRevoked(func(c cluster.CertificateRef) *cluster.Revocation {
		if _, ok := known.Load(c.Role + c.ID); ok {
			return &cluster.Revocation{ID: c.Role + "-" + c.ID}
		}
		return nil
	})
	return func(role pki.Role, id string) {
		known.Store(string(role)+id, true)
		k.CloseRevoked()
	}
}

func TestRevoked_TheServerEndsOpenConnectionsAndTakesNoOthers(t *testing.T) {
	a := pkitest.New(t, "global")
	server := open(t, a, pki.RoleServer, "s1")
	revoke := revoking(server)
	addr := echo(t, server.Server(Roles(pki.RoleNode)))
	conns := map[string]net.Conn{}
	ways := map[string]Dialing{}
	for _, id := range []string{"n1", "n2"} {
		client := open(t, a, pki.RoleNode, id)
		ways[id] = dialing(addr, client.Client(Roles(pki.RoleServer)), false)
		conn, err := dial(t, ways[id])
		if err != nil {
			t.Fatal(err)
		}
		mustEcho(t, conn)
		conns[id] = conn
	}

	revoke(pki.RoleNode, "n1")
	awaitEnd(t, conns["n1"])
	mustEcho(t, conns["n2"])
	conn, err := dial(t, ways["n1"])
	if err == nil {
		awaitEnd(t, conn)
	}
	awaitHeld(t, server, 1)
}

// awaitHeld waits until keys hold a number of connections: the other end of one sees its end before the
// keys do.
func awaitHeld(t *testing.T, k *Keys, want int) {
	t.Helper()
	held := 0
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		held = len(k.open.all())
		if held == want {
			return
		}
	}
	t.Errorf("%d connections are held; expected %d", held, want)
}

func TestRevoked_TheClientEndsItsConnectionsToARevokedServer(t *testing.T) {
	a := pkitest.New(t, "global")
	server := open(t, a, pki.RoleServer, "s1")
	client := open(t, a, pki.RoleNode, "n1")
	revoke := revoking(client)
	d := dialing(echo(t, server.Server(Roles(pki.RoleNode))), client.Client(Roles(pki.RoleServer)), false)
	conn, err := dial(t, d)
	if err != nil {
		t.Fatal(err)
	}
	mustEcho(t, conn)
	revoke(pki.RoleServer, "s1")
	awaitEnd(t, conn)
	_, err = dial(t, d)
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("a new connection: %v; expected denied", err)
	}
	awaitHeld(t, client, 0)
}

// piped returns the two ends of a connection between a server and a client, after the handshake.
func piped(t *testing.T, server, client *Keys) (atServer *tls.Conn, atClient net.Conn) {
	t.Helper()
	return pipedTo(t, server.Server(Roles(pki.RoleNode)), client)
}

// pipedTo is piped with the configuration of a port.
func pipedTo(t *testing.T, port *tls.Config, client *Keys) (atServer *tls.Conn, atClient net.Conn) {
	t.Helper()
	near, far := pipe()
	secured := tls.Server(NewConn(far), port)
	shaken := make(chan error, 1)
	go func() {
		err := secured.Handshake()
		if err == nil {
			_, err = secured.Write([]byte{1})
		}
		shaken <- err
	}()
	conn, err := Dialing{
		Connect: func(context.Context) (net.Conn, error) { return near, nil },
		Answer:  true,
		TLS:     client.Client(Roles(pki.RoleServer)),
	}.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = <-shaken
	if err != nil {
		t.Fatal(err)
	}
	return secured, conn
}

// openFor opens keys whose certificate ends after a time.
func openFor(t *testing.T, a *pkitest.Authority, role pki.Role, life time.Duration) *Keys {
	t.Helper()
	a.FilesOf(t, pki.Request{
		Identity: pki.Identity{Region: "global", Role: role, ID: "x"},
		From:     time.Now(),
		Life:     life,
	})
	base := a.Dir + "/" + string(role) + "-x"
	keys, err := Open(configOf(a, pkitest.Files{Cert: base + ".pem", Key: base + "-key.pem"}),
		"global", role, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// checkEnd reads both ends of a connection, which end at a time, and closes them.
func checkEnd(t *testing.T, want time.Time, near, far net.Conn) {
	t.Helper()
	ended := make(chan time.Time, 1)
	go func() {
		_, _ = io.Copy(io.Discard, far)
		ended <- time.Now()
	}()
	_, _ = io.Copy(io.Discard, near)
	for _, at := range []time.Time{time.Now(), <-ended} {
		if early := want.Sub(at); early < 0 || early > time.Second {
			t.Errorf("an end of the connection ends at %s; expected %s", at, want)
		}
	}
	_ = near.Close()
	_ = far.Close()
}

func TestConn_EndsWithTheCertificateOfItsOtherEnd(t *testing.T) {
	for name, c := range map[string]struct{ ofServer, ofClient time.Duration }{
		"the client's": {5 * time.Hour, 2 * time.Hour},
		"the server's": {2 * time.Hour, 5 * time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := pkitest.New(t, "global")
			server := openFor(t, a, pki.RoleServer, c.ofServer)
			client := openFor(t, a, pki.RoleNode, c.ofClient)
			near, far := piped(t, server, client)
			checkEnd(t, time.Now().Add(2*time.Hour), near, far)
			if n := len(server.open.all()) + len(client.open.all()); n != 0 {
				t.Errorf("%s: %d connections are held", name, n)
			}
		})
	}
}

func TestRetireAt_IsBeforeTheFirstEndThatANewConnectionDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := pkitest.New(t, "global")
		server := openFor(t, a, pki.RoleServer, 24*time.Hour)
		client := openFor(t, a, pki.RoleNode, 19*time.Minute+time.Hour)
		begin := time.Now()
		for _, c := range []struct{ after, want time.Duration }{
			{0, 79*time.Minute - 13*time.Minute - 54*time.Second},
			{79*time.Minute - time.Second, 24*time.Hour - 15*time.Minute},
		} {
			time.Sleep(time.Until(begin.Add(c.after)))
			near, far := piped(t, server, client)
			if got := RetireAt(far).Sub(begin); got != c.want {
				t.Errorf("opened after %s: retires after %s, want %s", c.after, got, c.want)
			}
			_ = far.Close()
			_ = near.Close()
		}
		if !RetireAt(&net.TCPConn{}).IsZero() {
			t.Error("a connection without TLS retires")
		}
	})
}
