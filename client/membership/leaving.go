package membership

import (
	"context"
	"maps"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
)

const (
	// ServerPatience bounds the time for which no server answers. Then the agent stops without the drain.
	ServerPatience = 10 * time.Second
	// StopPatience is the time after the deadline in which the tasks end that it has stopped.
	StopPatience = time.Minute
)

// statusWait is the longest time between two reads of the drain. Some reasons change with the time alone.
const statusWait = 3 * time.Second

// serverRetry paces attempts to reach the servers.
var serverRetry = backoff.Backoff{
	Min: 250 * time.Millisecond,
	Max: 2 * time.Second,
}

// LeavingNode drains a node whose agent is told to stop, before the agent stops. The machine may be switched
// off afterwards: nothing that the drain moves runs there any more.
//
// The node requests the drain with its own secret. The servers move the allocations as in every other drain.
// The agent runs on meanwhile: it stops the tasks, releases the volumes and reports both. The next start of
// the agent ends the drain, and restores the eligibility of the node (structs.NodeLeave).
//
// Each wait has a bound, so that a cluster that cannot move the allocations keeps no machine from being
// switched off.
type LeavingNode struct {
	ID       string
	SecretID string
	Region   string
	Servers  rpc.Caller
	Logger   hclog.Logger
	// Lock waits until no write of the node's rows is in flight, and keeps others out until unlock is called.
	Lock func(ctx context.Context) (unlock func(), err error)

	leaves bool // guarded by Lock
}

// Leave drains the node and waits until the drain has ended. It returns earlier if ctx ends, if no server
// answers for ServerPatience, or StopPatience after the deadline. It logs the reason.
func (n *LeavingNode) Leave(ctx context.Context, cfg *LeaveConfig) {
	bound := cfg.deadline() + StopPatience
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()

	n.Logger.Info("draining the node before the agent stops",
		"deadline", cfg.deadline(), "force", cfg.Force, "ignore_system_jobs", cfg.IgnoreSystemJobs)

	err := n.reach(ctx, func(ctx context.Context) error {
		return n.request(ctx, cfg.drainSpec())
	})

	if err == nil {
		err = n.awaitEnd(ctx)
	}
	if err != nil {
		n.Logger.Warn("failed to drain the node, stopping all the same", "error", err)
	}
}

// request requests the drain. A first registration that is still to come does not end it afterwards.
func (n *LeavingNode) request(ctx context.Context, spec *structs.DrainSpec) error {
	unlock, err := n.Lock(ctx)
	if err != nil {
		return err
	}

	n.leaves = true
	unlock()
	return n.send(ctx, spec)
}

// Return ends the drain of the last shutdown, because the agent has started again. It returns an error only
// if the call may succeed later: no other one keeps the node out of the cluster. The caller has locked the
// node.
func (n *LeavingNode) Return(ctx context.Context) error {
	if n.leaves {
		return nil
	}

	err := n.send(ctx, nil)
	if err != nil && !mayPass(err) {
		n.Logger.Error("failed to end the drain of the last shutdown, the node stays ineligible",
			"error", err)
		return nil
	}
	return err
}

func (n *LeavingNode) send(ctx context.Context, spec *structs.DrainSpec) error {
	req := &structs.NodeLeaveRequest{
		NodeID:    n.ID,
		SecretID:  n.SecretID,
		DrainSpec: spec,
	}
	req.Region = n.Region
	_, err := rpc.Call(ctx, n.Servers, structs.NodeLeave, req)
	return err
}

// reach repeats a call until a server answers, for at most ServerPatience.
func (n *LeavingNode) reach(ctx context.Context, call func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, ServerPatience)
	defer cancel()
	pause := serverRetry
	for {
		err := call(limited)
		if err == nil || !mayPass(err) || !backoff.Sleep(limited, pause.After(err)) {
			return err
		}
	}
}

// mayPass reports whether a call that failed with err may succeed later.
func mayPass(err error) bool {
	if structs.CauseOf(err) == structs.CauseSecondAgent {
		return false // the work is the other agent's
	}
	return structs.IsKind(err, structs.KindUnavailable) || structs.IsKind(err, structs.KindTimeout)
}

// awaitEnd waits until the node drains no more. It logs each change of the allocations that are left.
func (n *LeavingNode) awaitEnd(ctx context.Context) error {
	known := map[string]structs.DrainWait{}
	req := &structs.NodeGetRequest{
		NodeID:   n.ID,
		SecretID: n.SecretID,
	}
	req.Region = n.Region
	req.MaxWait = statusWait
	for {
		var status *structs.NodeDrainStatusResponse
		err := n.reach(ctx, func(ctx context.Context) (err error) {
			own := *req // the call owns it
			status, err = rpc.Call(ctx, n.Servers, structs.NodeDrainStatus, &own)
			return err
		})
		if err != nil {
			return err
		}

		n.logChanges(known, status.Waits)
		if status.DrainStrategy == nil {
			n.logEnd(status)
			return nil
		}

		req.MinIndex = status.Index
	}
}

// logChanges logs the waits that are new or have another reason, and the allocations that have left. It keeps
// known up to date.
func (n *LeavingNode) logChanges(known map[string]structs.DrainWait, waits []structs.DrainWait) {
	left := maps.Clone(known)
	for _, w := range waits {
		delete(left, w.AllocID)
		if known[w.AllocID] == w {
			continue
		}

		known[w.AllocID] = w
		n.Logger.Info("waiting for an allocation to leave the node",
			"alloc_id", w.AllocID,
			"namespace", w.Namespace, "job_id", w.JobID,
			"group", w.TaskGroup,
			"reason", w.Reason)
	}

	for id := range left {
		delete(known, id)
		n.Logger.Info("allocation has left the node", "alloc_id", id, "remaining", len(waits))
	}
}

// logEnd logs how the drain has ended.
func (n *LeavingNode) logEnd(status *structs.NodeDrainStatusResponse) {
	ended := structs.DrainCanceled // the servers may have deleted the node
	if status.LastDrain != nil {
		ended = status.LastDrain.Status
	}
	n.Logger.Info("the drain of the node has ended", "status", ended)
}
