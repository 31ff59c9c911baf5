package rpc

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/structs"
)

// securePort serves on loopback with TLS until the test ends. It returns the address, and the dialer of
// an agent with the same certificate.
func securePort(t testing.TB, s *Server, only bool) (addr string, dial Dialer) {
	t.Helper()
	a := pkitest.New(t, "global")
	files := a.Files(t, pki.RoleServer, "s1")
	config := peertls.Config{
		Mode:     peertls.ModeRequire,
		CAFile:   a.CAFile,
		CertFile: files.Cert,
		KeyFile:  files.Key,
	}
	keys, err := peertls.Open(config, "global", pki.RoleServer, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handlers := map[byte]func(net.Conn){
		ByteRPC: s.ServeConn,
		ByteMux: s.ServeMux,
	}
	l := NewListener(ln, hclog.NewNullLogger(), handlers)
	servers := peertls.Roles(pki.RoleServer)
	l.Secure(keys.Server(servers), only)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		s.Close()
		wg.Wait()
	})
	return ln.Addr().String(), SecureDialer(Dial, keys.Client(servers), false)
}

// poolOf returns a pool with a dialer, which ends with the test.
func poolOf(t testing.TB, dial Dialer) *Pool {
	p := NewPool(dial, hclog.NewNullLogger(), nil)
	t.Cleanup(p.Close)
	return p
}

func TestSecure_TellsTheHandlerTheIdentityOfTheCaller(t *testing.T) {
	for name, secured := range map[string]bool{"TLS": true, "plain": false} {
		var peer pki.Identity
		var known bool
		notePeer := func(ctx context.Context, r *echo) (*echo, error) {
			peer, known = PeerFrom(ctx)
			return r, nil
		}
		srv := NewServer(hclog.NewNullLogger(), Handle(echoMethod, notePeer))
		addr, dial := securePort(t, srv, false)
		if !secured {
			dial = Dial
		}
		_, err := Call(context.Background(), poolOf(t, dial).At(addr), echoMethod, &echo{"hello"})
		if err != nil {
			t.Fatal(err)
		}
		if known != secured || secured && peer.String() != "spiffe://global/server/s1" {
			t.Errorf("%s: the identity is %v, %v", name, peer, known)
		}
	}
}

func TestSecure_RejectsConnectionsWithoutTLS(t *testing.T) {
	addr, dial := securePort(t, NewServer(hclog.NewNullLogger(), echoEndpoint()), true)
	_, err := Call(context.Background(), poolOf(t, dial).At(addr), echoMethod, &echo{"hello"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Call(context.Background(), poolOf(t, Dial).At(addr), echoMethod, &echo{"hello"})
	if err == nil || !IsTransport(err) {
		t.Fatalf("a call without TLS: %v", err)
	}
}

func TestSecure_APortWithoutTLSIsUnavailable(t *testing.T) {
	_, dial := securePort(t, NewServer(hclog.NewNullLogger()), true)
	plain := listen(t, NewServer(hclog.NewNullLogger(), echoEndpoint()), 0)
	_, err := Call(context.Background(), poolOf(t, dial).At(plain), echoMethod, &echo{"hello"})
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Fatalf("got %v", err)
	}
}
