// Package quiesce makes the nodes run the commands of tasks before and after a snapshot of their volume is
// cut: see structs.SnapshotCommands.
package quiesce

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/hostuse"
	"berth/structs/nodecalls"
	"berth/structs/snapshot"
)

// slack is the time of a call beside that of the command.
const slack = 10 * time.Second

// Quiescer calls the nodes.
type Quiescer struct {
	Nodes nodeconn.Caller
	Store *state.Store
}

// Around calls cut while the tasks that write the volumes of snapshots are quiesced. It does not call it if a
// task cannot be quiesced: the error is a precondition. Each task that may be quiesced is resumed before
// Around returns, or by its node after its timeout. The result is for the snapshots that cut has made. With
// mayBeCut an earlier call may have cut them, or may still do so: then no task is quiesced.
func (q Quiescer) Around(
	ctx context.Context, rows []*snapshot.VolumeSnapshot, mayBeCut bool, cut func() error,
) (is snapshot.Consistency, err error) {
	var writers []writer
	tx := q.Store.Read()
	for _, s := range rows {
		writers = append(writers, writersOf(tx, s)...)
	}
	if len(writers) == 0 {
		return is, cut()
	}
	// The later calls for a snapshot that is cut, too: its row has what the first one has found.
	if mayBeCut {
		is.Level = snapshot.CrashConsistent
		is.Reason = "an earlier call without an answer may have cut it, after the tasks were resumed"
		return is, cut()
	}

	for i, w := range writers {
		_, err = nodeconn.Call(ctx, q.target(w), nodecalls.ClientCSIQuiesce, w.request())
		if err != nil {
			q.resume(ctx, writers[:i+1]) // its answer may be lost
			return is, structs.Preconditionf("%s: %w", w, err)
		}
	}
	err = cut()
	return q.resume(ctx, writers), err
}

// resume resumes tasks, and returns what a snapshot is that was cut before.
func (q Quiescer) resume(ctx context.Context, writers []writer) snapshot.Consistency {
	is := snapshot.Consistency{Level: snapshot.AppConsistent}
	var reasons []string
	for _, w := range writers {
		resp, err := nodeconn.Call(ctx, q.target(w), nodecalls.ClientCSIResume, w.request())
		switch {
		case err != nil:
			is.Level = snapshot.CrashConsistent
			reasons = append(reasons, fmt.Sprintf("%s: no answer whether it was quiesced: %v", w, err))
		case resp.Late != "":
			is.Level = snapshot.CrashConsistent
			reasons = append(reasons, fmt.Sprintf("%s: %s", w, resp.Late))
		case resp.Fault != "":
			reasons = append(reasons, fmt.Sprintf("%s: the command after the snapshot has failed: %s", w, resp.Fault))
		}
	}
	is.Reason = structs.Cut(strings.Join(reasons, "; "), structs.MaxReason)
	return is
}

func (q Quiescer) target(w writer) nodeconn.Target {
	return nodeconn.Target{
		Nodes: q.Nodes,
		IDs:   []string{w.nodeID},
		Limit: 2*w.timeout + slack, // the command that ends an earlier snapshot may come first
	}
}

// writer is a task that has commands, and writes the volume.
type writer struct {
	volumeID, allocID, task string
	nodeID                  string
	timeout                 time.Duration
}

// String names the task for operators.
func (w writer) String() string {
	return fmt.Sprintf("task %s of allocation %s", w.task, structs.ShortID(w.allocID))
}

func (w writer) request() *nodecalls.QuiesceRequest {
	return &nodecalls.QuiesceRequest{
		VolumeID: w.volumeID,
		AllocID:  w.allocID,
		Task:     w.task,
	}
}

// writersOf returns the tasks of running allocations with a claim to write the volume of a snapshot. A
// running allocation has all of its claims. The tasks are sorted by allocation and by their order in the
// group.
func writersOf(tx *state.ReadTx, s *snapshot.VolumeSnapshot) (writers []writer) {
	claims := csi.ClaimsByVolume(tx, s.Namespace, s.VolumeID)
	slices.SortFunc(claims, func(a, b *structs.CSIClaim) int { return strings.Compare(a.AllocID, b.AllocID) })
	for _, c := range claims {
		a := state.Alloc(tx, c.AllocID)
		if a == nil || a.ClientStatus != structs.AllocRunning || c.Mode != structs.ClaimWrite {
			continue
		}
		writers = append(writers, writersIn(tx, a, s.VolumeID)...)
	}
	return writers
}

// writersIn returns the tasks of one allocation.
func writersIn(tx *state.ReadTx, a *structs.Allocation, volumeID string) (writers []writer) {
	job := state.JobVersion(tx, a.Namespace, a.JobID, a.JobVersion)
	if job == nil {
		return nil
	}
	group := hostuse.GroupOf(job, a)
	if group == nil {
		return nil
	}
	for _, alias := range slices.Sorted(maps.Keys(group.Volumes)) {
		r := group.Volumes[alias]
		if !r.NeedsClaim() || r.VolumeID(a.Index(), a.ID) != volumeID {
			continue
		}
		for _, t := range group.Tasks {
			for _, m := range t.VolumeMounts {
				if m.Snapshot != nil && m.Volume == alias {
					writers = append(writers, writer{volumeID, a.ID, t.Name, a.NodeID, m.Snapshot.Timeout})
				}
			}
		}
	}
	return writers
}
