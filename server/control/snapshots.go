package control

import (
	"context"
	"time"

	"berth/fsm"
	"berth/server/control/volumes"
	"berth/server/control/workqueue"
	"berth/state"
	"berth/state/csi/snapshot"
	"berth/state/volumesecrets"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// object is a snapshot or a group of snapshots, with the calls for its kind.
type object struct {
	storage.Progress
	kind      string // storage.KindSnapshot or KindGroup
	namespace string
	name      string
	plugin    string
	volume    string // work.volume
	row       structs.Indexes
	// members returns the rows of a group's snapshots. A snapshot is its only member.
	members func(tx *state.ReadTx) []*storage.VolumeSnapshot
	calls   objectCalls
	note    fsm.Command[storage.SnapshotNoteEntry]
	outcome fsm.Command[storage.SnapshotOutcomeEntry]
	forget  string // the command that deletes the rows alone
}

// objectCalls makes the calls for an object of a kind. The rows are those of its members.
type objectCalls interface {
	create(
		ctx context.Context, c controllerLoop, rows []*storage.VolumeSnapshot, secrets structs.Secrets,
	) (*storage.CSIGroup, error)
	remove(
		ctx context.Context, c controllerLoop, rows []*storage.VolumeSnapshot, secrets structs.Secrets,
	) error
}

// snapshotStep is the call that a snapshot needs, as one of the calls for its volume, which has one in flight
// (CSI spec, "Concurrency"). It comes after the attachments of the volume.
func (c controllerLoop) snapshotStep(tx *state.ReadTx, s *storage.VolumeSnapshot) workqueue.Step {
	return c.objectStep(tx, &object{
		Progress:  s.Progress,
		kind:      storage.KindSnapshot,
		namespace: s.Namespace,
		name:      s.Name,
		plugin:    s.PluginID,
		volume:    s.Namespace + "/" + s.VolumeID,
		row:       s.Indexes,
		members:   func(*state.ReadTx) []*storage.VolumeSnapshot { return []*storage.VolumeSnapshot{s} },
		calls:     snapshotCalls{s},
		note:      fsm.SnapshotNote,
		outcome:   fsm.SnapshotOutcome,
		forget:    structs.CommandLine(s.Namespace, "volume snapshot delete -force", s.Name),
	})
}

// groupStep is the call that a group snapshot needs, as one of the calls for each of its volumes. It comes
// after the others for them, whose end it awaits.
func (c controllerLoop) groupStep(tx *state.ReadTx, g *storage.GroupSnapshot) workqueue.Step {
	return c.objectStep(tx, &object{
		Progress:  g.Progress,
		kind:      storage.KindGroup,
		namespace: g.Namespace,
		name:      g.Name,
		plugin:    g.PluginID,
		volume:    storage.KindGroup + " " + g.Namespace + "/" + g.Name,
		row:       g.Indexes,
		members: func(tx *state.ReadTx) []*storage.VolumeSnapshot {
			return snapshot.Members(tx, g)
		},
		calls:   groupCalls{g},
		note:    fsm.SnapshotGroupNote,
		outcome: fsm.SnapshotGroupOutcome,
		forget:  structs.CommandLine(g.Namespace, "volume snapshot group delete -force", g.Name),
	})
}

// objectStep is the next call for a snapshot or a group.
func (c controllerLoop) objectStep(tx *state.ReadTx, s *object) workqueue.Step {
	c.recordCall = func(ctx context.Context, node string) error {
		note := &storage.SnapshotNoteEntry{
			Name:         s.name,
			RowIndex:     s.row.CreateIndex,
			WriteOptions: c.stamp(s.namespace),
		}
		note.Call = &structs.CSICall{NodeID: node, Op: s.NextFor(s.kind), Time: note.Now}
		return propose(ctx, c.Deps, s.note, note)
	}
	step := c.step(tx, work{
		op:         s.NextFor(s.kind),
		volume:     s.volume,
		plugin:     s.plugin,
		rank:       3,
		version:    s.row.ModifyIndex,
		lastError:  s.LastError,
		call:       s.Call,
		candidates: func(tx *state.ReadTx) []string { return reachingAll(tx, s.members(tx)) },
		act: func(ctx context.Context, candidates []string, err error) error {
			return c.withCandidates(candidates).actOnObject(ctx, s, err)
		},
	})

	members := s.members(tx)
	step.Long = s.IsWanted() && volumes.Needed(tx, members, s.MayBeCut())
	for _, m := range members {
		volume := m.Namespace + "/" + m.VolumeID
		if volume == s.volume {
			continue
		}
		step.Others = append(step.Others, volume)
		if len(step.Awaits) > 0 {
			step.Awaits = append(step.Awaits, volumeSignal(volume))
		}
	}
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

// actOnObject makes the next call, unless there is an error, and records the outcome.
func (c controllerLoop) actOnObject(ctx context.Context, s *object, err error) error {
	outcome := &storage.SnapshotOutcomeEntry{Name: s.name, RowIndex: s.row.CreateIndex}
	outcome.Op = s.NextFor(s.kind)
	if err == nil {
		rows := s.members(c.Store.Read())
		outcome.Consistency, err = c.around(ctx, rows, s.Progress, func() (err error) {
			outcome.Answer, err = c.callForObject(ctx, s, rows)
			return err
		})
	}
	if ctx.Err() != nil {
		return ctx.Err() // the outcome is unknown; the next leader makes the same call
	}

	outcome.WriteOptions = c.stamp(s.namespace)
	if err != nil {
		outcome.Answer = nil
	}
	c.complete(&outcome.Outcome, &s.Progress, err)
	return propose(ctx, c.Deps, s.outcome, outcome)
}

// callForObject makes the next call. If the creation that is to be undone has made nothing, there is neither
// an answer nor an error.
func (c controllerLoop) callForObject(
	ctx context.Context, s *object, rows []*storage.VolumeSnapshot,
) (*storage.CSIGroup, error) {
	tx := c.Store.Read()
	holder, err := volumesecrets.OpenForCall(tx, c.Keys, secretsHolder(tx, rows[0]))
	if err != nil {
		return nil, err
	}

	if s.Step() == storage.StepDelete {
		err := s.calls.remove(ctx, c, rows, holder.Secrets)
		if structs.IsKind(err, structs.KindNotFound) {
			err = nil // it no longer exists
		}
		return nil, err
	}

	answer, err := s.calls.create(ctx, c, rows, holder.Secrets)
	if err != nil && s.Step() == storage.StepLearn {
		return nil, unmade(err, s.forget)
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
