package release

import (
	"context"
	"fmt"
	"strings"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// Claim releases one claim. The node of a granted claim is called, and has to confirm that it has released
// the volume. A dry run tells what the release, or with Force a forced one, would do.
func (r Releaser) Claim(
	ctx context.Context,
	req *structs.VolumeClaimReleaseRequest,
	resp *structs.VolumeClaimReleaseResponse,
) (uint64, error) {
	if req.Force && !req.DryRun {
		return 0, structs.Invalidf("Force: only a dry run has it; %s releases a claim by force",
			structs.VolumeClaimForce.Name)
	}

	return r.releaseOne(ctx, req, resp)
}

// ForceClaim releases one claim also without the confirmation of its node: see Detach.
func (r Releaser) ForceClaim(
	ctx context.Context,
	req *structs.VolumeClaimReleaseRequest,
	resp *structs.VolumeClaimReleaseResponse,
) (uint64, error) {
	forced := *req
	forced.Force = true
	if req.Reason == "" && !req.DryRun {
		return 0, structs.Invalidf("Reason: nothing is given; expected why the node does not write")
	}

	return r.releaseOne(ctx, &forced, resp)
}

// releaseOne makes the claim a detachment of its node, so that single claims go the path of Detach.
func (r Releaser) releaseOne(
	ctx context.Context,
	req *structs.VolumeClaimReleaseRequest,
	resp *structs.VolumeClaimReleaseResponse,
) (uint64, error) {
	err := checkRecord(req.Reason, req.By)
	if err != nil {
		return 0, err
	}

	ns := req.RequestNamespace()
	tx := r.Store.Read()
	row := csi.Claim(tx, ns, req.VolumeID, req.AllocID)
	if row == nil {
		return 0, structs.NotFoundf("allocation %s has no claim on volume %q in namespace %q",
			req.AllocID, req.VolumeID, ns)
	}

	d := detachment{
		Releaser: r,
		ns:       ns,
		claim:    row,
		resp:     &structs.CSIVolumeDetachResponse{},
		req: &structs.CSIVolumeDetachRequest{
			VolumeID:     row.VolumeID,
			NodeID:       row.NodeID,
			Force:        req.Force,
			Reason:       req.Reason,
			By:           req.By,
			Shown:        req.Shown,
			WriteOptions: req.WriteOptions,
		},
	}

	err = d.checkSeen(tx, []*structs.CSIClaim{row})
	if err != nil {
		return 0, err
	}

	// The plan is made once, so a dry run shows what a release does.
	p := d.plan()
	if req.DryRun {
		d.describePlan(ctx, p, resp)
		return r.Store.Index(), nil
	}

	return d.carryOutAndLog(ctx, p, resp)
}

// carryOutAndLog carries out a plan and answers with its proof.
func (d detachment) carryOutAndLog(
	ctx context.Context, p plan, resp *structs.VolumeClaimReleaseResponse,
) (uint64, error) {
	index, err := d.carryOut(ctx, p)
	if err != nil {
		return 0, err
	}

	resp.Proof = d.resp.Proof
	resp.Detail = d.resp.Detail
	// Such a release is rare, and its record in the log of the server outlives the rows.
	d.Logger.Info("operator released a claim",
		"volume_id", d.claim.VolumeID,
		"namespace", d.ns,
		"alloc_id", d.claim.AllocID,
		"node_id", d.claim.NodeID,
		"by", d.req.By,
		"reason", d.req.Reason,
		"proof", resp.Proof)
	return index, nil
}

// plan is what the release of one claim does. A dry run shows it, and a release carries it out.
type plan struct {
	rejected error    // why the claim is not released, nil: it may be
	waited   bool     // the claim was never granted, so no node is called
	steps    []string // in their order
	// unproved are the facts that nothing proves before the node has answered. An operator weighs them before
	// the use of force.
	unproved []string
}

// plan decides about the release of one claim. It calls nobody.
func (d detachment) plan() (p plan) {
	tx := d.Store.Read()
	c := d.claim
	alloc := state.Alloc(tx, c.AllocID)
	// A claim that waits has no mount anywhere, so nothing has to be proved.
	p.waited = c.State == structs.ClaimWaiting
	if p.waited {
		// Its allocation would claim the volume again.
		if alloc != nil && !alloc.Terminal() {
			p.rejected = structs.Preconditionf("allocation %s (job %q) waits for volume %q; "+
				"stop it in place of this: berth alloc stop %s",
				alloc.ID, alloc.JobID, c.VolumeID, structs.ShortID(alloc.ID))
		}

		p.steps = []string{fmt.Sprintf("the claim, which was never granted, leaves the queue of volume %q",
			c.VolumeID)}
		return p
	}

	p.rejected = checkDetachable(tx, c, d.req.Force)
	node := nodeNamed(tx, c.NodeID)
	if isDown(tx, c.NodeID) {
		p.unproved = append(p.unproved, fmt.Sprintf("%s %s: nothing proves that it does not write to volume %q",
			node, absence(tx, c.NodeID), c.VolumeID))
	} else {
		p.steps = append(p.steps, node+" is called to unmount the volume")
	}

	// Force asks for the mounts too. It cannot make a node that answers lose a volume that it uses.
	if d.req.Force {
		p.steps = append(p.steps, node+" is called for its mounts of the volume, and rejects the release if it has any")
		if alloc != nil && !alloc.ClientTerminal() {
			p.steps = append(p.steps, fmt.Sprintf("allocation %s counts as lost, and is replaced", alloc.ID))
		}
	}

	p.steps = append(p.steps, fmt.Sprintf("the claim on volume %q is deleted, and the next claims in its queue are granted", c.VolumeID))

	gone := missingRows(tx, []*structs.CSIClaim{c})
	if gone != "" {
		p.unproved = append(p.unproved, strings.TrimPrefix(gone, "; "))
	}

	return p
}

// carryOut releases the claim of a plan.
func (d detachment) carryOut(ctx context.Context, p plan) (uint64, error) {
	rows := []*structs.CSIClaim{d.claim}
	switch {
	case p.rejected != nil:
		return 0, p.rejected
	case p.waited:
		d.setProof(structs.DetachNeverGranted,
			"The claim of allocation %s on volume %q waited: no node has used it%s",
			d.claim.AllocID, d.claim.VolumeID, missingRows(d.Store.Read(), rows))
		return d.proposeRelease(ctx, keysOf(rows))
	}

	return d.releaseClaims(ctx, rows)
}

// describePlan answers a dry run. It asks the node for its mounts, which calls no plugin.
func (d detachment) describePlan(
	ctx context.Context,
	p plan,
	resp *structs.VolumeClaimReleaseResponse,
) {
	resp.Steps = p.steps
	resp.Unproved = p.unproved
	if p.rejected != nil {
		resp.Rejected = p.rejected.Error()
		return
	}

	if p.waited {
		return
	}

	// The real call could unmount the volume. This one only lists.
	_, err := d.checkUnmounted(ctx, d.claim.NodeID, errDryRun)
	switch {
	case err != nil && d.req.Force:
		// With Force the mounts decide. Without it the release calls the plugin, which may succeed all the
		// same.
		resp.Rejected = err.Error()
	case err != nil:
		resp.Unproved = append(resp.Unproved, err.Error())
	}
}

// errDryRun stands for the answer of a node that a dry run does not ask to release anything.
var errDryRun = structs.Preconditionf("a dry run releases nothing")

// subject names what a forced release has released, as the beginning of a sentence.
func (d detachment) subject() string {
	if d.claim == nil {
		return "The claims are released"
	}
	return fmt.Sprintf("The claim of allocation %s is released", d.claim.AllocID)
}

// what is the record of a forced release.
func (d detachment) what(outcome string) string {
	if d.claim == nil {
		return "claims " + outcome
	}
	return fmt.Sprintf("claim of allocation %s %s", d.claim.AllocID, outcome)
}
