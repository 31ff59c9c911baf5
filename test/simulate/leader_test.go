package simulate

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/scheduler"
	"berth/server/control/fence"
	"berth/server/control/loop"
	"berth/server/leases"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/state/unblock"
	"berth/structs"
)

// serverNames are the servers. One of them may be silent: a node waits for its answers in vain.
var serverNames = []string{"s0", "s1", "s2"}

// leads stands for the server that leads.
const leads = -1

// silentFor is how long the server is silent whose leadership a script ends, which is longer than a lease of
// the default length.
const silentFor = 12 * time.Second

// leader is a server in one leadership, with its loops.
type leader struct {
	w       *world
	clocks  *serverClocks
	term    uint64
	ctx     context.Context // ends with the leadership
	cancel  context.CancelFunc
	handsOn bool          // the next leader has its entries in flight; else they are lost
	frozen  time.Duration // it was frozen, lost its leadership, and runs again from then on; 0: it was not
	leases  *leases.Leases
	lease   *leases.Leadership
	steps   int // of the leases
	fencing fence.Loop
	proofs  fence.LeaseLoop
	calls   map[string]bool          // of a controller, in flight
	pauses  map[string]time.Duration // until when an attachment or an evaluation is not tried
}

// elect makes a server the leader.
func (w *world) elect() {
	w.term++
	for w.silent[w.leads] > w.now {
		w.leads = w.IntN(len(serverNames))
	}
	l := &leader{
		w:      w,
		clocks: w.servers[w.leads],
		term:   w.term,
		calls:  map[string]bool{},
		pauses: map[string]time.Duration{},
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	config := leases.Config{
		TTL:     oneOf(w, 8*time.Second, 10*time.Second, 30*time.Second),
		Grace:   oneOf(w, time.Second, 5*time.Second, 15*time.Second),
		Longest: time.Hour,
	}
	if w.script != nil {
		config = w.script.leaseConfig(l.term)
	}
	l.leases = leases.New(config, l.clocks.boot)
	l.lease = l.leases.Lead(leases.Deps{
		Common: loop.Common{
			Store:    w.store,
			Proposer: loops{l},
			Logger:   hclog.NewNullLogger(),
			Clock:    l.clocks.cluster,
		},
		Term: l.term,
	})
	l.fencing = fence.Loop{
		Common: loop.Common{
			Store:    w.store,
			Proposer: loops{l},
			Logger:   hclog.NewNullLogger(),
		},
		Now:     l.clocks.wall,
		Devices: fence.Devices{w.device.row()},
	}
	l.proofs = fence.LeaseLoop{
		Common: loop.Common{
			Store:    w.store,
			Proposer: loops{l},
			Logger:   hclog.NewNullLogger(),
		},
		Now: l.clocks.wall,
	}
	w.leader = l
	w.note("leader of term %d", l.term)
	l.keeper().Begin(l.ctx)
	if l.ctx.Err() != nil {
		return // it was lost at this entry
	}
	w.after(20*time.Second, l.keepClock)
	l.watchLeases()
	l.watchFences()
}

// lose ends the leadership. The next one begins soon after.
func (l *leader) lose(why string) {
	l.w.note("the leader of term %d is lost: %s", l.term, why)
	l.w.leader = nil
	l.cancel()
	l.w.silent = [3]time.Duration{}
	if l.w.script != nil {
		l.w.silent[l.w.leads] = l.w.now + silentFor
	} else if !l.w.quiet {
		l.w.silent[l.w.leads] = l.w.now + l.w.lasting()
	}
	end := time.Duration(0)
	if !l.w.quiet && l.w.chance(2) {
		end = l.w.upTo(time.Minute)
		l.frozen = l.w.now + end
	}
	l.w.after(end, l.lease.End)
	l.w.after(time.Second+l.w.upTo(4*time.Second), l.w.elect)
}

// Propose implements fsm.Proposer. A leader may fail just before or just after any entry.
func (l *leader) Propose(_ context.Context, entry []byte) (index uint64, answer any, err error) {
	w := l.w
	if w.leader != l {
		return 0, nil, structs.Unavailablef("this server does not lead")
	}
	if w.script != nil {
		return w.script.propose(l, entry, requestTakes)
	}
	if !w.quiet && w.chance(400) {
		l.lose("before an entry")
		return 0, nil, structs.Unavailablef("the leader was lost")
	}
	index, answer = w.apply(entry)
	if !w.quiet && w.chance(400) {
		l.lose("after an entry")
		return 0, nil, structs.Timeoutf("the outcome is not known")
	}
	return index, answer, nil
}

// watchLeases is the loop of the leases, and of all that is due at a time.
func (l *leader) watchLeases() {
	if l.ctx.Err() != nil {
		return
	}
	l.lease.Step(l.ctx)
	l.steps++
	if l.steps == 2 {
		l.w.script.reach("a leader grants leases")
	}
	l.proofs.Step(l.ctx)
	l.work()
	l.w.after(time.Second, l.watchLeases)
}

// watchFences is the loop that fences nodes. Time passes in it while an agent runs.
func (l *leader) watchFences() {
	for l.ctx.Err() == nil && (l.w.script == nil || l.w.script.inFlight == 0) {
		acted, err := l.fencing.Step(l.ctx)
		if !acted || err != nil {
			break
		}
	}
	if l.ctx.Err() == nil {
		l.w.after(time.Second, l.watchFences)
	}
}

// work makes the plans and the calls of controllers that are due.
func (l *leader) work() {
	if l.ctx.Err() != nil {
		return
	}
	if unblock.Due(l.w.store.Read()) {
		_ = propose(l.w, fsm.EvalUpdate, &structs.EvalUpdateRequest{Wake: 64, WriteOptions: l.w.stamp()})
	}
	for _, id := range l.dueEvals() {
		l.plan(id)
	}
	tx := l.w.store.Read()
	for a := range csi.UnsettledAttachments(tx) {
		l.settle(tx, a)
	}
	l.reap(tx)
}

func (l *leader) dueEvals() (ids []string) {
	tx := l.w.store.Read()
	now := l.clocks.cluster.Now().UnixNano()
	for e := range state.LaterEvals(tx) {
		if e.WaitUntil <= now && l.pauses[e.ID] <= l.w.now {
			ids = append(ids, e.ID)
		}
	}
	for e := range state.ReadyEvals(tx) {
		if l.pauses[e.ID] <= l.w.now {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// plan processes an evaluation as the loop of the scheduler does.
func (l *leader) plan(id string) {
	tx := l.w.store.Read()
	e := state.Eval(tx, id)
	if l.ctx.Err() != nil || e == nil || e.Status != structs.EvalPending {
		return
	}
	now := l.clocks.cluster.Now()
	plan, err := scheduler.Process(tx, e, now)
	if err == nil {
		plan.Now = now.UnixNano()
		l.pauses[id] = l.w.now + time.Second // also on its way to the log
		err = propose(l.w, fsm.PlanApply, plan)
	}
	l.pauses[id] = l.w.now + time.Second
	if err != nil {
		l.w.note("the plan of %s failed: %v", id, err)
	}
}

// settle calls a controller for an attachment. The call takes effect before the next leader is elected, or
// never.
func (l *leader) settle(tx *state.ReadTx, a *structs.CSIAttachment) {
	key := a.VolumeID + " " + a.NodeID
	controllers := nodeconn.Controllers(tx, a.PluginID, nil, key)
	if l.calls[key] || l.pauses[key] > l.w.now || len(controllers) == 0 {
		return
	}
	l.calls[key] = true
	controller := l.w.node(oneOf(l.w, controllers...))
	v := l.w.volume(a.VolumeID)
	l.w.after(l.w.upTo(500*time.Millisecond), func() {
		done := l.ctx.Err() == nil && controller.answers() && (l.w.quiet || !l.w.chance(20))
		lost := !l.w.quiet && l.w.chance(20)
		if done {
			l.callController(v, a)
		}
		l.w.after(l.w.upTo(200*time.Millisecond), func() { l.settled(key, a, done && !lost) })
	})
}

func (l *leader) callController(v *volume, a *structs.CSIAttachment) {
	n := l.w.node(a.ExternalNodeID)
	if a.State == structs.AttachmentAttaching {
		l.w.attach(v, n)
	} else {
		l.w.detach(v, n)
	}
}

func (l *leader) settled(key string, a *structs.CSIAttachment, ok bool) {
	delete(l.calls, key)
	if !ok || l.ctx.Err() != nil {
		l.pauses[key] = l.w.now + 5*time.Second
		return
	}
	op := "detach"
	if a.State == structs.AttachmentAttaching {
		op = "attach"
	}
	_ = propose(l.w, fsm.AttachmentOutcome, &structs.CSIAttachmentOutcome{
		VolumeID:     a.VolumeID,
		NodeID:       a.NodeID,
		Op:           op,
		RowIndex:     a.CreateIndex,
		WriteOptions: l.w.stamp(),
	})
}

// grant answers a request for a lease. The leadership was confirmed after the request had arrived, but the
// server may be slow or frozen before it grants the lease, and no longer lead then.
func (l *leader) grant(a asker, reply func(any, error)) {
	delay := l.w.upTo(2 * time.Millisecond)
	if !l.w.quiet && l.w.chance(100) {
		delay = l.w.upTo(10 * time.Second)
		a.n.unreached = l.w.now + delay
	}
	l.w.after(delay, func() {
		if l.frozen > l.w.now {
			l.w.after(l.frozen-l.w.now, func() { l.answerGrant(a, reply) })
			return
		}
		l.answerGrant(a, reply)
	})
}

func (l *leader) answerGrant(a asker, reply func(any, error)) {
	grant, err := l.leases.Renew(a.n.id, a.proof)
	row := state.Node(l.w.store.Read(), a.n.id)
	if err == nil && row.Lost() { // as the endpoint does: the request began before its node was down
		err = structs.Unavailablef("lost meanwhile")
	}
	if err == nil {
		grant.Epoch = row.Epoch
		grant.Returning = row.Returning
		a.n.keeps(grant.LeaseFor + grant.HeartbeatGrace)
		a.admitted()
	}
	reply(grant, err)
}
