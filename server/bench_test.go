package server_test

import (
	"context"
	"fmt"
	"net"
	stdrpc "net/rpc"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	msgpackrpc "github.com/hashicorp/net-rpc-msgpackrpc/v2"

	"berth/fsm"
	"berth/internal/benchshape"
	"berth/internal/codec"
	"berth/rpc"
	"berth/server"
	"berth/structs"
)

// benchServer is one durable server on loopback, filled through its log.
type benchServer struct {
	b *testing.B
	*server.Server
}

func startBench(b *testing.B, nodes, volumes, allocs int) *benchServer {
	cfg := server.DefaultConfig()
	cfg.DataDir, cfg.Name = b.TempDir(), "bench"
	cfg.RPCBind, cfg.SerfBind = "127.0.0.1:0", "127.0.0.1:0"
	cfg.HeartbeatTTL = 10 * time.Hour
	s, err := server.New(cfg, hclog.NewNullLogger())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	b.Cleanup(func() { cancel(); <-ended })
	w := &benchServer{b, s}
	for _, _, known, _ := s.Leader(); !known; _, _, known, _ = s.Leader() {
		time.Sleep(10 * time.Millisecond)
	}
	w.parallel(nodes, func(i int) error {
		_, err := rpc.Call(ctx, s, structs.NodeRegister, benchshape.Register(i, 0, benchshape.Plugin))
		return err
	})
	w.parallel(volumes/100, func(i int) error {
		req := &structs.CSIVolumeRegisterRequest{}
		for v := range 100 {
			req.Volumes = append(req.Volumes, benchshape.Volume(benchshape.VolumeID(i*100+v), i*100+v))
		}
		_, err := fsm.Propose(ctx, s, fsm.VolumePut, req)
		return err
	})
	w.parallel(1, func(int) error {
		_, err := fsm.Propose(ctx, s, fsm.VolumePut, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{benchshape.Volume(benchshape.SharedVolume, 1<<20)}})
		return err
	})
	w.parallel(1, func(int) error {
		_, err := fsm.Propose(ctx, s, fsm.JobRegister, &structs.JobRegisterRequest{Job: benchshape.Job(allocs)})
		return err
	})
	w.parallel((allocs+99)/100, func(i int) error {
		plan := &structs.Plan{JobModifyIndex: 0, Eval: &structs.Evaluation{ID: fmt.Sprint("eval", i), JobID: benchshape.JobID, Status: structs.EvalComplete}}
		plan.JobModifyIndex = w.jobIndex()
		for a := i * 100; a < min(allocs, i*100+100); a++ {
			plan.Place = append(plan.Place, benchshape.Alloc(a, nodes))
		}
		_, err := fsm.Propose(ctx, s, fsm.PlanApply, plan)
		return err
	})
	return w
}

func (w *benchServer) jobIndex() uint64 {
	resp, err := rpc.Call(context.Background(), w.Server, structs.JobGet, &structs.JobGetRequest{JobID: benchshape.JobID})
	if err != nil {
		w.b.Fatal(err)
	}
	return resp.Job.JobModifyIndex
}

