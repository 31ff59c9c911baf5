package volumes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"berth/server/control/loop"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// slack is the time of a call beside the command's.
const slack = 10 * time.Second

// Quiescer calls the nodes.
//
// It makes the nodes run the commands of tasks before and after a snapshot of their volume is
// cut: see structs.SnapshotCommands.
type Quiescer struct {
	loop.Common
}

// Needed reports whether Around quiesces tasks, whose commands may take long.
func Needed(tx *state.ReadTx, rows []*storage.VolumeSnapshot, mayBeCut bool) bool {
	return !mayBeCut && slices.ContainsFunc(rows, func(s *storage.VolumeSnapshot) bool {
		return len(writersOf(tx, s)) > 0
	})
}

// Around calls cut while the tasks that write the volumes of snapshots are quiesced. It does not call it if a
// task cannot be quiesced: the error is a precondition. Each task that may be quiesced is resumed before
// Around returns, or by its node after its timeout. The result is for the snapshots that cut has made. With
// mayBeCut an earlier call may have cut them, or may still do so: then no task is quiesced.
func (q Quiescer) Around(
	ctx context.Context, rows []*storage.VolumeSnapshot, mayBeCut bool, cut func() error,
) (is storage.Consistency, err error) {
	var writers []*writer
	tx := q.Store.Read()
	for _, s := range rows {
		writers = append(writers, writersOf(tx, s)...)
	}
	if len(writers) == 0 {
		return is, cut()
	}
	// The later calls for a snapshot that is cut, too: its row has what the first one has found.
	if mayBeCut {
		is.Level = storage.CrashConsistent
		is.Reason = "an earlier call without an answer may have cut it, after the tasks were resumed"
		return is, cut()
	}

	byAlloc := byAllocation(writers)
	eachAtOnce(byAlloc, func(ofOne []*writer) { q.quiesce(ctx, ofOne) })
	for _, w := range writers {
		if w.err != nil {
			err = structs.Preconditionf("%s: %w", w, w.err)
			break
		}
	}
	if err == nil {
		err = cut()
	}
	eachAtOnce(byAlloc, func(ofOne []*writer) { q.resume(ctx, ofOne) })
	return consistencyOf(writers), err
}

// byAllocation groups writers. Those of one allocation keep their order.
func byAllocation(writers []*writer) (groups [][]*writer) {
	index := map[string]int{}
	for _, w := range writers {
		i, known := index[w.allocID]
		if !known {
			i = len(groups)
			index[w.allocID] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], w)
	}
	return groups
}

// quiesceAtOnce is the most allocations whose tasks are quiesced or resumed at once.
const quiesceAtOnce = 32

// eachAtOnce calls do for all groups at once. So the pause of a task does not grow with their number. It
// returns when all calls have ended.
func eachAtOnce(groups [][]*writer, do func([]*writer)) {
	var calls errgroup.Group
	calls.SetLimit(quiesceAtOnce)
	for _, ofOne := range groups {
		calls.Go(func() error {
			do(ofOne)
			return nil
		})
	}
	_ = calls.Wait() // no call returns an error
}

// quiesce quiesces the tasks of an allocation, in their order, up to the first that fails.
func (q Quiescer) quiesce(ctx context.Context, writers []*writer) {
	for _, w := range writers {
		w.asked = true
		_, w.err = nodeconn.Call(ctx, q.target(w), nodecalls.ClientCSIQuiesce, w.request())
		if w.err != nil {
			return
		}
	}
}

// resume resumes the tasks of an allocation that may be quiesced, also one whose answer may be lost.
func (q Quiescer) resume(ctx context.Context, writers []*writer) {
	for _, w := range writers {
		if !w.asked {
			return
		}
		resp, err := nodeconn.Call(ctx, q.target(w), nodecalls.ClientCSIResume, w.request())
		if err != nil {
			w.late = fmt.Sprintf("no answer whether it was quiesced: %v", err)
			continue
		}
		w.late = resp.Late
		w.fault = resp.Fault
	}
}

// consistencyOf returns what a snapshot is that was cut while these tasks were to be quiesced.
func consistencyOf(writers []*writer) storage.Consistency {
	is := storage.Consistency{Level: storage.AppConsistent}
	var reasons []string
	for _, w := range writers {
		switch {
		case w.late != "":
			is.Level = storage.CrashConsistent
			reasons = append(reasons, fmt.Sprintf("%s: %s", w, w.late))
		case w.fault != "":
			reasons = append(reasons, fmt.Sprintf("%s: the command after the snapshot has failed: %s", w, w.fault))
		}
	}
	is.Reason = structs.Cut(strings.Join(reasons, "; "), structs.MaxReason)
	return is
}

func (q Quiescer) target(w *writer) nodeconn.Target {
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

	asked bool   // to be quiesced
	err   error  // of the command before the snapshot
	late  string // why it is not certain that it was quiesced until the cut
	fault string // of the command after the snapshot
}

// String names the task for operators.
func (w *writer) String() string {
	return fmt.Sprintf("task %s of allocation %s", w.task, structs.ShortID(w.allocID))
}

func (w *writer) request() *nodecalls.QuiesceRequest {
	return &nodecalls.QuiesceRequest{
		VolumeID: w.volumeID,
		AllocID:  w.allocID,
		Task:     w.task,
	}
}

// writersOf returns the tasks of running allocations with a claim to write the volume of a snapshot. A
// running allocation has all of its claims. The tasks are sorted by allocation and by their order in the
// group.
func writersOf(tx *state.ReadTx, s *storage.VolumeSnapshot) (writers []*writer) {
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
func writersIn(tx *state.ReadTx, a *structs.Allocation, volumeID string) (writers []*writer) {
	job := state.JobVersion(tx, a.Namespace, a.JobID, a.JobVersion)
	if job == nil {
		return nil
	}
	group := storage.GroupOfAlloc(job, a)
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
					writers = append(writers, &writer{
						volumeID: volumeID,
						allocID:  a.ID,
						task:     t.Name,
						nodeID:   a.NodeID,
						timeout:  m.Snapshot.Timeout,
					})
				}
			}
		}
	}
	return writers
}
