package fence

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/server/control/loop"
	"berth/server/fencing"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// Loop fences lost nodes while this server leads.
type Loop struct {
	loop.Common
	Now     func() time.Time // the wall clock
	Devices Devices
	// MaxParallel is the most nodes that are fenced at once. 0: one.
	MaxParallel int

	busy busyNodes
}

// MostParallel bounds Loop.MaxParallel.
const MostParallel = 16

// interval is the time between two looks at the lost nodes. While none is lost a look costs little.
const interval = time.Second

// retry paces the attempts to fence a node, each with all of its devices.
var retry = backoff.Backoff{Min: 30 * time.Second, Max: 10 * time.Minute}

// record paces the proposals of the end of a run. It is proposed until this server no longer leads.
var record = backoff.Backoff{Min: 250 * time.Millisecond, Max: 10 * time.Second}

// Run fences nodes until ctx ends, each by one agent at a time.
func (l *Loop) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range max(l.MaxParallel, 1) {
		workers.Go(func() { l.work(ctx) })
	}
	workers.Wait()
}

// work fences one node after the other.
func (l *Loop) work(ctx context.Context) {
	for ctx.Err() == nil {
		acted, err := l.Step(ctx)
		if err != nil && ctx.Err() == nil {
			l.Logger.Warn("failed to fence a node, retrying", "error", err)
		}
		if (!acted || err != nil) && !backoff.Sleep(ctx, interval) {
			return
		}
	}
}

// Step does the next thing for one node, operators' orders first. It reports whether there was any. It
// waits for the agent that it runs.
func (l *Loop) Step(ctx context.Context) (acted bool, err error) {
	tx := l.Store.Read()
	for n := range state.LostNodes(tx) {
		// The runs of an earlier leader come first: next does not begin another one while a row says that one
		// runs.
		acted, err = l.endLeft(ctx, n.ID)
		if acted {
			return acted, err
		}
	}

	for o := range state.FenceOrders(tx) {
		acted, err = l.act(ctx, o.NodeID, false)
		if acted {
			return acted, err
		}
	}

	var braked, counted bool
	for n := range state.LostNodes(tx) {
		if !counted {
			// The brake counts all nodes, so it is read once, and only if a node is lost.
			braked = state.FenceBrake(tx) != nil
			counted = true
		}

		acted, err = l.act(ctx, n.ID, braked)
		if acted {
			return acted, err
		}
	}

	return false, nil
}

// endLeft ends a run of a node that an earlier leader has left. It reports whether there is one. The runs of
// this leader are for busy nodes.
func (l *Loop) endLeft(ctx context.Context, nodeID string) (acted bool, err error) {
	if !l.busy.take(nodeID) {
		return false, nil
	}
	defer l.busy.release(nodeID)
	for _, r := range state.FenceRuns(l.Store.Read(), nodeID) {
		if r.State == cluster.FenceRunning {
			return true, l.end(ctx, r, cluster.FenceEndRequest{
				Cause:    cluster.FenceCauseLeader,
				Reason:   "its leader ended before the run did",
				ExitCode: -1,
			})
		}
	}

	return false, nil
}

// lost is a lost node with its situation.
type lost struct {
	situation
	node   *structs.Node
	target *state.FenceTarget
	last   uint64 // the number of its last run
	claims []*cluster.LostClaim
	others []*cluster.FenceMismatch // devices that would cover what is to be released
}

// look reads what decides about a node. A device is listed if it fences the node and covers what is to be
// released.
func (l *Loop) look(tx *state.ReadTx, n *structs.Node, braked bool) lost {
	at := lost{
		node:   n,
		target: state.FenceTargetOf(tx, n),
		claims: state.LostClaims(tx, n.ID),
	}

	at.order = state.FenceOrder(tx, n.ID)
	at.braked = braked
	at.unaccounted = n.Unaccounted
	for _, r := range state.FenceRuns(tx, n.ID) {
		at.last = r.Number
		if r.Epoch == n.Epoch && r.Kind == cluster.FenceByAgent {
			at.runs = append(at.runs, r)
		}
	}

	wanted := at.claims
	if at.order == nil {
		wanted = slices.DeleteFunc(slices.Clone(wanted), func(c *cluster.LostClaim) bool {
			return !c.WantsFence()
		})
		at.waited = len(wanted) > 0
	}

	for _, d := range l.Devices {
		power := at.order != nil && d.Scope == fencing.ScopePower // also for a node without claims
		if !power && !slices.ContainsFunc(wanted, d.covers) {
			continue
		}
		reason := d.Matches(at.target)
		if reason == "" {
			at.devices = append(at.devices, d.Name)
			continue
		}
		at.others = append(at.others, &cluster.FenceMismatch{Name: d.Name, Reason: reason})
	}

	return at
}

