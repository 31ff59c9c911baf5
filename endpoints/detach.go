package endpoints

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/fsm"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
)

// askTimeout bounds the call that asks a node for its mounts of a volume. It makes no call to a plugin.
const askTimeout = 10 * time.Second

// detach makes a node let go of a volume whose allocations there have ended, and releases their claims. It
// asks the node, and releases nothing while the node has the volume mounted. Force is for a node that
// cannot be asked: a person vouches that it does not write, and the allocations count as ended. Force also
// helps where the plugin does not confirm its end and the node sees nothing mounted.
func (c claims) detach(
	ctx context.Context, req *structs.CSIVolumeDetachRequest,
) (*structs.CSIVolumeDetachResponse, error) {
	if len(req.Reason) > structs.MaxText || len(req.By) > structs.MaxName { // both are kept in a row
		return nil, structs.Invalidf("reason and by may have %d and %d bytes",
			structs.MaxText, structs.MaxName)
	}
	ns, tx := req.RequestNamespace(), c.store.Read()
	if state.Volume(tx, ns, req.VolumeID) == nil &&
		state.Attachment(tx, ns, req.VolumeID, req.NodeID) == nil {
		return nil, noVolume(ns, req.VolumeID)
	}
	var keys []structs.CSIClaimKey
	for _, row := range state.ClaimsByVolume(tx, ns, req.VolumeID) {
		if row.NodeID != req.NodeID {
			continue
		}
		if err := detachable(tx, row, req.Force); err != nil {
			return nil, err
		}
		keys = append(keys, row.Key())
	}
	switch {
	case len(keys) == 0 && state.Attachment(tx, ns, req.VolumeID, req.NodeID) != nil:
		return c.detachAttached(ctx, req)
	case len(keys) == 0:
		return c.detachUnclaimed(ctx, req)
	}
	refusal := c.nodeLetsGo(ctx, keys, req.NodeID)
	if refusal == nil {
		release := &structs.CSIVolumeUnpublishRequest{Claims: keys, NodeID: req.NodeID,
			WriteOptions: req.WriteOptions}
		index, err := fsm.Propose(ctx, c.raft, fsm.VolumeUnpublish, release)
		detail := fmt.Sprintf("%s has let go of volume %q: nothing of it is mounted there",
			nodeNamed(tx, req.NodeID), req.VolumeID)
		return proved(structs.DetachLetGo, detail, index, err)
	}
	if !req.Force {
		return nil, refusal
	}
	return c.force(ctx, req, keys, refusal)
}

// forcing is the ground on which claims are released without the confirmation of the node.
type forcing struct {
	proof    string // see structs.DetachNotMounted
	sentence string // for the operator
	record   string // in the volume's row
}

// force releases claims without the confirmation of the node, unless the node is known to use the volume.
func (c claims) force(ctx context.Context, req *structs.CSIVolumeDetachRequest, keys []structs.CSIClaimKey,
	refusal error,
) (*structs.CSIVolumeDetachResponse, error) {
	tx := c.store.Read()
	if !vouchable(tx, keys, req.NodeID, refusal) {
		return nil, refusal
	}
	answered, err := c.unmounted(ctx, tx, req, refusal)
	if err != nil {
		return nil, err
	}
	because := forcing{structs.DetachNotMounted,
		"%s sees nothing of volume %q mounted, but the plugin did not confirm that it let go. " +
			"The claims are released because you said so",
		"claims released; the node saw nothing mounted"}
	if !answered {
		because = forcing{structs.DetachVouched,
			"%s is down and could not be asked: nothing proves that it does not write to volume %q. " +
				"The claims are released because you vouch for it",
			"claims released; the node was down and could not be asked"}
	}
	c.logger.Warn("an operator forces a volume off a node", "volume", req.VolumeID,
		"namespace", req.RequestNamespace(), "node", req.NodeID, "by", req.By, "reason", req.Reason,
		"claims", len(keys), "proof", because.proof, "error", refusal)
	index, err := fsm.Propose(ctx, c.raft, fsm.VolumeForce, forced(req, because.record, keys, 0))
	detail := fmt.Sprintf(because.sentence, nodeNamed(tx, req.NodeID), req.VolumeID)
	return proved(because.proof, detail, index, err)
}

