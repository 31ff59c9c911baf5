package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints"
	"berth/endpoints/core"
	"berth/fsm"
	"berth/internal/boottime"
	"berth/internal/level"
	"berth/rpc"
	"berth/server/control"
	"berth/server/control/cluster"
	"berth/server/control/garbage"
	"berth/server/control/loop"
	"berth/server/leases"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
	"berth/structs/quota"
	"berth/test/invariant"
)

// world is the servers with all nodes.
type world struct {
	*rand.Rand // of the operations
	t          *testing.T
	began      time.Time
	store      *state.Store
	log        *raftLog
	deps       control.Deps
	rpc        *rpc.Server
	storage    *storageModel
	nodes      []*node
	stopLoops  func()
	friendly   atomic.Bool // no task fails, no plugin is slow
	bounds     quota.Bounds
	clocks     *clocks
	kept       *kept
	tokens     int // that were made

	mu      sync.Mutex
	history []string
	faults  []string
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		Rand:  rand.New(rand.NewPCG(seed, 1)),
		t:     t,
		began: time.Now(),
		store: state.New(),
	}
	w.storage = newStorage(w.fail)
	w.log = &raftLog{
		applied: w.checkEntry,
		fsm:     fsm.New(w.store),
		index:   100,
		dice:    rand.New(rand.NewPCG(seed, 2)),
	}
	w.clocks = w.newClocks()
	w.kept = newKept(w)
	config := control.DefaultConfig()
	config.Leases.TTL = 10 * time.Second
	config.Leases.Grace = 5 * time.Second
	config.GCInterval = time.Minute
	config.GCKeep = garbage.Thresholds{Eval: 5 * time.Minute, Job: 10 * time.Minute, Node: time.Hour}
	w.deps = control.Deps{
		Common: loop.Common{
			Store:    w.store,
			Proposer: w.log,
			Nodes:    w,
			Logger:   hclog.NewNullLogger(),
			Clock:    w.clocks.Cluster,
		},
		Leases: leases.New(config.Leases, boottime.Monotonic()),
		Config: config,
		Term:   1,
	}
	w.log.fsm.Observe(newAges(w))
	serve := endpoints.New(core.Deps{
		Store:  w.store,
		Raft:   w.log,
		Leases: w.deps.Leases,
		Nodes:  nodeconn.NewSessions(nil),
		Logger: hclog.NewNullLogger(),
		Level:  func() int { return level.Now },
		Clock:  w.clocks.Cluster,
	})
	w.rpc = rpc.NewServer(hclog.NewNullLogger(), serve.List()...)
	w.lead()
	return w
}

// lead starts the loops of a leader.
func (w *world) lead() {
	w.log.lead()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	keeper := w.clocks.lead()
	keeper.Begin(ctx)
	all.Go(func() { keeper.Run(ctx) })
	tokens := cluster.TokenExpirer{
		Common: loop.Common{
			Store:    w.store,
			Proposer: w.log,
			Clock:    w.clocks.Cluster,
			Logger:   hclog.NewNullLogger(),
		},
		Now: w.clocks.wall,
	}
	all.Go(func() { tokens.Run(ctx) })
	for _, loop := range control.Loops(w.deps) {
		all.Go(func() { loop.Run(ctx) })
	}
	w.stopLoops = func() {
		w.log.resign()
		cancel()
		all.Wait()
	}
}

// close ends everything.
func (w *world) close() {
	for _, n := range w.nodes {
		n.powerOff()
	}
	w.stopLoops()
	w.rpc.Close()
}

// record adds a line to the history.
func (w *world) record(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := fmt.Sprintf("%7.1fs ", time.Since(w.began).Seconds()) + fmt.Sprintf(format, args...)
	w.history = append(w.history, line)
}

// mostFaults bounds the faults of a run that are shown.
const mostFaults = 20

func (w *world) fail(format string, args ...any) {
	w.record("FAULT: "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) < mostFaults {
		w.faults = append(w.faults, fmt.Sprintf(format, args...))
	}
}

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.faults) > 0
}

// report fails the test with the faults and the history.
func (w *world) report() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) > 0 {
		w.t.Errorf("%s\nthe history:\n%s\nthe rows:\n%s",
			strings.Join(w.faults, "\n"), strings.Join(w.history, "\n"), w.describe())
	}
}

// checkEntry checks the rules that hold after each log entry.
func (w *world) checkEntry(index uint64) {
	w.recordChanges(index, os.Getenv("BERTH_TEST_JOB"))
	w.check(fmt.Sprintf("after entry %d", index), invariant.Always)
}

// check checks rules, and those of the store.
func (w *world) check(when string, lists ...[]invariant.Rule) {
	tx := w.store.Read()
	faults := slices.Concat(state.Check(tx), invariant.Broken(tx, lists...))
	for _, fault := range faults {
		w.fail("%s: %s", when, fault)
	}
}

// checkSettled checks what holds when the servers have nothing to do at once.
func (w *world) checkSettled() {
	if w.log.leads() && !invariant.Busy(w.store.Read()) {
		w.check("while the servers have nothing to do", invariant.Settled)
	}
}

// operate calls a procedure as an operator. An error of the request is no fault.
func operate[Req, Resp any](w *world, m structs.Method[Req, Resp], req *Req) error {
	for {
		own := *req
		_, err := rpc.Call(context.Background(), w.rpc, m, &own)
		if !structs.IsKind(err, structs.KindUnavailable) && !structs.IsKind(err, structs.KindTimeout) {
			if err != nil {
				w.record("rejected: %v", err)
			}
			return err
		}
		time.Sleep(time.Second)
	}
}

// propose writes an entry for which the simulation has no procedure.
func propose[P any](w *world, c fsm.Command[P], payload *P) {
	err := attempt(w, c, payload)
	if err != nil {
		w.fail("%s: %v", c.Name, err)
	}
}

// attempt is propose for an entry that the state may reject.
func attempt[P any](w *world, c fsm.Command[P], payload *P) error {
	for {
		_, err := fsm.Propose(context.Background(), w.log, c, payload)
		if !structs.IsKind(err, structs.KindUnavailable) && !structs.IsKind(err, structs.KindTimeout) {
			return err
		}
		time.Sleep(time.Second)
	}
}

// Call implements nodeconn.Caller: the leader calls a node.
func (w *world) Call(ctx context.Context, nodeID, method string, req, resp any) error {
	n := w.node(nodeID)
	if n == nil {
		return structs.Unavailablef("there is no node %s", nodeID)
	}
	return n.serve(ctx, method, req, resp)
}

func (w *world) node(id string) *node {
	for _, n := range w.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}
