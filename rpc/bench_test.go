package rpc

import (
	"testing"

	"github.com/hashicorp/go-hclog"
)

// BenchmarkEcho is the least cost of a call over loopback, both ends together, over a session that reuses its
// streams, with TLS and without.
func BenchmarkEcho(b *testing.B) {
	plain := listen(b, NewServer(hclog.NewNullLogger(), echoEndpoint()), 0)
	secure, dial := securePort(b, NewServer(hclog.NewNullLogger(), echoEndpoint()), true)
	for _, c := range []struct {
		name string
		addr string
		pool *Pool
	}{
		{"plain", plain, newPool(b, nil)},
		{"TLS", secure, poolOf(b, dial)},
	} {
		call := func() {
			_, err := Call(b.Context(), c.pool.At(c.addr), echoMethod, &echo{"hello"})
			if err != nil {
				b.Error(err)
			}
		}
		b.Run(c.name+", one after the other", func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				call()
			}
		})
		b.Run(c.name+", many at once", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					call()
				}
			})
		})
	}
}

// BenchmarkConnect is the cost of a new connection, both ends together, with TLS and without.
func BenchmarkConnect(b *testing.B) {
	plain := listen(b, NewServer(hclog.NewNullLogger()), 0)
	secure, dial := securePort(b, NewServer(hclog.NewNullLogger()), true)
	for _, c := range []struct {
		name string
		addr string
		dial Dialer
	}{
		{"plain", plain, Dial},
		{"TLS", secure, dial},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				conn, err := c.dial(c.addr, dialTimeout)
				if err != nil {
					b.Fatal(err)
				}
				_ = conn.Close()
			}
		})
	}
}
