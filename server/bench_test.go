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

	"berth/bench/shape"
	"berth/fsm"
	"berth/internal/agenttest"
	"berth/internal/codec"
	"berth/internal/telemetry"
	"berth/rpc"
	"berth/server"
	"berth/structs"
)

// benchServer is one durable server on loopback, filled through its log. Its metrics go to the sinks of an
// agent, because they cost time too.
type benchServer struct {
	b *testing.B
	*server.Server
	stop func()
}

func startBench(b *testing.B, nodes, volumes, allocs int, edits ...func(*server.Config)) *benchServer {
	sinks, err := telemetry.Start(telemetry.DefaultConfig(), hclog.NewNullLogger())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(sinks.Close)
	cfg := server.DefaultConfig()
	cfg.DataDir, cfg.Name = b.TempDir(), "bench"
	cfg.RPCBind, cfg.SerfBind = "127.0.0.1:0", "127.0.0.1:0"
	cfg.HeartbeatTTL = 10 * time.Hour
	for _, edit := range edits {
		edit(&cfg)
	}
	s, err := server.New(cfg, hclog.NewNullLogger())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	w := &benchServer{
		b:      b,
		Server: s,
		stop:   sync.OnceFunc(func() { cancel(); <-ended }),
	}
	b.Cleanup(w.stop)
	for _, _, known, _ := s.Leader(); !known; _, _, known, _ = s.Leader() {
		time.Sleep(10 * time.Millisecond)
	}
	w.parallel(nodes, func(i int) error {
		_, err := rpc.Call(ctx, s, structs.NodeRegister, shape.Register(i, 0, shape.Plugin))
		return err
	})
	w.parallel((volumes+99)/100, func(i int) error {
		req := &structs.CSIVolumeRegisterRequest{}
		for v := i * 100; v < min(volumes, i*100+100); v++ {
			req.Volumes = append(req.Volumes, shape.Volume(shape.VolumeID(v), v))
		}
		_, err := fsm.Propose(ctx, s, fsm.VolumePut, req)
		return err
	})
	w.parallel(1, func(int) error {
		_, err := fsm.Propose(ctx, s, fsm.VolumePut,
			&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{shape.Volume(shape.SharedVolume,
				1<<20)}})
		return err
	})
	w.parallel(1, func(int) error {
		_, err := fsm.Propose(ctx, s, fsm.JobRegister, &structs.JobRegisterRequest{Job: shape.Job(allocs)})
		return err
	})
	w.parallel((allocs+99)/100, func(i int) error {
		plan := &structs.Plan{JobModifyIndex: 0, Eval: &structs.Evaluation{
			ID:     fmt.Sprint("eval", i),
			JobID:  shape.JobID,
			Status: structs.EvalComplete,
		}}
		plan.JobModifyIndex = w.jobIndex()
		for a := i * 100; a < min(allocs, i*100+100); a++ {
			plan.Place = append(plan.Place, shape.Alloc(a, nodes))
		}
		_, err := fsm.Propose(ctx, s, fsm.PlanApply, plan)
		return err
	})
	return w
}

func (w *benchServer) jobIndex() uint64 {
	resp, err := rpc.Call(context.Background(), w.Server, structs.JobGet,
		&structs.JobGetRequest{JobID: shape.JobID})
	if err != nil {
		w.b.Fatal(err)
	}
	return resp.Job.JobModifyIndex
}

// parallel does n things, 16 at a time.
func (w *benchServer) parallel(n int, fn func(i int) error) { w.parallelN(n, 16, fn) }

