package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/fsm"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
)

// callTimeout bounds the call to a node to release a volume.
const callTimeout = 2 * time.Minute

// mountsTimeout bounds the call to a node for its mounts of a volume. The node calls no plugin for it.
const mountsTimeout = 10 * time.Second

// Detach makes a node release a volume whose allocations there have ended, and releases their claims. It
// calls the node, and releases nothing while the node has the volume mounted. Force is for an unreachable
// node: an operator asserts that it does not write, and the allocations count as ended. The caller needs
// MayAssert for it. Force also helps if the plugin does not confirm the unmount and the node has nothing
// mounted.
func (r Releaser) Detach(
	ctx context.Context,
	req *structs.CSIVolumeDetachRequest,
	resp *structs.CSIVolumeDetachResponse,
) (uint64, error) {
	err := checkRecord(req.Reason, req.By)
	if err != nil {
		return 0, err
	}

	d := detachment{
		Releaser: r,
		req:      req,
		resp:     resp,
		ns:       req.RequestNamespace(),
	}

	// One snapshot shows the claims and the attachment together.
	tx := r.Store.Read()
	volume := csi.Volume(tx, d.ns, req.VolumeID)
	attachment := csi.Attachment(tx, d.ns, req.VolumeID, req.NodeID)
	rows, err := d.claimsOnNode(tx)
	if err == nil {
		err = d.checkSeen(tx, rows)
	}
	switch {
	case err != nil:
		return 0, err
	// The attachment comes after the claims: the leader detaches a volume whose claims are gone.
	case len(rows) > 0:
		return d.releaseClaims(ctx, rows)
	case attachment != nil:
		return d.detachAttachment(ctx, attachment)
	case volume == nil:
		return 0, NoVolume(d.ns, req.VolumeID)
	}

	return d.detachUnclaimed(ctx, volume)
}

// releaseClaims makes the node release the volume, and then releases claims of it. An operator releases
// claims by this path alone. With Force the node need not confirm the release.
func (d detachment) releaseClaims(
	ctx context.Context,
	rows []*structs.CSIClaim,
) (uint64, error) {
	req := d.req
	tx := d.Store.Read()
	keys := keysOf(rows)
	rejection := d.releaseOnNode(ctx, keys, req.NodeID)
	switch {
	// The answer of the node is the proof, so this case needs no assertion.
	case rejection == nil:
		d.setProof(structs.DetachLetGo,
			"%s has released volume %q: nothing of it is mounted there%s",
			nodeNamed(tx, req.NodeID), req.VolumeID, missingRows(tx, rows))
		return d.proposeRelease(ctx, keys)
	case req.Force:
		return d.forceRelease(ctx, rows, rejection)
	}

	return 0, rejection
}

// proposeRelease releases claims whose volume nothing uses any more.
func (d detachment) proposeRelease(
	ctx context.Context,
	keys []structs.CSIClaimKey,
) (uint64, error) {
	return fsm.Propose(ctx, d.Raft, fsm.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		Claims:       keys,
		NodeID:       d.req.NodeID,
		WriteOptions: d.req.WriteOptions,
	})
}

// detachment is one request to detach a volume, with its answer. Its methods share the request and fill in
// the answer. It lives as long as the request.
type detachment struct {
	Releaser
	req  *structs.CSIVolumeDetachRequest
	resp *structs.CSIVolumeDetachResponse
	ns   string
	// claim is the only one that is released, nil: all of the node. With one, the record of a forced release
	// names its allocation.
	claim *structs.CSIClaim
}

// keysOf returns what log entries name claims by.
func keysOf(rows []*structs.CSIClaim) (keys []structs.CSIClaimKey) {
	for _, row := range rows {
		keys = append(keys, row.Key())
	}
	return keys
}

// checkSeen rejects a request that was decided about another volume of this name, or about other claims. The
// servers check it again as they apply the entry: this check comes before the first call of the node.
func (d detachment) checkSeen(tx *state.ReadTx, rows []*structs.CSIClaim) error {
	volume := csi.Volume(tx, d.ns, d.req.VolumeID)
	if volume != nil && d.req.Created != 0 && d.req.Created != volume.CreateIndex {
		return structs.Conflictf("volume %q was deleted and made anew since you have seen it: look at it again",
			d.req.VolumeID)
	}
	return state.CheckShown(tx, d.req.NodeID, keysOf(rows), d.req.Shown)
}