func forced(req *structs.CSIVolumeDetachRequest, what string, keys []structs.CSIClaimKey,
	attachment uint64,
) *structs.CSIVolumeForceRequest {
	return &structs.CSIVolumeForceRequest{VolumeID: req.VolumeID, NodeID: req.NodeID, Claims: keys,
		Attachment: attachment, Settle: structs.CallSettles, What: what, By: orElse(req.By, "an operator"),
		Reason: orElse(req.Reason, "no reason was given"), WriteOptions: req.WriteOptions}
}

// proved returns the answer of a detach, or the error of its write.
func proved(proof, detail string, index uint64, err error) (*structs.CSIVolumeDetachResponse, error) {
	if err != nil {
		return nil, err
	}
	resp := &structs.CSIVolumeDetachResponse{Proof: proof, Detail: detail}
	resp.Index = index
	return resp, nil
}

// unmounted asks the node for its mounts. It reports false when the node is down and does not answer. It
// returns an error when the volume is mounted there or may become so, or when a node that is up does not
// answer.
func (c claims) unmounted(ctx context.Context, tx *state.ReadTx, req *structs.CSIVolumeDetachRequest,
	refusal error,
) (answered bool, err error) {
	to := nodeconn.Target{Nodes: c.nodes, IDs: []string{req.NodeID}, Limit: askTimeout}
	has, err := nodeconn.Call(ctx, to, structs.ClientCSINodeVolume,
		&structs.ClientCSINodeVolumeRequest{VolumeID: req.VolumeID, VolumeNamespace: req.RequestNamespace()})
	name := nodeNamed(tx, req.NodeID)
	switch {
	case err != nil && isDown(tx, req.NodeID):
		return false, nil
	case err != nil:
		return false, structs.Unavailablef("%s is up and does not say what it has mounted of volume %q: %w; "+
			"power it off, and force again once it is down",
			name, req.VolumeID, err)
	case len(has.Mounts)+len(has.Pending) == 0:
		return true, nil
	}
	uses := append(slices.Clone(has.Mounts), has.Pending...)
	return true, structs.Preconditionf("%s still has volume %q: %s; it may write to it, so nothing is released. "+
		"Mend or restart the plugin there, or power the node off, and force again once it is down "+
		"(the node said: %w)",
		name, req.VolumeID, strings.Join(uses, ", "), refusal)
}

// detachAttached serves a detach from a node without a claim of the volume, where the controller of the
// plugin has still to detach an attachment.
func (c claims) detachAttached(
	ctx context.Context, req *structs.CSIVolumeDetachRequest,
) (*structs.CSIVolumeDetachResponse, error) {
	tx := c.store.Read()
	name := nodeNamed(tx, req.NodeID)
	a := state.Attachment(tx, req.RequestNamespace(), req.VolumeID, req.NodeID)
	switch {
	case a == nil:
		return proved(structs.DetachNothingHeld, nothingHeld(req.VolumeID, name), c.store.Index(), nil)
	case a.State != structs.AttachmentDetaching || !req.Force:
		index, err := fsm.Propose(ctx, c.raft, fsm.VolumeRetry,
			&structs.CSIVolumeRetryRequest{ID: req.VolumeID, WriteOptions: req.WriteOptions})
		if structs.IsKind(err, structs.KindNotFound) {
			err = nil // the volume is forgotten; its attachment goes on being detached
		}
		detail := fmt.Sprintf("Volume %q is %s at %s; what is left to do is tried again now%s",
			req.VolumeID, a.State, name, lastFailure(a))
		return proved(structs.DetachPending, detail, index, err)
	case a.LastError == nil:
		return nil, structs.Preconditionf(
			"volume %q is being detached from %s, and nothing has failed yet: wait for it",
			req.VolumeID, name)
	}
	if _, err := c.unmounted(ctx, tx, req, errors.New(a.LastError.Message)); err != nil {
		return nil, err
	}
	index, err := fsm.Propose(ctx, c.raft, fsm.VolumeForce,
		forced(req, "attachment forgotten; the plugin did not confirm the detach", nil, a.CreateIndex))
	if err == nil {
		c.logger.Warn("an operator forgot an attachment whose detach the plugin did not confirm",
			"volume", req.VolumeID, "namespace", req.RequestNamespace(),
			"node", req.NodeID, "by", req.By, "reason", req.Reason, "error", a.LastError.Message)
	}
	detail := fmt.Sprintf("The attachment of volume %q to %s is forgotten because you vouch for it; "+
		"the plugin did not confirm the detach%s", req.VolumeID, name, lastFailure(a))
	return proved(structs.DetachForgotten, detail, index, err)
}

