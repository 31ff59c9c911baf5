package cluster_test

import (
	"net"
	stdrpc "net/rpc"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	msgpackrpc "github.com/hashicorp/net-rpc-msgpackrpc/v2"

	"berth/bench/shape"
	"berth/internal/codec"
	"berth/rpc"
	"berth/server"
	"berth/state/csi"
	"berth/structs"
	"berth/test/cluster"
)

// overloadedServer is one real server with more writers than it can serve. A write is a node's report on its
// plugin. Each report is unique, so the stored report names the write that made it.
type overloadedServer struct {
	t     *testing.T
	s     *cluster.Server
	nodes int
	conns []*stdrpc.Client
	next  int // the number of the next write

	mu       sync.Mutex
	made     map[string]map[string]bool // by node: the reports of writes with a good answer
	rejected int
}

func newOverloadedServer(t *testing.T) *overloadedServer {
	c := cluster.New(t, 1, func(cfg *server.Config) {
		cfg.HeartbeatTTL = time.Hour
	})
	o := &overloadedServer{
		t:     t,
		s:     c.Leader(),
		nodes: 50,
		made:  map[string]map[string]bool{},
	}
	for i := range o.nodes {
		cluster.Must(c, o.s, structs.NodeRegister,
			shape.Register(i, 0, shape.Plugin))
		o.made[shape.UUID("node", i)] = map[string]bool{}
	}
	for range 16 {
		conn, err := net.Dial("tcp", o.s.Current().RPCAddr())
		if err != nil {
			t.Fatal(err)
		}
		client := stdrpc.NewClientWithCodec(msgpackrpc.NewCodecFromHandle(true, true, conn, codec.Handle))
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Write([]byte{rpc.ByteRPC}); err != nil {
			t.Fatal(err)
		}
		o.conns = append(o.conns, client)
	}
	return o
}

// startWrite begins a write. Its call arrives in done with its answer.
func (o *overloadedServer) startWrite(done chan *stdrpc.Call) {
	n := o.next
	o.next++
	i := n % o.nodes
	req := &structs.NodeUpdateCSIRequest{
		NodeID:   shape.UUID("node", i),
		SecretID: shape.UUID("secret", i),
		Upserts:  []*structs.CSIPluginInstance{shape.Instance(shape.Plugin, i, n+1)},
	}
	o.conns[n%len(o.conns)].Go(structs.NodeUpdateCSI.Name, req, &structs.Empty{}, done)
}

func (o *overloadedServer) recordAnswer(call *stdrpc.Call) {
	req := call.Args.(*structs.NodeUpdateCSIRequest)
	o.mu.Lock()
	defer o.mu.Unlock()
	if call.Error == nil {
		o.made[req.NodeID][req.Upserts[0].HealthDescription] = true
		return
	}
	err := structs.ErrorFromWire(call.Error.Error())
	if !structs.IsKind(err, structs.KindUnavailable) ||
		structs.RetryAfter(err) <= 0 {
		o.t.Errorf("%v; want a good answer, or a rejection with a retry time", err)
	}
	o.rejected++
}

// goodWrites returns the number of writes with a good answer.
func (o *overloadedServer) goodWrites() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.made {
		n += len(m)
	}
	return n
}

// writeWithinBounds makes a number of writes without exceeding the bound of the server, and returns the rate.
func (o *overloadedServer) writeWithinBounds(writes int) (rate float64) {
	const atOnce = 400
	before := o.rejected
	start := time.Now()
	done := make(chan *stdrpc.Call, atOnce)
	for n := range writes + atOnce {
		if n >= atOnce {
			o.recordAnswer(<-done)
		}
		if n < writes {
			o.startWrite(done)
		}
	}
	if o.rejected > before {
		o.t.Errorf("%d of %d writes rejected, of which never more than %d were under way", o.rejected-before,
			writes, atOnce)
	}
	return float64(writes) / time.Since(start).Seconds()
}

// offerResult is the result of an offer.
type offerResult struct {
	goodput    float64 // writes made a second until the last one was sent
	goroutines int     // at most
	open       int     // writes without an answer, at most
}

// offerWrites sends writes at a rate, with any outcome, and waits for all answers.
func (o *overloadedServer) offerWrites(rate float64, writes int) (f offerResult) {
	var (
		reader   sync.WaitGroup
		answered atomic.Int64
		done     = make(chan *stdrpc.Call, writes)
	)
	reader.Go(func() {
		for range writes {
			o.recordAnswer(<-done)
			answered.Add(1)
		}
	})
	begun := o.goodWrites()
	start := time.Now()
	for n := range writes {
		if wait := time.Until(start.Add(time.Duration(float64(n) / rate * float64(time.Second)))); wait > 0 {
			<-time.After(wait)
		}
		o.startWrite(done)
		f.open = max(f.open, n+1-int(answered.Load()))
		if n%100 == 0 {
			f.goroutines = max(f.goroutines, runtime.NumGoroutine())
		}
	}
	f.goodput = float64(o.goodWrites()-begun) / time.Since(start).Seconds()
	reader.Wait()
	return f
}

// checkStored checks that the stored report of each node's instance is from a write with a good answer.
func (o *overloadedServer) checkStored() {
	tx := o.s.Store().Read()
	for node, made := range o.made {
		said := ""
		for i := range csi.InstancesByNode(tx, node) {
			said = i.HealthDescription
		}
		if !made[said] {
			o.t.Errorf("the stored report of node %s is %q, which no write with a good answer made", node, said)
		}
	}
}

// maxOffers bounds the number of overloads. A busy machine may spoil some of them. A server that collapses
// under load collapses in each.
const maxOffers = 5

// TestOverload_TwiceTheLoadOfARealServer: a real server with its log on disk receives twice the writes that
// it can make. Each answer is good or has a retry time. At least a quarter as many are good as without the
// overload: the sender has the same processors as the server. The number in flight is bounded. No rejected
// write is stored. Afterwards the server makes at least a quarter as many writes as before.
//
// If the machine is too busy for this load, all other conditions hold, but no rejection is required, because
// a server rejects only beyond its bound.
func TestOverload_TwiceTheLoadOfARealServer(t *testing.T) {
	o := newOverloadedServer(t)
	o.writeWithinBounds(800)
	before := o.writeWithinBounds(1200)
	idle := runtime.NumGoroutine()
	const admitted = 512 + 1024 // in flight, and queued
	for n := 1; ; n++ {
		rejected := o.rejected
		f := o.offerWrites(2*before, 2*admitted+int(before))
		rejected = o.rejected - rejected
		after := o.writeWithinBounds(1200)
		t.Logf("writes/s: %.0f before, %.0f of %.0f offered, %.0f afterwards; %d rejected, %d open, %d goroutines of %d",
			before, f.goodput, 2*before, after, rejected, f.open, f.goroutines, idle)
		// open counts answers in transit, which the server no longer counts.
		if rejected == 0 && f.open > admitted*5/4 {
			t.Errorf("none was rejected while %d were open", f.open)
		}
		if f.goroutines-idle > 2*admitted {
			t.Errorf("%d goroutines more than before; expected at most %d", f.goroutines-idle, 2*admitted)
		}
		if f.goodput >= min(before, after)/4 && after >= before/4 {
			break
		}
		if n == maxOffers {
			t.Errorf("in each of %d offers too few writes were made: %.0f a second in the last, %.0f afterwards, "+
				"%.0f before; expected at least a quarter", maxOffers, f.goodput, after, before)
			break
		}
	}
	o.checkStored()
}
