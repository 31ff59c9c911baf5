package rpc

import (
	"testing"

	"github.com/hashicorp/go-hclog"
)

// BenchmarkEcho is the least cost of a call over loopback, both ends together, over a session that reuses its
// streams.
func BenchmarkEcho(b *testing.B) {
	addr := listen(b, NewServer(hclog.NewNullLogger(), echoEndpoint()), 0)
	pool := newPool(b, nil)
	call := func() {
		if _, err := Call(b.Context(), pool.At(addr), echoMethod, &echo{"hello"}); err != nil {
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
