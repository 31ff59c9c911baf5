package cluster_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"berth/server"
	"berth/structs"
	"berth/test/cluster"
)

// The operations on the claim queue of a volume, as a client sees them.
const (
	opClaim   = "claim"   // enter the queue
	opRelease = "release" // leave it
	opGet     = "look"    // read the state of the own claim
)

// queueInput is one operation of one allocation.
type queueInput struct {
	op, volume, alloc string
}

// The results of opGet; "" is an unknown outcome.
const (
	absent  = "absent"
	waiting = "waiting"
	granted = "granted"
)

// queueModel is a volume of one writer with its claim queue: the first has the volume, the others wait in the
// order of their claims. The state is the allocations of the queue, joined.
var queueModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		byVolume := map[string][]porcupine.Operation{}
		for _, op := range history {
			volume := op.Input.(queueInput).volume
			byVolume[volume] = append(byVolume[volume], op)
		}
		for _, part := range byVolume {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		in := input.(queueInput)
		out := output.(string)
		line := strings.Fields(state.(string))
		at := slices.Index(line, in.alloc)
		switch in.op {
		case opClaim:
			if at < 0 {
				line = append(line, in.alloc)
			}
		case opRelease:
			if at >= 0 {
				line = slices.Delete(line, at, at+1)
			}
		case opGet:
			place := waiting
			if at < 0 {
				place = absent
			} else if at == 0 {
				place = granted
			}
			return out == "" || out == place, state
		}
		return true, strings.Join(line, " ")
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, output any) string {
		in := input.(queueInput)
		return fmt.Sprintf("%s %s -> %s", in.op, in.alloc[:4], output)
	},
}

// history has the operations of clients with their times and results.
type history struct {
	begin time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
	grant map[string]string // the granted allocation by volume and grant index
}

// record adds an operation. If its outcome is unknown, it may take effect at any later time. An operation
// that surely had no effect is omitted.
func (h *history) record(client int, in queueInput, out string, call time.Duration, err error) (done bool) {
	end := time.Since(h.begin)
	switch structs.KindOf(err) {
	case "":
	case structs.KindTimeout:
		end, out = math.MaxInt64, ""
	case structs.KindUnavailable:
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{
		ClientId: client,
		Input:    in,
		Output:   out,
		Call:     int64(call),
		Return:   int64(end),
	})
	return err == nil
}

// checkGrant records the allocation of a grant index: two allocations must never have the same.
func (h *history) checkGrant(t *testing.T, c *structs.CSIClaim) string {
	if c == nil {
		return absent
	}
	if c.State == structs.ClaimGranted {
		h.mu.Lock()
		defer h.mu.Unlock()
		token := fmt.Sprint(c.VolumeID, " ", c.GrantIndex)
		if other := h.grant[token]; other != "" && other != c.AllocID {
			t.Errorf("the grant %s went to both %s and %s", token, other, c.AllocID)
		}
		h.grant[token] = c.AllocID
	}
	return c.State
}

// answerTimeout is how long a client waits for one answer. An operation without an answer makes the check
// expensive, because it may take effect at any later time.
const answerTimeout = 3 * time.Second

// runClient claims, reads and releases until stop is closed, each time at a random server.
func (w *claimFixture) runClient(t *testing.T, h *history, n int, stop <-chan struct{}) {
	alloc := w.allocs[n]
	dice := rand.New(rand.NewPCG(uint64(n), 7))
	at := func() *cluster.Server {
		for {
			if s := w.c.Servers[dice.IntN(len(w.c.Servers))]; s.Running() {
				return s
			}
		}
	}
	volume := "v1"
	again := func(op string, do func(s *cluster.Server) (string, error)) {
		for done := false; !done; {
			call := time.Since(h.begin)
			out, err := do(at())
			if k := structs.KindOf(err); err != nil && k != structs.KindTimeout && k != structs.KindUnavailable {
				t.Errorf("%s of %s: %v (%s)", op, alloc, err, k)
			}
			done = h.record(n, queueInput{op, volume, alloc}, out, call, err)
			select {
			case <-stop:
				return
			default:
			}
		}
	}
	for {
		select {
		case <-stop:
			return
		default:
		}
		volume = fmt.Sprintf("v%d", 1+dice.IntN(2))
		again(opClaim, func(s *cluster.Server) (string, error) {
			c, err := w.claimRow(s, answerTimeout, volume, alloc)
			if err == nil {
				h.checkGrant(t, c)
			}
			return "", err
		})
		for range 1 + dice.IntN(3) {
			again(opGet, func(s *cluster.Server) (string, error) {
				c, err := w.getClaim(s, answerTimeout, volume, alloc)
				return h.checkGrant(t, c), err
			})
		}
		again(opRelease, func(s *cluster.Server) (string, error) {
			return "",
				w.release(s, answerTimeout, volume, alloc)
		})
	}
}