// claimsOnNode returns the claims of the node, or an error while an allocation may still use the volume.
func (d detachment) claimsOnNode(tx *state.ReadTx) (rows []*structs.CSIClaim, err error) {
	for _, row := range csi.ClaimsByVolume(tx, d.ns, d.req.VolumeID) {
		if row.NodeID != d.req.NodeID {
			continue
		}

		err := checkDetachable(tx, row, d.req.Force)
		if err != nil {
			return nil, err
		}

		rows = append(rows, row)
	}

	return rows, nil
}

// setProof sets the answer: the proof (see structs.DetachNotMounted) and a sentence for the operator. The
// sentence is made before the entry: what it names may have no row after that.
func (d detachment) setProof(proof, sentence string, args ...any) {
	d.resp.Proof = proof
	d.resp.Detail = fmt.Sprintf(sentence, args...)
}

// forceRelease releases claims without the confirmation of the node, unless the node is known to use the
// volume.
func (d detachment) forceRelease(
	ctx context.Context,
	rows []*structs.CSIClaim,
	rejection error,
) (uint64, error) {
	req := d.req
	tx := d.Store.Read()
	keys := keysOf(rows)
	// A node that is up knows best whether the volume is used.
	if !mayOverrule(tx, keys, req.NodeID, rejection) {
		return 0, rejection
	}

	// An answer of a node that is up and shows no mount is a proof, also if the plugin fails.
	answered, err := d.assertUnmounted(ctx, req.NodeID, rejection)
	if err != nil {
		return 0, err
	}

	node := nodeNamed(tx, req.NodeID)
	gone := missingRows(tx, rows)
	record := d.what("released; the node saw nothing mounted")
	switch {
	case answered && isDown(tx, req.NodeID):
		record = d.what("released; the node " + absence(tx, req.NodeID) + ", and saw nothing mounted")
		d.setProof(structs.DetachVouched, "%s %s. It answered that it sees nothing of volume %q mounted, which "+
			"does not prove that it mounts it no more. %s because you assert it%s",
			node, absence(tx, req.NodeID), req.VolumeID, d.subject(), gone)
	case answered:
		d.setProof(structs.DetachNotMounted, "%s sees nothing of volume %q mounted, "+
			"but the plugin did not confirm the release. "+
			"%s because you forced it%s", node, req.VolumeID, d.subject(), gone)
	default:
		record = d.what("released; the node " + absence(tx, req.NodeID) + " and did not answer")
		d.setProof(structs.DetachVouched, "%s %s and did not answer: "+
			"nothing proves that it does not write to volume %q. "+
			"%s because you assert it%s",
			node, absence(tx, req.NodeID), req.VolumeID, d.subject(), gone)
	}

	// The record in the log comes before the entry, so it is there whatever the entry brings.
	d.Logger.Warn("operator forces a volume off a node",
		"volume_id", req.VolumeID,
		"namespace", d.ns,
		"node_id", req.NodeID,
		"by", req.By,
		"reason", req.Reason,
		"claims", len(keys),
		"proof", d.resp.Proof,
		"error", rejection)

	return d.proposeForce(ctx, &structs.CSIVolumeForceRequest{
		What:   record,
		Claims: keys,
	})
}

// proposeForce completes a forced change and proposes it.
func (d detachment) proposeForce(
	ctx context.Context,
	forced *structs.CSIVolumeForceRequest,
) (uint64, error) {
	forced.VolumeID = d.req.VolumeID
	forced.NodeID = d.req.NodeID
	// The row keeps both texts, so they are never empty.
	forced.By = cmp.Or(d.req.By, "an operator")
	forced.Reason = cmp.Or(d.req.Reason, "no reason was given")
	forced.Shown = d.req.Shown
	forced.WriteOptions = d.req.WriteOptions
	return fsm.Propose(ctx, d.Raft, fsm.VolumeForce, forced)
}

// assertUnmounted is checkUnmounted for a forced release. If the node is down, the caller asserts that it
// does not write, also if the node answers: it has allocations that it believes to be its own, and may mount
// the volume for them in the next moment. Its answer counts only against the release.
func (d detachment) assertUnmounted(
	ctx context.Context,
	nodeID string,
	rejection error,
) (answered bool, err error) {
	// Only here an assertion counts: everything else was answered by a node that is up.
	answered, err = d.checkUnmounted(ctx, nodeID, rejection)
	if err == nil && (!answered || isDown(d.Store.Read(), nodeID)) {
		err = d.MayAssert(ctx)
	}

	return answered, err
}

