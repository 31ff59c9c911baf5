package rpc

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// BenchmarkEcho is the least cost of a call over loopback, both ends together, over a session that reuses its
// streams.
func BenchmarkEcho(b *testing.B) {
	srv := NewServer(hclog.NewNullLogger(),
		Handle(echoMethod, func(_ context.Context, r *echo) (*echo, error) { return r, nil }))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		NewListener(ln, hclog.NewNullLogger(), map[byte]func(net.Conn){ByteMux: srv.ServeMux}).Run(ctx)
	})
	pool := NewPool(Dial, hclog.NewNullLogger(), nil)
	b.Cleanup(func() { pool.Close(); cancel(); srv.Close(); wg.Wait() })
	call := func() {
		if _, err := Call(ctx, pool.At(ln.Addr().String()), echoMethod, &echo{"hello"}); err != nil {
			b.Error(err)
		}
	}
	b.Run("one after the other", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			call()
		}
	})
	b.Run("many at once", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(16)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				call()
			}
		})
	})
}