// parallelN does n things, most of them at a time.
func (w *benchServer) parallelN(n, most int, fn func(i int) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range most {
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

// load divides b.N operations among many clients, each with its own plain connection.
func (w *benchServer) load(b *testing.B, clients int, op func(c *stdrpc.Client, i int) error) {
	b.ReportAllocs()
	b.ResetTimer()
	w.loadN(b, clients, b.N, op)
	b.StopTimer()
}

// loadN is load for n operations.
func (w *benchServer) loadN(b *testing.B, clients, n int, op func(c *stdrpc.Client, i int) error) {
	conns := make([]*stdrpc.Client, clients)
	for i := range conns {
		conn, err := net.Dial("tcp", w.RPCAddr())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := conn.Write([]byte{rpc.ByteRPC}); err != nil {
			b.Fatal(err)
		}
		conns[i] = stdrpc.NewClientWithCodec(msgpackrpc.NewCodecFromHandle(true, true, conn, codec.Handle))
		defer conns[i].Close()
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for _, c := range conns {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := op(c, i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

type indexOnly struct{ Index uint64 }

// bySize measures operations of many clients at every size. Each size has its own server, which is filled
// once, and only if the size is selected.
func bySize(b *testing.B, variable string, sizes []int, clients int,
	fill func(b *testing.B, n int) *benchServer, op func(c *stdrpc.Client, i, n int) error) {
	for _, n := range sizes {
		var w *benchServer
		b.Run(fmt.Sprintf("%s=%d", variable, n), func(each *testing.B) {
			if w == nil {
				w = fill(b, n)
			}
			w.load(each, min(clients, n), func(c *stdrpc.Client, i int) error {
				return op(c, i, n)
			})
		})
		if w != nil {
			w.stop()
		}
	}
}

var (
	fleets  = []int{10, 100, 1000, 10000, 100000}
	volumes = []int{1000, 10000, 100000}
)

// mostAllocs is the number of allocations that claim.
const mostAllocs = 5000

// BenchmarkRPCClaimWrite is 64 clients that claim volumes, each by its only writer, and then release them,
// and so on.
func BenchmarkRPCClaimWrite(b *testing.B) {
	fill := func(b *testing.B, v int) *benchServer {
		return startBench(b, 1000, v, min(v, mostAllocs))
	}
	bySize(b, "V", volumes, 64, fill, func(c *stdrpc.Client, i, v int) error {
		allocs := min(v, mostAllocs)
		return claim(c, shape.VolumeID(i%allocs), i%allocs, structs.ClaimWrite, i/allocs%2 == 1)
	})
}

// BenchmarkRPCClaimRead is 16 clients that claim one volume for many readers, and then release it for all of
// them.
func BenchmarkRPCClaimRead(b *testing.B) {
	fill := func(b *testing.B, r int) *benchServer {
		return startBench(b, 1000, 100, r)
	}
	bySize(b, "R", []int{100, 1000, 5000}, 16, fill, func(c *stdrpc.Client, i, r int) error {
		return claim(c, shape.SharedVolume, i%r, structs.ClaimRead, i/r%2 == 1)
	})
}

// claim claims a volume for an allocation, or releases it, as one of 1,000 nodes.
func claim(c *stdrpc.Client, volume string, alloc int, mode string, release bool) error {
	node, secret := shape.UUID("node", alloc%1000), shape.UUID("secret", alloc%1000)
	cl := shape.Claim(volume, alloc, mode)
	if release {
		return c.Call(structs.CSIVolumeUnpublish.Name, agenttest.Request(&structs.CSIVolumeUnpublishRequest{
			NodeID:   node,
			SecretID: secret,
			Claims:   []structs.CSIClaimKey{cl.Key()},
		}), &indexOnly{})
	}
	return c.Call(structs.CSIVolumeClaim.Name, agenttest.Request(&structs.CSIVolumeClaimRequest{
		NodeID:   node,
		SecretID: secret,
		Claims:   []*structs.CSIClaim{cl},
	}), &indexOnly{})
}

func benchFleet(b *testing.B, n int) *benchServer {
	return startBench(b, n, 100, 1)
}

func benchVolumes(b *testing.B, v int) *benchServer {
	return startBench(b, 1000, v, 1)
}

// BenchmarkRPCNodeRegister is 64 clients with changed fingerprints.
func BenchmarkRPCNodeRegister(b *testing.B) {
	bySize(b, "N", fleets, 64, benchFleet, func(c *stdrpc.Client, i, n int) error {
		req := agenttest.Request(shape.Register(i%n, i+1, shape.Plugin))
		return c.Call(structs.NodeRegister.Name, req, &indexOnly{})
	})
}

// BenchmarkRPCNodeUpdate is the same change as berth's nodes send it: the one instance that changed.
func BenchmarkRPCNodeUpdate(b *testing.B) {
	bySize(b, "N", fleets, 64, benchFleet, func(c *stdrpc.Client, i, n int) error {
		return c.Call(structs.NodeUpdateCSI.Name, &structs.NodeUpdateCSIRequest{
			NodeID:   shape.UUID("node", i%n),
			SecretID: shape.UUID("secret", i%n),
			Upserts:  []*structs.CSIPluginInstance{shape.Instance(shape.Plugin, i%n, i+1)},
		}, &indexOnly{})
	})
}

// BenchmarkRPCHeartbeat is 64 clients' heartbeats.
func BenchmarkRPCHeartbeat(b *testing.B) {
	bySize(b, "N", fleets, 64, benchFleet, func(c *stdrpc.Client, i, n int) error {
		return c.Call(structs.NodeHeartbeat.Name,
			agenttest.Request(&structs.NodeHeartbeatRequest{
				NodeID:   shape.UUID("node", i%n),
				SecretID: shape.UUID("secret", i%n),
				Status:   structs.NodeReady,
			}), &indexOnly{})
	})
}

// BenchmarkRPCVolumeList lists all volumes at once.
func BenchmarkRPCVolumeList(b *testing.B) {
	bySize(b, "V", volumes, 1, benchVolumes, func(c *stdrpc.Client, _, _ int) error {
		return c.Call(structs.CSIVolumeList.Name, &structs.CSIVolumeListRequest{}, &indexOnly{})
	})
}

// BenchmarkRPCVolumeRegister is 16 clients that change volumes, which are recorded one after the other.
func BenchmarkRPCVolumeRegister(b *testing.B) {
	bySize(b, "V", volumes, 16, benchVolumes, func(c *stdrpc.Client, i, n int) error {
		v := shape.Volume(shape.VolumeID(i%n), i%n)
		v.Context["rev"] = fmt.Sprint(i)
		req := &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}}
		return c.Call(structs.CSIVolumeRegister.Name, req, &indexOnly{})
	})
}