// parallel does n things, 16 at a time.
func (w *benchServer) parallel(n int, fn func(i int) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := fn(i); err != nil {
					w.b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if w.b.Failed() {
		w.b.FailNow()
	}
}

// load has many clients, each with a plain connection of its own, share b.N operations.
func (w *benchServer) load(clients int, op func(c *stdrpc.Client, i int) error) {
	conns := make([]*stdrpc.Client, clients)
	for i := range conns {
		conn, err := net.Dial("tcp", w.RPCAddr())
		if err != nil {
			w.b.Fatal(err)
		}
		if _, err := conn.Write([]byte{rpc.ByteRPC}); err != nil {
			w.b.Fatal(err)
		}
		conns[i] = stdrpc.NewClientWithCodec(msgpackrpc.NewCodecFromHandle(true, true, conn, codec.Handle))
		defer conns[i].Close()
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	w.b.ReportAllocs()
	w.b.ResetTimer()
	for _, c := range conns {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < w.b.N; i = int(next.Add(1)) - 1 {
				if err := op(c, i); err != nil {
					w.b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	w.b.StopTimer()
}

type lean struct{ Index uint64 }

// BenchmarkRPCClaimWrite is 64 clients that claim and release 10,000 volumes, each by its only writer.
func BenchmarkRPCClaimWrite(b *testing.B) {
	const allocs = 5000
	w := startBench(b, 1000, 10000, allocs)
	w.load(64, func(c *stdrpc.Client, i int) error {
		a := benchshape.Alloc(i/2%allocs, 1000)
		who := claimant{a.NodeID, benchshape.UUID("secret", i/2%allocs%1000)}
		return who.claim(c, benchshape.VolumeID(i/2%allocs), i/2%allocs, structs.ClaimWrite, i/allocs%2 == 1)
	})
}

// BenchmarkRPCClaimRead is 16 clients that claim one volume for many readers.
func BenchmarkRPCClaimRead(b *testing.B) {
	const allocs = 5000
	w := startBench(b, 1000, 100, allocs)
	w.load(16, func(c *stdrpc.Client, i int) error {
		a := benchshape.Alloc(i%allocs, 1000)
		who := claimant{a.NodeID, benchshape.UUID("secret", i%allocs%1000)}
		return who.claim(c, benchshape.SharedVolume, i%allocs, structs.ClaimRead, i/allocs%2 == 1)
	})
}

type claimant struct{ node, secret string }

func (w claimant) claim(c *stdrpc.Client, volume string, alloc int, mode string, release bool) error {
	cl := benchshape.Claim(volume, alloc, mode)
	if release {
		return c.Call(structs.CSIVolumeUnpublish.Name, &structs.CSIVolumeUnpublishRequest{NodeID: w.node, SecretID: w.secret,
			Claims: []structs.CSIClaimKey{cl.Key()}}, &lean{})
	}
	return c.Call(structs.CSIVolumeClaim.Name, &structs.CSIVolumeClaimRequest{NodeID: w.node, SecretID: w.secret, Claims: []*structs.CSIClaim{cl}}, &lean{})
}

// BenchmarkRPCNodeRegister is 64 clients with changed fingerprints of a fleet of 5,000.
func BenchmarkRPCNodeRegister(b *testing.B) {
	const nodes = 5000
	w := startBench(b, nodes, 100, 1)
	w.load(64, func(c *stdrpc.Client, i int) error {
		return c.Call(structs.NodeRegister.Name, benchshape.Register(i%nodes, i+1, benchshape.Plugin), &lean{})
	})
}

// BenchmarkRPCNodeUpdate is the same change as berth's nodes send it: the one instance that changed.
func BenchmarkRPCNodeUpdate(b *testing.B) {
	const nodes = 5000
	w := startBench(b, nodes, 100, 1)
	w.load(64, func(c *stdrpc.Client, i int) error {
		n := i % nodes
		return c.Call(structs.NodeUpdateCSI.Name, &structs.NodeUpdateCSIRequest{NodeID: benchshape.UUID("node", n), SecretID: benchshape.UUID("secret", n),
			Upserts: []*structs.CSIPluginInstance{benchshape.Instance(benchshape.Plugin, n, i+1)}}, &lean{})
	})
}

// BenchmarkRPCHeartbeat is 64 clients' heartbeats.
func BenchmarkRPCHeartbeat(b *testing.B) {
	const nodes = 1000
	w := startBench(b, nodes, 100, 1)
	w.load(64, func(c *stdrpc.Client, i int) error {
		return c.Call(structs.NodeHeartbeat.Name, &structs.NodeHeartbeatRequest{NodeID: benchshape.UUID("node", i%nodes),
			SecretID: benchshape.UUID("secret", i%nodes), Status: structs.NodeReady}, &lean{})
	})
}

// BenchmarkRPCVolumeList lists 10,000 volumes at once.
func BenchmarkRPCVolumeList(b *testing.B) {
	w := startBench(b, 1000, 10000, 1)
	w.load(1, func(c *stdrpc.Client, _ int) error {
		return c.Call(structs.CSIVolumeList.Name, &structs.CSIVolumeListRequest{}, &lean{})
	})
}

// BenchmarkRPCVolumeRegister is 16 clients that change volumes, which are recorded one after the other.
func BenchmarkRPCVolumeRegister(b *testing.B) {
	w := startBench(b, 1000, 1000, 1)
	w.load(16, func(c *stdrpc.Client, i int) error {
		v := benchshape.Volume(benchshape.VolumeID(i%1000), i%1000)
		v.Context["rev"] = fmt.Sprint(i)
		return c.Call(structs.CSIVolumeRegister.Name, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}}, &lean{})
	})
}
