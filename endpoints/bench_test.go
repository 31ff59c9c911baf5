package endpoints_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/bench/shape"
	"berth/endpoints"
	"berth/endpoints/core"
	"berth/internal/agenttest"
	"berth/internal/level"
	"berth/rpc"
	"berth/server/control"
	"berth/server/control/loop"
	"berth/server/leases"
	"berth/state"
	"berth/structs"
	"berth/test/kit"
)

// benchFleet is one server without a network and without a log on disk. It keeps the leases of its fleet like
// a leader. A lease takes an hour, so none ends during the measurement.
func benchFleet(b *testing.B, nodes int) *rpc.Server {
	store := state.New()
	batch := store.Begin()
	for i := range nodes {
		err := batch.Apply(uint64(i+1), func(tx *state.WriteTx) error {
			return state.NodeRegister(tx, shape.Register(i, 0, shape.Plugin))
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	batch.Commit()
	config := leases.Config{TTL: 10 * time.Second, Grace: 10 * time.Second}
	config.MaxPerSecond = float64(nodes) / time.Hour.Seconds()
	granted := leases.New(config, nil)
	raft := benchRaft(store)
	e := endpoints.New(core.Deps{
		Store:  store,
		Raft:   raft,
		Leases: granted,
		Logger: hclog.NewNullLogger(),
		Level:  func() int { return level.Now },
	})
	s := rpc.NewServer(hclog.NewNullLogger(), e.List()...)
	b.Cleanup(s.Close)
	lead(b, control.Deps{
		Common: loop.Common{
			Store:    store,
			Proposer: raft,
			Logger:   hclog.NewNullLogger(),
		},
		Leases: granted,
		Term:   1,
		Config: control.DefaultConfig(),
	})
	for { // until the loop grants leases
		_, err := granted.Renew(shape.UUID("node", 0), &structs.AgentProof{Nonce: "x"})
		if err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return s
}

// lead runs the leader loop of the leases until the end of the benchmark.
func lead(b *testing.B, deps control.Deps) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	for _, loop := range control.Loops(deps) {
		if loop.Name == "leases" {
			go func() {
				defer close(ended)
				loop.Run(ctx)
			}()
		}
	}
	b.Cleanup(func() {
		cancel()
		<-ended
	})
}

// byFleet measures a procedure that each node of a fleet calls in turn, in fleets of every size.
func byFleet[Req, Resp any](b *testing.B, m structs.Method[Req, Resp], request func(i, n int) *Req) {
	for _, n := range []int{10, 100, 1000, 10000, 100000} {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			s := benchFleet(b, n)
			kit.MeasurePrepared(b, 1, kit.AtOnce, func(i int) *Req {
				return agenttest.Request(request(i, n))
			}, func(r *Req) {
				if _, err := rpc.Call(context.Background(), s, m, r); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkHeartbeatByFleet is the heartbeat of a known node without changes: the whole procedure without the
// network.
func BenchmarkHeartbeatByFleet(b *testing.B) {
	byFleet(b, structs.NodeHeartbeat, func(i, n int) *structs.NodeHeartbeatRequest {
		return &structs.NodeHeartbeatRequest{
			NodeID:   shape.UUID("node", i%n),
			SecretID: shape.UUID("secret", i%n),
			Status:   structs.NodeReady,
		}
	})
}

// BenchmarkRegisterByFleet registers a node again with a change of its plugin, encoded for the log and
// applied from it.
func BenchmarkRegisterByFleet(b *testing.B) {
	byFleet(b, structs.NodeRegister, func(i, n int) *structs.NodeRegisterRequest {
		return shape.Register(i%n, i+1, shape.Plugin)
	})
}