// checkUnmounted calls a node for its mounts. It reports false if the node is down and does not answer. It
// returns an error if the volume is mounted there or may become so, or if a node that is up does not answer.
// It calls no plugin: the node reads its table of mounts and its records.
func (d detachment) checkUnmounted(
	ctx context.Context,
	nodeID string,
	rejection error,
) (answered bool, err error) {
	tx := d.Store.Read()
	to := nodeconn.Target{
		Nodes: d.Nodes,
		IDs:   []string{nodeID},
		Limit: mountsTimeout,
	}

	req := &nodecalls.ClientCSINodeVolumeRequest{
		VolumeID:        d.req.VolumeID,
		VolumeNamespace: d.ns,
	}

	has, err := nodeconn.Call(ctx, to, nodecalls.ClientCSINodeVolume, req)
	switch {
	case err != nil && isDown(tx, nodeID):
		return false, nil
	case err != nil:
		return false, structs.Unavailablef(
			"%s is up and does not report its mounts of volume %q: %w; "+
				"power it off, and force again once it is down",
			nodeNamed(tx, nodeID), req.VolumeID, err)

	// Pending mounts count, because a call that has begun can still succeed.
	case len(has.Mounts)+len(has.Pending) == 0:
		return true, nil
	}

	uses := slices.Concat(has.Mounts, has.Pending)
	return true, structs.Preconditionf("%s still has volume %q: %s; it may write to it, "+
		"so nothing is released. Repair or restart the plugin there, or power the node off, "+
		"and force again once it is down (the node answered: %w)",
		nodeNamed(tx, nodeID), req.VolumeID,
		strings.Join(uses, ", "), rejection)
}

// detachAttachment serves a detach from a node without a claim of the volume, where the controller of the
// plugin has still to detach an attachment.
func (d detachment) detachAttachment(
	ctx context.Context,
	a *structs.CSIAttachment,
) (uint64, error) {
	req := d.req
	name := nodeNamed(d.Store.Read(), req.NodeID)
	switch {
	case a.State != structs.AttachmentDetaching || !req.Force:
		d.setProof(structs.DetachPending,
			"Volume %q is %s at %s; the remaining calls are retried now%s",
			req.VolumeID, a.State, name, lastFailure(a))
		return d.retryDetach(ctx)

	// The plugin may succeed yet, so an assertion is not needed.
	case a.LastError == nil && csi.Plugin(d.Store.Read(), a.PluginID) != nil:
		return 0, structs.Preconditionf(
			"volume %q is being detached from %s, and nothing has failed yet: wait for it",
			req.VolumeID, name)
	}

	// Without the plugin nothing will ever fail, so the missing row stands for the failure.
	last := fmt.Errorf("plugin %q has no row, so nothing detaches the volume", a.PluginID)
	if a.LastError != nil {
		last = errors.New(a.LastError.Message)
	}

	_, err := d.assertUnmounted(ctx, req.NodeID, last)
	if err != nil {
		return 0, err
	}

	d.setProof(structs.DetachForgotten,
		"The attachment of volume %q to %s is deleted because you assert it; "+
			"the plugin did not confirm the detach%s%s",
		req.VolumeID, name, lastFailure(a), missingOf(d.Store.Read(), a.NodeID, a.PluginID))
	// The index is the attachment's: a newer one of the same node stays. A call that was sent may take
	// effect within Settle.
	index, err := d.proposeForce(ctx, &structs.CSIVolumeForceRequest{
		What:       "attachment deleted; the plugin did not confirm the detach",
		Attachment: a.CreateIndex,
		Settle:     structs.CallSettles,
	})
	if err == nil {
		d.Logger.Warn("operator deleted an attachment without a confirmed detach",
			"volume_id", req.VolumeID,
			"namespace", d.ns,
			"node_id", req.NodeID,
			"by", req.By,
			"reason", req.Reason,
			"error", last)
	}

	return index, err
}

// retryDetach ends the pauses of the calls for a volume. It serves a request without Force, and one before
// the detach has begun.
func (d detachment) retryDetach(ctx context.Context) (uint64, error) {
	retry := &structs.CSIVolumeRetryRequest{
		ID:           d.req.VolumeID,
		WriteOptions: d.req.WriteOptions,
	}

	index, err := fsm.Propose(ctx, d.Raft, fsm.VolumeRetry, retry)
	if structs.IsKind(err, structs.KindNotFound) {
		err = nil // the volume is deleted; its attachment continues to be detached
	}
	return index, err
}

