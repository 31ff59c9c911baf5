package rpc

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

// emptyPools ends the use of what a sync.Pool keeps: yamux has its timers in one, and a timer of virtual time is of
// no use outside of its test.
func emptyPools() {
	runtime.GC() // it keeps what was used since the last collection
	runtime.GC()
}

// TestPool_NoCallIsLostWhenACertificateEnds calls each minute for three days, with a certificate that is renewed
// when two thirds of its day are over. A call that waits for ten minutes is always in flight.
// TestPool_NoCallIsLostWhenACertificateEnds calls each minute for three days, with a certificate that is
// renewed when two thirds of its day are over. A call that waits for ten minutes is always in flight.
func TestPool_NoCallIsLostWhenACertificateEnds(t *testing.T) {
	emptyPools()
	defer emptyPools()
	synctest.Test(t, func(t *testing.T) {
		keys := newRenewable(t)
		slow := func(ctx context.Context, r *echo) (*echo, error) {
			select {
			case <-time.After(10 * time.Minute):
				return r, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		srv := NewServer(hclog.NewNullLogger(), echoEndpoint(), Handle(hangMethod, slow))
		port := &pipePort{conns: make(chan net.Conn), closed: make(chan struct{})}
		l := NewListener(port, hclog.NewNullLogger(), map[byte]func(net.Conn){ByteMux: srv.ServeMux})
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
		pool := NewPool(SecureDialer(connect, keys.Client(servers), false), hclog.NewNullLogger(), nil)
		begin := time.Now()
		running.Go(func() {
			for time.Since(begin) < 72*time.Hour {
				_, err := Call(ctx, pool.At("s1:1"), hangMethod, &echo{"slow"})
				if err != nil {
					t.Errorf("a call that waits, %s after the begin: %v", time.Since(begin), err)
				}
			}
		})
		renewed := time.Now()
		for time.Since(begin) < 72*time.Hour {
			_, err := Call(ctx, pool.At("s1:1"), echoMethod, &echo{"hello"})
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