// clusterFaults are the faults of the cluster while clients work. Each is repaired before the next.
var clusterFaults = []struct {
	name string
	do   func(c *cluster.Cluster)
}{
	{"the leader is cut off", func(c *cluster.Cluster) {
		old := c.Leader()
		others := c.Others(old)
		c.Net.Cut(old.Name, cluster.Names(others)...)
		c.Leader(others...)
		c.Net.Heal()
	}},
	{"a follower is cut off", func(c *cluster.Cluster) {
		leader := c.Leader()
		follower := c.Others(leader)[0]
		c.Net.Cut(follower.Name, cluster.Names(c.Others(follower))...)
		index := leader.Store().Index()
		c.Await("the others go on", func() bool {
			return leader.Store().Index() > index+20
		})
		c.Net.Heal()
	}},
	{"the leader dies and comes back", func(c *cluster.Cluster) {
		old := c.Leader()
		if err := old.Kill(); err != nil {
			c.T.Error(err)
		}
		c.Leader(c.Others(old)...)
		c.Restart(old)
	}},
	{"the leader loses sight of a follower", func(c *cluster.Cluster) {
		old := c.Leader()
		c.Net.Cut(old.Name, c.Others(old)[0].Name) // and keeps the other
		index := old.Store().Index()
		c.Await("writes go on", func() bool {
			return c.Leader().Store().Index() > index+20
		})
		c.Net.Heal()
	}},
}

// TestClaims_AreLinearizable has clients claim and release two volumes of one writer at all servers while
// leaders are partitioned and die. It compares their observations with the model of the queue.
func TestClaims_AreLinearizable(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, func(cfg *server.Config) {
		cfg.HeartbeatTTL = time.Hour
	})
	const clients = 5
	w := newClaimFixture(c, clients)
	h := &history{
		begin: time.Now(),
		grant: map[string]string{},
	}
	stop := make(chan struct{})
	var working sync.WaitGroup
	for n := range clients {
		working.Go(func() {
			w.runClient(t, h, n, stop)
		})
	}
	for _, tr := range clusterFaults {
		t.Log(time.Since(h.begin).Round(time.Millisecond), tr.name)
		tr.do(c)
		leader := c.Leader()
		index := leader.Store().Index()
		c.Await("claims go on", func() bool {
			return c.Leader().Store().Index() > index+20
		})
	}
	close(stop)
	working.Wait()

	unknown := 0
	for _, op := range h.ops {
		if op.Return == math.MaxInt64 {
			unknown++
		}
	}
	t.Logf("%d operations, the outcome of %d not known, %d grants",
		len(h.ops), unknown, len(h.grant))
	if result := porcupine.CheckOperationsTimeout(queueModel, h.ops, 2*time.Minute); result != porcupine.Ok {
		t.Errorf("the history of the clients is not that of a queue: %s", result)
	}
	if len(h.grant) == 0 {
		t.Error("no claim was granted")
	}
	c.CheckEqualStates()
}

// The model must also reject a history. Otherwise its acceptance would prove nothing.
func TestClaimModel_RejectsTwoHolders(t *testing.T) {
	op := func(client int, name, alloc, out string, call, end int64) porcupine.Operation {
		return porcupine.Operation{
			ClientId: client,
			Input:    queueInput{name, "v", alloc},
			Output:   out,
			Call:     call,
			Return:   end,
		}
	}
	two := []porcupine.Operation{
		op(1, opClaim, "a", "", 0, 1),
		op(2, opClaim, "b", "", 2, 3),
		op(1, opGet, "a", granted, 4, 5),
		op(2, opGet, "b", granted, 6, 7),
	}
	if porcupine.CheckOperations(queueModel, two) {
		t.Error("the model accepts two holders at once")
	}
	jump := []porcupine.Operation{
		op(1, opClaim, "a", "", 0, 1),
		op(2, opClaim, "b", "", 2, 3),
		op(3, opClaim, "c", "", 4, 5),
		op(1, opRelease, "a", "", 6, 7),
		op(3, opGet, "c", granted, 8, 9),
	}
	if porcupine.CheckOperations(queueModel, jump) {
		t.Error("the model accepts a grant out of order")
	}
	late := []porcupine.Operation{
		op(1, opClaim, "a", "", 0, 1),
		op(1, opRelease, "a", "", 2, math.MaxInt64),
		op(2, opClaim, "b", "", 3, 4),
		op(2, opGet, "b", granted, 5, 6),
	}
	if !porcupine.CheckOperations(queueModel, late) {
		t.Error("the model rejects a release with an unknown outcome")
	}
}
