package certificate

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/rpc"
	"berth/structs"
)

type echo struct{ Text string }

var (
	echoMethod = structs.Method[echo, echo]{Name: "Test.Echo"}
	slowMethod = structs.Method[echo, echo]{Name: "Test.Slow"}
)

// pipePort is a port on which pipes arrive.
type pipePort struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipePort) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipePort) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipePort) Addr() net.Addr { return &net.TCPAddr{} }

// renewable is the certificate of a server, which a test renews.
type renewable struct {
	*peertls.Keys
	*pkitest.Authority
	t *testing.T
}

func (r *renewable) files() pkitest.Files {
	return r.FilesOf(r.t, pki.Request{
		Identity: pki.Identity{Region: "global", Role: pki.RoleServer, ID: "s1"},
		From:     time.Now(),
		Life:     24 * time.Hour,
	})
}

func (r *renewable) renew() {
	r.t.Helper()
	r.files()
	_, err := r.Reload()
	if err != nil {
		r.t.Fatal(err)
	}
}

func newRenewable(t *testing.T) *renewable {
	t.Helper()
	r := &renewable{Authority: pkitest.New(t, "global"), t: t}
	files := r.files()
	var err error
	r.Keys, err = peertls.Open(peertls.Config{
		Mode:     peertls.ModeRequire,
		CAFile:   r.CAFile,
		CertFile: files.Cert,
		KeyFile:  files.Key,
	}, "global", pki.RoleServer, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// dropPooledTimers empties the pool of timers of yamux. A timer of one bubble ends the process when another
// bubble gets it from the pool. A sync.Pool loses its items in two collections.
func dropPooledTimers() {
	runtime.GC()
	runtime.GC()
}

// TestPool_NoCallIsLostWhenACertificateEnds calls each minute for three days, with a certificate that is
// renewed when two thirds of its day are over. A call that waits for ten minutes is always in flight.
func TestPool_NoCallIsLostWhenACertificateEnds(t *testing.T) {
	t.Cleanup(dropPooledTimers)
	synctest.Test(t, func(t *testing.T) {
		keys := newRenewable(t)
		same := func(_ context.Context, r *echo) (*echo, error) { return r, nil }
		slow := func(ctx context.Context, r *echo) (*echo, error) {
			select {
			case <-time.After(10 * time.Minute):
				return r, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		srv := rpc.NewServer(hclog.NewNullLogger(), rpc.Handle(echoMethod, same), rpc.Handle(slowMethod, slow))
		port := &pipePort{conns: make(chan net.Conn), closed: make(chan struct{})}
		l := rpc.NewListener(port, hclog.NewNullLogger(), map[byte]func(net.Conn){rpc.ByteMux: srv.ServeMux})
		servers := peertls.Roles(pki.RoleServer)
		l.Secure(keys.Server(servers), true)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { l.Run(ctx) })

		dials := 0
		connect := func(string, time.Duration) (net.Conn, error) {
			dials++
			near, far := net.Pipe()
			port.conns <- far
			return near, nil
		}
		pool := rpc.NewPool(rpc.SecureDialer(connect, keys.Client(servers), false), hclog.NewNullLogger(), nil)
		begin := time.Now()
		running.Go(func() {
			for time.Since(begin) < 72*time.Hour {
				_, err := rpc.Call(ctx, pool.At("s1:1"), slowMethod, &echo{"slow"})
				if err != nil {
					t.Errorf("a call that waits, %s after the begin: %v", time.Since(begin), err)
				}
			}
		})
		renewed := time.Now()
		for time.Since(begin) < 72*time.Hour {
			_, err := rpc.Call(ctx, pool.At("s1:1"), echoMethod, &echo{"hello"})
			if err != nil {
				t.Errorf("a call %s after the begin: %v", time.Since(begin), err)
			}
			time.Sleep(time.Minute)
			if time.Since(renewed) >= 16*time.Hour {
				renewed = time.Now()
				keys.renew()
			}
		}
		time.Sleep(time.Hour)
		if dials < 3 || dials > 5 {
			t.Errorf("%d connections in three days; expected one for each certificate", dials)
		}
		cancel()
		pool.Close()
		srv.Close()
		running.Wait()
	})
}
