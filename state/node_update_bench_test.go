package state_test

import (
	"testing"

	"berth/bench/shape"
	"berth/structs"
	"berth/test/kit"
)

// flipped returns a registered node whose driver reports another state each time.
func flipped(i, rev int) *structs.Node {
	n := shape.Node(i)
	n.Drivers = map[string]*structs.DriverInfo{
		"exec":     {Detected: true, Healthy: rev%2 == 0},
		"raw_exec": {Detected: true, Healthy: true},
	}
	return n
}

// BenchmarkDriverFlips registers a known node whose driver changes. The node registers as a whole.
func BenchmarkDriverFlips(b *testing.B) {
	bySize(b, "N", benchSizes, func(b *testing.B, n int) {
		s := flippedStore(b, n)
		kit.MeasurePrepared(b, 1, kit.AtOnce, func(i int) *structs.NodeRegisterRequest {
			r := shape.Register(i%n, 0, shape.Plugin)
			r.Node = flipped(i%n, i/n+1)
			return r
		}, s.register)
	})
}

func flippedStore(b *testing.B, n int) *benchStore {
	s := benchFill{nodes: n, shared: -1}.store(b)
	for i := range n {
		r := shape.Register(i, 0, shape.Plugin)
		r.Node = flipped(i, 0)
		s.register(r)
	}
	return s
}