func nothingHeld(volume, node string) string {
	return fmt.Sprintf("No claim and no attachment of volume %q names %s", volume, node)
}

func lastFailure(a *structs.CSIAttachment) string {
	if a.LastError == nil {
		return ""
	}
	return fmt.Sprintf(" (it failed %d times, last with: %s)", a.LastError.Attempts, a.LastError.Message)
}

// nodeNamed returns the name of a node in a sentence.
func nodeNamed(tx *state.ReadTx, id string) string {
	if n := state.Node(tx, id); n != nil && n.Name != "" {
		return fmt.Sprintf("Node %s (%s)", n.Name, structs.ShortID(id))
	}
	return "Node " + id
}

// isDown reports whether the lease of a node has ended, or the node is unknown.
func isDown(tx *state.ReadTx, id string) bool {
	node := state.Node(tx, id)
	return node == nil || node.Status == structs.NodeDown
}

// detachable returns an error while the allocation may still use the volume. An allocation on a node that
// is down may; with force it counts as ended.
func detachable(tx *state.ReadTx, row *structs.CSIClaim, force bool) error {
	alloc, down := state.Alloc(tx, row.AllocID), isDown(tx, row.NodeID)
	switch {
	case alloc != nil && !alloc.ClientTerminal() && !down:
		return structs.Preconditionf(
			"allocation %s (job %q) still uses volume %q on node %s; stop it first: berth alloc stop %s",
			alloc.ID, alloc.JobID, row.VolumeID, row.NodeID, structs.ShortID(alloc.ID))
	case down && !force:
		return structs.Unavailablef("node %s is down and cannot say whether it let go of volume %q; "+
			"bring it back, or, once it is surely off: %s",
			row.NodeID, row.VolumeID, state.DetachCommand(row.Namespace, row.VolumeID, row.NodeID))
	}
	return nil
}

// vouchable reports whether a person may overrule the refusal of a node. A node that is up may be overruled
// only if it does not say that the allocation runs, and has said itself that the allocation ended. An
// allocation that was given up for lost may run there: the node ends it and says so.
func vouchable(tx *state.ReadTx, keys []structs.CSIClaimKey, nodeID string, refusal error) bool {
	if isDown(tx, nodeID) {
		return true
	}
	if structs.IsKind(refusal, structs.KindConflict) {
		return false
	}
	return !slices.ContainsFunc(keys, func(k structs.CSIClaimKey) bool {
		alloc := state.Alloc(tx, k.AllocID)
		return alloc != nil && alloc.ClientStatus == structs.AllocLost
	})
}

// nodeLetsGo asks the node to unpublish and unstage for each claim.
func (c claims) nodeLetsGo(ctx context.Context, keys []structs.CSIClaimKey, nodeID string) error {
	if isDown(c.store.Read(), nodeID) {
		return structs.Unavailablef("node %s is down", nodeID)
	}
	var faults []error
	for _, k := range keys {
		if err := c.operatorDetach(ctx, k, nodeID); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	kind := structs.KindOf(faults[0])
	if slices.ContainsFunc(faults, func(err error) bool { return structs.IsKind(err, structs.KindConflict) }) {
		kind = structs.KindConflict // some allocation still runs: see vouchable
	}
	return structs.Errorf(kind, "the node did not let go: %w", errors.Join(faults...))
}

// operatorDetach asks a node to let go of the volume of a claim, for an operator.
func (c claims) operatorDetach(ctx context.Context, k structs.CSIClaimKey, nodeID string) error {
	return nodeconn.DetachFromNode(ctx, c.nodes, c.config.CallTimeout,
		nodeconn.Detach{Claim: k, NodeID: nodeID, ByOperator: true})
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
