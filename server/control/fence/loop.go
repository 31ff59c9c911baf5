package fence

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/server/fencing"
	"berth/state"
	"berth/structs"
)

// Loop fences lost nodes while this server leads.
type Loop struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Logger   hclog.Logger
	Devices  Devices
}

// interval is the time between two looks at the lost nodes. While none is lost a look costs little.
const interval = time.Second

// retry paces the attempts to fence a node, each with all of its devices.
var retry = backoff.Backoff{Min: 30 * time.Second, Max: 10 * time.Minute}

// record paces the proposals of the end of a run. It is proposed until this server no longer leads.
var record = backoff.Backoff{Min: 250 * time.Millisecond, Max: 10 * time.Second}

// Run fences nodes, one at a time, until ctx ends.
func (l Loop) Run(ctx context.Context) {
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

// Step does the next thing for one node, those of operators first. It reports whether there was any. It
// waits for the agent that it runs.
func (l Loop) Step(ctx context.Context) (acted bool, err error) {
	tx := l.Store.Read()
	run := leftRun(tx)
	if run != nil {
		return true, l.end(ctx, run, structs.FenceEndRequest{
			Cause:    structs.FenceCauseLeader,
			Reason:   "its leader ended before the run did",
			ExitCode: -1,
		})
	}

	for o := range state.FenceOrders(tx) {
		acted, err = l.act(ctx, l.look(tx, state.Node(tx, o.NodeID), false))
		if acted {
			return acted, err
		}
	}

	var braked, counted bool
	for n := range state.LostNodes(tx) {
		if !counted {
			braked = state.FenceBrake(tx) != nil
			counted = true
		}
		acted, err = l.act(ctx, l.look(tx, n, braked))
		if acted {
			return acted, err
		}
	}
	return false, nil
}

// leftRun returns a run that an earlier leader has left, nil if there is none: this one waits for its own
// runs. All of them end before the next one begins, so an operator never sees two that run.
func leftRun(tx *state.ReadTx) *structs.FenceRun {
	for n := range state.LostNodes(tx) {
		for _, r := range state.FenceRuns(tx, n.ID) {
			if r.State == structs.FenceRunning {
				return r
			}
		}
	}
	return nil
}

// lost is a lost node with its situation.
type lost struct {
	situation
	node   *structs.Node
	last   uint64 // the number of its last run
	claims []*structs.LostClaim
}

func (l Loop) look(tx *state.ReadTx, n *structs.Node, braked bool) lost {
	at := lost{
		node:   n,
		claims: state.LostClaims(tx, n.ID),
	}
	at.order = state.FenceOrder(tx, n.ID)
	at.braked = braked
	for _, r := range state.FenceRuns(tx, n.ID) {
		at.last = r.Number
		if r.Epoch == n.Epoch && r.Kind == structs.FenceByAgent {
			at.runs = append(at.runs, r)
		}
	}

	wanted := at.claims
	if at.order == nil {
		wanted = slices.DeleteFunc(slices.Clone(wanted), func(c *structs.LostClaim) bool {
			return !c.Waited || c.OnNodeLoss != structs.LossFence
		})
		at.waited = len(wanted) > 0
	}
	for _, d := range l.Devices {
		power := at.order != nil && d.Scope == fencing.ScopePower // also for a node without claims
		if (power || slices.ContainsFunc(wanted, d.covers)) && d.Matches(n) {
			at.devices = append(at.devices, d.Name)
		}
	}
	return at
}

// act takes the next step for a node. It reports whether there is one.
func (l Loop) act(ctx context.Context, at lost) (acted bool, err error) {
	s := next(at.situation, time.Now().UnixNano())
	switch s.kind {
	case noteNoDevice:
		return true, l.noteNoDevice(ctx, at, s)
	case runDevice:
		return true, l.run(ctx, at, s)
	}
	return false, nil
}

// noteNoDevice ends an attempt for which no device is left.
func (l Loop) noteNoDevice(ctx context.Context, at lost, s step) error {
	run, err := l.begin(ctx, at, s, &Device{})
	if err != nil {
		return err
	}
	return l.end(ctx, run, structs.FenceEndRequest{
		Cause:    structs.FenceCauseNoDevice,
		Reason:   "no fence device of the servers matches the node and covers its volumes",
		ExitCode: -1,
		NextTry:  nextTry(s.attempt),
	})
}

// run runs the agent of a device between the two entries about it.
func (l Loop) run(ctx context.Context, at lost, s step) error {
	i := slices.IndexFunc(l.Devices, func(d *Device) bool { return d.Name == s.device })
	d := l.Devices[i]
	run, err := l.begin(ctx, at, s, d)
	if err != nil {
		return err
	}

	l.Logger.Warn("fencing a lost node", "node_id", at.node.ID, "device", d.Name, "run", run.Number)
	result := d.timedFence(ctx, at.node)
	if ctx.Err() != nil {
		return ctx.Err() // the next leader ends the run
	}
	l.Logger.Warn("the run of a fence agent has ended", "node_id", at.node.ID, "device", d.Name,
		"run", run.Number, "proved", result.Proved, "reason", result.Reason)

	p := structs.FenceEndRequest{
		Proved:   result.Proved,
		Reason:   structs.Cut(result.Reason, structs.MaxText),
		Action:   result.Action,
		ExitCode: result.ExitCode,
		Output:   tail(result.Output),
	}
	if !result.Proved {
		p.Cause = structs.FenceCauseAgent
	}
	if result.Proved && d.Scope == fencing.ScopeStorage {
		p.Covered = d.covered(state.LostClaims(l.Store.Read(), at.node.ID))
	}
	off := result.Proved && d.Scope == fencing.ScopePower
	if off || len(at.untried(s.attempt)) == 1 {
		p.NextTry = nextTry(s.attempt)
	}
	return l.end(ctx, run, p)
}

// nextTry returns the time of the attempt after one that ends now.
func nextTry(attempt int) int64 {
	return time.Now().Add(retry.Delay(attempt)).UnixNano()
}

// begin records that a run begins.
func (l Loop) begin(ctx context.Context, at lost, s step, d *Device) (*structs.FenceRun, error) {
	run := &structs.FenceRun{
		NodeID: at.node.ID,
		Number: at.last + 1,
	}
	_, err := fsm.Propose(ctx, l.Proposer, fsm.FenceBegin, &structs.FenceBeginRequest{
		NodeID:  run.NodeID,
		Epoch:   at.node.Epoch,
		Number:  run.Number,
		Attempt: s.attempt,
		Device:  d.Name,
		Scope:   d.Scope,
		Now:     time.Now().UnixNano(),
	})
	return run, err
}

// end records the end of a run. A proof that is not recorded would be lost, so it is proposed until this
// server no longer leads.
func (l Loop) end(ctx context.Context, run *structs.FenceRun, p structs.FenceEndRequest) error {
	p.NodeID = run.NodeID
	p.Number = run.Number
	p.Now = time.Now().UnixNano()
	record.Retry(ctx, l.Logger, "failed to record the end of a run of a fence agent, retrying",
		func(ctx context.Context) error {
			_, err := fsm.Propose(ctx, l.Proposer, fsm.FenceEnd, &p)
			return err
		})
	if ctx.Err() == nil {
		countEnd(cmp.Or(p.Cause, structs.FenceProved))
	}
	return ctx.Err()
}

// countEnd counts a recorded end of a run. result is structs.FenceProved, the cause of a failure, or
// structs.FenceByLease.
func countEnd(result string) {
	metrics.IncrCounterWithLabels([]string{"fence", "runs"}, 1, []metrics.Label{{Name: "result", Value: result}})
}