// act takes the next step for a lost node, unless another worker has it. It reports whether there is one.
func (l *Loop) act(ctx context.Context, nodeID string, braked bool) (acted bool, err error) {
	if !l.busy.take(nodeID) {
		return false, nil
	}
	defer l.busy.release(nodeID)
	tx := l.Store.Read() // another worker may just have ended a run of the node
	n := state.Node(tx, nodeID)
	if n == nil || !n.Lost() {
		return false, nil
	}

	at := l.look(tx, n, braked)
	s := next(at.situation, l.Now().UnixNano())
	switch s.kind {
	case noteNoDevice:
		return true, l.noteNoDevice(ctx, at, s)
	case runDevice:
		return true, l.run(ctx, at, s)
	}

	return false, nil
}

// noteNoDevice ends an attempt for which no device is left.
func (l *Loop) noteNoDevice(ctx context.Context, at lost, s step) error {
	run, err := l.begin(ctx, at, s, &Device{})
	if err != nil {
		return err
	}

	return l.end(ctx, run, cluster.FenceEndRequest{
		Cause: cluster.FenceCauseNoDevice,
		Reason: structs.Cut("no fence device of the servers matches the node and covers its volumes"+
			cluster.MismatchText(at.others), structs.MaxText),
		ExitCode: -1,
		NextTry:  l.nextTry(s.attempt),
	})
}

// run runs the agent of a device between the two entries about it.
func (l *Loop) run(ctx context.Context, at lost, s step) error {
	i := slices.IndexFunc(l.Devices, func(d *Device) bool { return d.Name == s.device })
	d := l.Devices[i]
	run, err := l.begin(ctx, at, s, d)
	if err != nil {
		return err
	}

	l.Logger.Warn("fencing a lost node", "node_id", at.node.ID, "device", d.Name, "run", run.Number)
	result := d.timedFence(ctx, at.target)
	if ctx.Err() != nil {
		return ctx.Err() // the next leader ends the run
	}

	l.Logger.Warn("the run of a fence agent has ended", "node_id", at.node.ID, "device", d.Name,
		"run", run.Number, "proved", result.Proved, "reason", result.Reason)

	p := cluster.FenceEndRequest{
		Proved:   result.Proved,
		Reason:   structs.Cut(result.Reason, structs.MaxText),
		Action:   result.Action,
		ExitCode: result.ExitCode,
		Output:   tail(result.Output),
	}

	if !result.Proved {
		p.Cause = cluster.FenceCauseAgent
	}

	if result.Proved && d.Scope == fencing.ScopeStorage {
		// The claims are read after the run, which may have taken minutes.
		p.Covered = d.covered(state.LostClaims(l.Store.Read(), at.node.ID))
	}

	// The last device of an attempt sets the time of the next attempt. So does a machine that is off, whose
	// other devices are of no more use.
	off := result.Proved && d.Scope == fencing.ScopePower
	if off || len(at.untried(s.attempt)) == 1 {
		p.NextTry = l.nextTry(s.attempt)
	}

	return l.end(ctx, run, p)
}

// nextTry returns the time of the attempt after one that ends now.
func (l *Loop) nextTry(attempt int) int64 {
	return l.Now().Add(retry.Delay(attempt)).UnixNano()
}

// begin records that a run begins.
func (l *Loop) begin(ctx context.Context, at lost, s step, d *Device) (*cluster.FenceRun, error) {
	run := &cluster.FenceRun{
		NodeID: at.node.ID,
		Number: at.last + 1,
	}

	_, err := fsm.Propose(ctx, l.Proposer, fsm.FenceBegin, &cluster.FenceBeginRequest{
		NodeID:  run.NodeID,
		Epoch:   at.node.Epoch,
		Number:  run.Number,
		Attempt: s.attempt,
		Device:  d.Name,
		Scope:   d.Scope,
		Now:     l.Now().UnixNano(),
	})
	return run, err
}

// end records the end of a run. A proof that is not recorded would be lost, so it is proposed until this
// server no longer leads.
func (l *Loop) end(ctx context.Context, run *cluster.FenceRun, p cluster.FenceEndRequest) error {
	p.NodeID = run.NodeID
	p.Number = run.Number
	p.Now = l.Now().UnixNano()
	record.Retry(ctx, l.Logger, "failed to record the end of a run of a fence agent, retrying",
		func(ctx context.Context) error {
			_, err := fsm.Propose(ctx, l.Proposer, fsm.FenceEnd, &p)
			return err
		})
	if ctx.Err() == nil {
		countEnd(cmp.Or(p.Cause, cluster.FenceProved))
	}

	return ctx.Err()
}

// countEnd counts a recorded end of a run. result is cluster.FenceProved, the cause of a failure, or
// cluster.FenceByLease.
func countEnd(result string) {
	metrics.IncrCounterWithLabels([]string{"fence", "runs"}, 1,
		[]metrics.Label{{Name: "result", Value: result}})
}
