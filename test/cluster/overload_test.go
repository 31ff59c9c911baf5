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

	"berth/internal/benchshape"
	"berth/internal/codec"
	"berth/rpc"
	"berth/server"
	"berth/state"
	"berth/structs"
	"berth/test/cluster"
)

// overloaded is one real server with more writers than it can serve. A write is the report of a node on its
// plugin. Each is unique, so the stored report shows which write was made.
type overloaded struct {
	t     *testing.T
	s     *cluster.Server
	nodes int
	conns []*stdrpc.Client
	next  int // the next write's number, which comes once

	mu      sync.Mutex
	made    map[string]map[string]bool // by node: the reports of writes with a good answer
	refused int
}

func newOverloaded(t *testing.T) *overloaded {
	c := cluster.New(t, 1, func(cfg *server.Config) {
		cfg.HeartbeatTTL = time.Hour
	})
	o := &overloaded{
		t:     t,
		s:     c.Leader(),
		nodes: 50,
		made:  map[string]map[string]bool{},
	}
	for i := range o.nodes {
		cluster.Must(c, o.s, structs.NodeRegister,
			benchshape.Register(i, 0, benchshape.Plugin))
		o.made[benchshape.UUID("node", i)] = map[string]bool{}
	}
	for range 16 {
		conn, err := net.Dial("tcp", o.s.Now().RPCAddr())
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

// write begins a write. Its call arrives in done with its answer.
func (o *overloaded) write(done chan *stdrpc.Call) {
	n := o.next
	o.next++
	i := n % o.nodes
	req := &structs.NodeUpdateCSIRequest{
		NodeID:   benchshape.UUID("node", i),
		SecretID: benchshape.UUID("secret", i),
		Upserts:  []*structs.CSIPluginInstance{benchshape.Instance(benchshape.Plugin, i, n+1)},
	}
	o.conns[n%len(o.conns)].Go(structs.NodeUpdateCSI.Name, req, &structs.Empty{}, done)
}

func (o *overloaded) answered(call *stdrpc.Call) {
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
		o.t.Errorf("%v; expected a write to be made, or refused and told when to come again", err)
	}
	o.refused++
}

// good is how many writes have been made so far.
func (o *overloaded) good() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.made {
		n += len(m)
	}
	return n
}

// calm makes a number of writes, at most as many at a time as are admitted, and returns the rate.
func (o *overloaded) calm(writes int) (rate float64) {
	const atOnce = 400
	before := o.refused
	start := time.Now()
	done := make(chan *stdrpc.Call, atOnce)
	for n := range writes + atOnce {
		if n >= atOnce {
			o.answered(<-done)
		}
		if n < writes {
			o.write(done)
		}
	}
	if o.refused > before {
		o.t.Errorf("%d of %d writes refused, of which never more than %d were under way", o.refused-before,
			writes, atOnce)
	}
	return float64(writes) / time.Since(start).Seconds()
}

// offered is the result of an offer.
type offered struct {
	goodput    float64 // writes made a second until the last one was sent
	goroutines int     // at most
	open       int     // writes without an answer, at most
}

// offer sends writes at a rate, with any outcome, and waits for all answers.
func (o *overloaded) offer(rate float64, writes int) (f offered) {
	var (
		reader   sync.WaitGroup
		answered atomic.Int64
		done     = make(chan *stdrpc.Call, writes)
	)
	reader.Go(func() {
		for range writes {
			o.answered(<-done)
			answered.Add(1)
		}
	})
	begun := o.good()
	start := time.Now()
	for n := range writes {
		if wait := time.Until(start.Add(time.Duration(float64(n) / rate * float64(time.Second)))); wait > 0 {
			<-time.After(wait)
		}
		o.write(done)
		f.open = max(f.open, n+1-int(answered.Load()))
		if n%100 == 0 {
			f.goroutines = max(f.goroutines, runtime.NumGoroutine())
		}
	}
	f.goodput = float64(o.good()-begun) / time.Since(start).Seconds()
	reader.Wait()
	return f
}

// stored checks that the stored report of each node's instance is from a write with a good answer.
func (o *overloaded) stored() {
	tx := o.s.Store().Read()
	for node, made := range o.made {
		said := ""
		for i := range state.InstancesByNode(tx, node) {
			said = i.HealthDescription
		}
		if !made[said] {
			o.t.Errorf("node %s is stored as %q, which no write that was made said", node, said)
		}
	}
}

// offers is how many times the server is offered too much, at most. A busy machine may spoil one offer. A
// server that collapses under load collapses in each.
const offers = 3

// TestOverload_TwiceTheLoadOfARealServer: a real server with its log on disk receives twice the writes that
// it can make. Each answer is good or has a retry time. At least half as many are good as without the
// overload. The number in flight is bounded. No rejected write is stored. Afterwards the server makes at
// least half as many writes as before.
//
// If the machine is too busy for this load, all other conditions hold, but no rejection is required, because
// a server rejects only beyond its bound.
func TestOverload_TwiceTheLoadOfARealServer(t *testing.T) {
	o := newOverloaded(t)
	o.calm(800)
	before := o.calm(1200)
	idle := runtime.NumGoroutine()
	const room = 512 + 1024 // let in, and waiting
	for n := 1; ; n++ {
		refused := o.refused
		f := o.offer(2*before, 2*room+int(before))
		refused = o.refused - refused
		after := o.calm(1200)
		t.Logf("writes/s: %.0f before, %.0f of %.0f offered, %.0f afterwards; %d refused, %d open, %d goroutines of %d",
			before, f.goodput, 2*before, after, refused, f.open, f.goroutines, idle)
		if refused == 0 && f.open > room*5/4 { // answers on their way are open here, and no longer at the server
			t.Errorf("none was refused while %d were open", f.open)
		}
		if f.goroutines-idle > 2*room {
			t.Errorf("%d goroutines more than before; expected at most %d", f.goroutines-idle, 2*room)
		}
		if f.goodput >= min(before, after)/2 && after >= before/2 {
			break
		}
		if n == offers {
			t.Errorf("in each of %d offers too few writes were made: %.0f a second in the last, %.0f afterwards, "+
				"%.0f before; expected at least half", offers, f.goodput, after, before)
			break
		}
	}
	o.stored()
}