// lastFailure is a part of a sentence, "" without a failure.
func lastFailure(a *structs.CSIAttachment) string {
	if a.LastError == nil {
		return ""
	}
	return fmt.Sprintf(" (it failed %d times, last with: %s)",
		a.LastError.Attempts,
		a.LastError.Message)
}

// nodeNamed returns the name of a node in a sentence. An operator knows the name, and commands take the ID.
func nodeNamed(tx *state.ReadTx, id string) string {
	n := state.Node(tx, id)
	if n != nil && n.Name != "" {
		return fmt.Sprintf("Node %s (%s)", n.Name, structs.ShortID(id))
	}
	return "Node " + id
}

// isDown reports whether the lease of a node has ended, or the node is unknown.
// A node that is up in its row and does not answer is not down: it may still write.
func isDown(tx *state.ReadTx, id string) bool {
	return state.Node(tx, id).Lost()
}

// checkDetachable returns an error while the allocation of a claim may still use the volume. An allocation on
// a node that is down may; with force it counts as ended.
func checkDetachable(
	tx *state.ReadTx,
	row *structs.CSIClaim,
	force bool,
) error {
	alloc := state.Alloc(tx, row.AllocID)
	down := isDown(tx, row.NodeID)
	switch {
	case alloc != nil && !alloc.ClientTerminal() && !down:
		return structs.Preconditionf(
			"allocation %s (job %q) still uses volume %q on node %s; stop it first: berth alloc stop %s",
			alloc.ID,
			alloc.JobID,
			row.VolumeID,
			row.NodeID,
			structs.ShortID(alloc.ID))

	// The text has the command, as an operator reads it during an incident.
	case down && !force:
		return structs.Unavailablef(
			"node %s %s and cannot report whether it released volume %q; "+
				"bring it back, or, once it is certainly off: %s",
			row.NodeID,
			absence(tx, row.NodeID),
			row.VolumeID,
			csi.DetachCommand(
				row.Namespace, row.VolumeID, row.NodeID))
	}

	return nil
}

// mayOverrule reports whether an operator may overrule the rejection of a node. The rejection of a node that
// is up may be overruled only if it does not report the allocation as running, and has itself reported that
// the allocation ended. A lost allocation may run there: the node ends it and reports this.
func mayOverrule(
	tx *state.ReadTx,
	keys []structs.CSIClaimKey,
	nodeID string,
	rejection error,
) bool {
	// A node that is down cannot report anything. The assertion of the operator decides.
	if isDown(tx, nodeID) {
		return true
	}

	// A conflict is the answer of a node that runs the allocation.
	if structs.IsKind(rejection, structs.KindConflict) {
		return false
	}

	// The servers ended a lost allocation. Its node may not know that yet.
	return !slices.ContainsFunc(keys, func(k structs.CSIClaimKey) bool {
		alloc := state.Alloc(tx, k.AllocID)
		return alloc != nil && alloc.ClientStatus == structs.AllocLost
	})
}

// releaseOnNode calls the node to unpublish and unstage for each claim.
func (r Releaser) releaseOnNode(
	ctx context.Context,
	keys []structs.CSIClaimKey,
	nodeID string,
) error {
	// No call reaches such a node, and its answer would come after a timeout.
	if isDown(r.Store.Read(), nodeID) {
		return structs.Unavailablef("node %s is down", nodeID)
	}

	// Each claim is a call, because each has its own mount. All of them are made, so that one fault does not
	// keep the others.
	var faults []error
	for _, k := range keys {
		err := r.operatorDetach(ctx, k, nodeID)
		if err != nil {
			faults = append(faults, err)
		}
	}

	if len(faults) == 0 {
		return nil
	}

	// The kind decides about what an operator may overrule, so the strictest one counts.
	kind := structs.KindOf(faults[0])
	for _, err := range faults {
		if structs.IsKind(err, structs.KindConflict) {
			kind = structs.KindConflict // an allocation still runs: see mayOverrule
		}
	}

	return structs.Errorf(kind,
		"the node did not release the volume: %w", errors.Join(faults...))
}

// operatorDetach calls a node to release the volume of a claim, for an operator.
func (r Releaser) operatorDetach(
	ctx context.Context,
	k structs.CSIClaimKey,
	nodeID string,
) error {
	return nodeconn.DetachFromNode(ctx, r.Nodes, callTimeout, nodeconn.Detach{
		Claim:      k,
		NodeID:     nodeID,
		ByOperator: true,
		Timeout:    nodeconn.NodeTimeout(r.Store.Read(), k.Namespace, k.VolumeID),
	})
}
