// Package leaving drains a node whose agent is told to stop, before the agent stops. The machine may be
// switched off afterwards: nothing that the drain moves runs there any more.
//
// The node requests the drain with its own secret. The servers move the allocations as in every other drain.
// The agent runs on meanwhile: it stops the tasks, releases the volumes and reports both. The next start of
// the agent ends the drain, and restores the eligibility of the node (structs.NodeLeave).
//
// Each wait has a bound, so that a cluster that cannot move the allocations keeps no machine from being
// switched off.
package leaving

import (
	"context"
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

// Node is a node that leaves.
type Node struct {
	ID       string
	SecretID string
	Region   string
	Servers  rpc.Caller
	Logger   hclog.Logger
	// Begin comes before the request of the drain: no report of the start of the agent follows it.
	Begin func(ctx context.Context) error
}

// Leave drains the node and waits until the drain has ended. It returns earlier if ctx ends, if no server
// answers for ServerPatience, or StopPatience after the deadline. It logs the reason.
func (n *Node) Leave(ctx context.Context, cfg Config) {
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

func (n *Node) request(ctx context.Context, spec *structs.DrainSpec) error {
	err := n.Begin(ctx)
	if err != nil {
		return err
	}
	return n.send(ctx, spec)
}

// Return ends the drain of an earlier shutdown, because the agent has started again.
func (n *Node) Return(ctx context.Context) error {
	return n.send(ctx, nil)
}

func (n *Node) send(ctx context.Context, spec *structs.DrainSpec) error {
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
func (n *Node) reach(ctx context.Context, call func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, ServerPatience)
	defer cancel()
	pause := serverRetry
	for {
		err := call(limited)
		if err == nil || !MayPass(err) || !backoff.Sleep(limited, pause.After(err)) {
			return err
		}
	}
}

// MayPass reports whether a call that failed with err may succeed later.
func MayPass(err error) bool {
	return structs.IsKind(err, structs.KindUnavailable) || structs.IsKind(err, structs.KindTimeout)
}

// awaitEnd waits until the node drains no more. It logs each change of the allocations that are left.
func (n *Node) awaitEnd(ctx context.Context) error {
	reasons := map[string]string{}
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

		n.logChanges(reasons, status.Waits)
		if status.DrainStrategy == nil {
			n.logEnd(status)
			return nil
		}

		req.MinIndex = status.Index
	}
}

// logChanges logs the reasons that are new, and the allocations that have left. It keeps reasons up to date.
func (n *Node) logChanges(reasons map[string]string, waits []structs.DrainWait) {
	left := map[string]bool{}
	for id := range reasons {
		left[id] = true
	}

	for _, w := range waits {
		delete(left, w.AllocID)
		if reasons[w.AllocID] == w.Reason {
			continue
		}

		reasons[w.AllocID] = w.Reason
		n.Logger.Info("waiting for an allocation to leave the node",
			"alloc_id", w.AllocID,
			"namespace", w.Namespace, "job_id", w.JobID,
			"group", w.TaskGroup,
			"reason", w.Reason)
	}

	for id := range left {
		delete(reasons, id)
		n.Logger.Info("allocation has left the node", "alloc_id", id, "remaining", len(waits))
	}
}

// logEnd logs how the drain has ended.
func (n *Node) logEnd(status *structs.NodeDrainStatusResponse) {
	ended := structs.DrainCanceled // the servers may have deleted the node
	if status.LastDrain != nil {
		ended = status.LastDrain.Status
	}
	n.Logger.Info("the drain of the node has ended", "status", ended)
}
