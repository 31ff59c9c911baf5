package control

import (
	"context"

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

// groupStep is the call that a group snapshot needs, as one of the calls for each of its volumes. It comes
// after the others for them, whose end it awaits.
func (c controllerLoop) groupStep(tx *state.ReadTx, g *storage.GroupSnapshot) workqueue.Step {
	op := g.Next()
	c.recordCall = func(ctx context.Context, node string) error {
		note := &storage.SnapshotGroupNoteEntry{Name: g.Name, RowIndex: g.CreateIndex}
		note.WriteOptions = c.stamp(g.Namespace)
		note.Call = &structs.CSICall{NodeID: node, Op: op, Time: note.Now}
		return propose(ctx, c.Deps, fsm.SnapshotGroupNote, note)
	}

	w := work{
		op:         op,
		volume:     "group snapshot " + g.Namespace + "/" + g.Name,
		plugin:     g.PluginID,
		rank:       3,
		version:    g.ModifyIndex,
		lastError:  g.LastError,
		call:       g.Call,
		candidates: func(tx *state.ReadTx) []string { return groupControllers(tx, g) },
		act: func(ctx context.Context, candidates []string, err error) error {
			outcome := &storage.SnapshotGroupOutcomeEntry{Name: g.Name, RowIndex: g.CreateIndex}
			outcome.Op = op
			if err == nil {
				rows := snapshot.Members(c.Store.Read(), g)
				outcome.Consistency, err = c.around(ctx, rows, g.Progress, func() (err error) {
					outcome.Answer, err = c.withCandidates(candidates).groupCall(ctx, g, rows)
					return err
				})
			}
			if ctx.Err() != nil {
				return ctx.Err() // the outcome is unknown; the next leader makes the same call
			}
			return c.groupOutcome(ctx, g, outcome, err)
		},
	}

	step := c.step(tx, w)
	members := snapshot.Members(tx, g)
	step.Long = g.IsWanted() && volumes.Needed(tx, members, g.MayBeCut())
	for _, m := range members {
		volume := m.Namespace + "/" + m.VolumeID
		step.Others = append(step.Others, volume)
		if len(step.Awaits) > 0 {
			step.Awaits = append(step.Awaits, volumeSignal(volume))
		}
	}
	poll := c.pollTime(g.PollTime)
	if g.State == storage.SnapshotPending && poll.After(step.Due) {
		step.Due = poll
	}
	return step
}

// groupCall makes the call that a group needs. If the creation that is to be undone has made nothing, there
// is neither an answer nor an error.
func (c controllerLoop) groupCall(
	ctx context.Context, g *storage.GroupSnapshot, rows []*storage.VolumeSnapshot,
) (*storage.CSIGroup, error) {
	tx := c.Store.Read()
	holder, err := volumesecrets.OpenForCall(tx, c.Keys, secretsHolder(tx, rows[0]))
	if err != nil {
		return nil, err
	}

	if g.Next() == storage.OpGroupDelete {
		req := groupDeleteRequest(g, rows, holder.Secrets)
		_, err := callController(ctx, c, nodecalls.ClientCSIGroupDelete, req)
		if structs.IsKind(err, structs.KindNotFound) {
			err = nil // it no longer exists
		}
		return nil, err
	}

	var answer *storage.CSIGroup
	req := groupCreateRequest(g, rows, holder.Secrets)
	resp, err := callController(ctx, c, nodecalls.ClientCSIGroupCreate, req)
	if err == nil {
		answer, err = groupAnswer(req, resp)
	}
	if err != nil && g.Next() == storage.OpGroupLearn {
		remove := structs.CommandLine(g.Namespace, "volume snapshot group delete -force", g.Name)
		return nil, unmade(err, remove)
	}
	return answer, err
}

// groupOutcome completes and records the outcome of a call.
func (c controllerLoop) groupOutcome(
	ctx context.Context, g *storage.GroupSnapshot, outcome *storage.SnapshotGroupOutcomeEntry, err error,
) error {
	outcome.WriteOptions = c.stamp(g.Namespace)
	if err != nil {
		outcome.Answer = nil
	}
	c.complete(&outcome.Outcome, &g.Progress, err)
	return propose(ctx, c.Deps, fsm.SnapshotGroupOutcome, outcome)
}
