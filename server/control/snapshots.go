package control

import (
	"context"
	"time"

	"berth/fsm"
	"berth/server/control/volumes"
	"berth/server/control/workqueue"
	"berth/state"
	"berth/state/volumesecrets"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// snapshotStep is the call that a snapshot needs, as one of the calls for its volume, which has one in flight
// (CSI spec, "Concurrency"). It comes after the attachments of the volume.
func (c controllerLoop) snapshotStep(tx *state.ReadTx, s *storage.VolumeSnapshot) workqueue.Step {
	op := s.Next()
	rows := []*storage.VolumeSnapshot{s}
	c.recordCall = func(ctx context.Context, node string) error {
		note := &storage.SnapshotNoteEntry{
			Name:         s.Name,
			RowIndex:     s.CreateIndex,
			WriteOptions: c.stamp(s.Namespace),
		}
		note.Call = &structs.CSICall{NodeID: node, Op: op, Time: note.Now}
		return propose(ctx, c.Deps, fsm.SnapshotNote, note)
	}

	w := work{
		op:         op,
		volume:     s.Namespace + "/" + s.VolumeID,
		plugin:     s.PluginID,
		rank:       3,
		version:    s.ModifyIndex,
		lastError:  s.LastError,
		call:       s.Call,
		candidates: func(tx *state.ReadTx) []string { return snapshotControllers(tx, s) },
		act: func(ctx context.Context, candidates []string, err error) error {
			outcome := &storage.SnapshotOutcomeEntry{Name: s.Name, RowIndex: s.CreateIndex}
			outcome.Op = op
			if err == nil {
				outcome.Consistency, err = c.around(ctx, rows, s.Progress, func() (err error) {
					outcome.Answer, err = c.withCandidates(candidates).snapshotCall(ctx, s)
					return err
				})
			}
			if ctx.Err() != nil {
				return ctx.Err() // the outcome is unknown; the next leader makes the same call
			}
			return c.snapshotOutcome(ctx, s, outcome, err)
		},
	}

	step := c.step(tx, w)
	step.Long = s.IsWanted() && volumes.Needed(tx, rows, s.MayBeCut())
	poll := c.pollTime(s.PollTime)
	if s.State == storage.SnapshotPending && poll.After(step.Due) {
		step.Due = poll
	}
	return step
}

// pollTime returns the recorded time of the next question.
func (c controllerLoop) pollTime(recorded int64) time.Time {
	longest := c.Config.Retry.Max
	return c.Clock.After(recorded-int64(longest), longest)
}

// snapshotCall makes the call that a snapshot needs. If the creation that is to be undone has made nothing,
// there is neither an answer nor an error.
func (c controllerLoop) snapshotCall(
	ctx context.Context, s *storage.VolumeSnapshot,
) (*storage.CSISnapshot, error) {
	tx := c.Store.Read()
	v, err := volumesecrets.OpenForCall(tx, c.Keys, secretsHolder(tx, s))
	if err != nil {
		return nil, err
	}

	if s.Next() == storage.OpSnapshotDelete {
		_, err := callController(ctx, c, nodecalls.ClientCSISnapshotDelete, snapshotDeleteRequest(s, v.Secrets))
		if structs.IsKind(err, structs.KindNotFound) {
			err = nil // it no longer exists
		}
		return nil, err
	}

	var answer *storage.CSISnapshot
	resp, err := callController(ctx, c, nodecalls.ClientCSISnapshotCreate, snapshotCreateRequest(s, v.Secrets))
	if err == nil {
		answer, err = snapshotAnswer(s, resp)
	}
	if err != nil && s.Next() == storage.OpSnapshotLearn {
		return nil, unmade(err, structs.CommandLine(s.Namespace, "volume snapshot delete -force", s.Name))
	}
	return answer, err
}

// around makes a call for snapshots, of one row or of a group with the progress p. The tasks that write the
// volumes are quiesced while it cuts the snapshots. Those of a deletion are not: nobody reads what it finds.
func (c controllerLoop) around(
	ctx context.Context, rows []*storage.VolumeSnapshot, p storage.Progress, call func() error,
) (storage.Consistency, error) {
	if !p.IsWanted() {
		return storage.Consistency{}, call()
	}
	return volumes.Quiescer{Common: c.Common}.Around(ctx, rows, p.MayBeCut(), call)
}

// snapshotOutcome completes and records the outcome of a call.
func (c controllerLoop) snapshotOutcome(
	ctx context.Context, s *storage.VolumeSnapshot, outcome *storage.SnapshotOutcomeEntry, err error,
) error {
	outcome.WriteOptions = c.stamp(s.Namespace)
	if err != nil {
		outcome.Answer = nil
	}
	c.complete(&outcome.Outcome, &s.Progress, err)
	return propose(ctx, c.Deps, fsm.SnapshotOutcome, outcome)
}

// complete adds the error of a call to its outcome, and the time of the next call.
func (c controllerLoop) complete(o *storage.Outcome, p *storage.Progress, err error) {
	o.PollTime = c.Clock.Now().Add(c.Config.Retry.Delay(p.Polls + 1)).UnixNano()
	if err == nil {
		return
	}
	rpc := rpcs[o.Op]
	if !p.IsWanted() && p.ReadyTime == 0 {
		rpc = nodecalls.UndoneSnapshot
	}
	o.Err = c.operationError(err, p.LastError, rpc)
	o.Final = givesUp(rpc, err)
	o.KeepCall = keepsCall(p.Call, err)
}
