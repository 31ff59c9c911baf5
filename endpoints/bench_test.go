package endpoints

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/benchshape"
	"berth/rpc"
	"berth/state"
	"berth/structs"
)

// benchCluster is one server without a network and without a log on disk, with a fleet.
func benchCluster(b *testing.B, nodes int) *rpc.Server {
	store := state.New()
	raft := &fakeRaft{fsm: fsm.New(store), leader: "127.0.0.1:1", isMe: true}
	e := New(Deps{Store: store, Raft: raft, Leases: &noLeases{}, Logger: hclog.NewNullLogger()})
	s := rpc.NewServer(hclog.NewNullLogger(), e.List()...)
	b.Cleanup(s.Close)
	batch := store.Batch()
	for i := range nodes {
		if err := batch.Apply(uint64(i+1), func(tx *state.Write) error {
			return state.NodeRegister(tx, benchshape.Register(i, 0, benchshape.Plugin))
		}); err != nil {
			b.Fatal(err)
		}
	}
	batch.Commit()
	raft.index = uint64(nodes)
	return s
}

type noLeases struct{}

func (*noLeases) Renew(string) time.Duration { return 10 * time.Second }

// BenchmarkHeartbeatByFleet is a node that is known and has nothing new to say.
func BenchmarkHeartbeatByFleet(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000, 100000} {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := benchCluster(b, n)
			reqs := make([]*structs.NodeHeartbeatRequest, min(n, 1000))
			for i := range reqs {
				reqs[i] = &structs.NodeHeartbeatRequest{NodeID: benchshape.UUID("node", i), SecretID: benchshape.UUID("secret", i), Status: structs.NodeReady}
			}
			perCall(b, func(i int) error {
				_, err := rpc.Call(context.Background(), s, structs.NodeHeartbeat, reqs[i%len(reqs)])
				return err
			})
		})
	}
}

// BenchmarkRegisterByFleet is a node that registers again with a change of its plugin, encoded for the log and
// applied from it.
func BenchmarkRegisterByFleet(b *testing.B) {
	for _, n := range []int{10, 10000} {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := benchCluster(b, n)
			perCall(b, func(i int) error {
				_, err := rpc.Call(context.Background(), s, structs.NodeRegister, benchshape.Register(i%n, i+1, benchshape.Plugin))
				return err
			})
		})
	}
}

// perCall reports the clock and the CPU time of one call.
func perCall(b *testing.B, call func(i int) error) {
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuNow()
	for i := range b.N {
		if err := call(i); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/unit")
	b.ReportMetric(float64((cpuNow()-cpu).Nanoseconds())/float64(b.N), "cpu-ns/unit")
}

func cpuNow() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail for oneself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
