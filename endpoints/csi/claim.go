package csi

import (
	"cmp"
	"context"
	"slices"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/endpoints/rights"
	"berth/fsm"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/state/volumesecrets"
	"berth/structs"
)

// Claims serve the methods of CSIVolume for claims.
type Claims struct{ *core.Server }

// Claim records claims for allocations of the calling node, and no others.
func (c Claims) Claim(
	ctx context.Context,
	req *structs.CSIVolumeClaimRequest,
	resp *structs.CSIVolumeClaimResponse,
) (uint64, error) {
	// An empty entry would change nothing, so it is a fault of the caller.
	if len(req.Claims) == 0 {
		return 0, structs.Invalidf("Claims: nothing is given; expected at least one claim")
	}

	err := c.checkCount(len(req.Claims))
	if err != nil {
		return 0, err
	}

	// The rows decide what a node may claim, whatever it sends.
	own, err := ownClaims(c.Store.Read(), req, c.Roles)
	if err != nil {
		return 0, err
	}

	// The request stays as it is: another server may get it if this one does not lead any more.
	entry := *req
	entry.Claims = own
	entry.Agent = req.Agent.OfLog()
	index, err := fsm.Propose(ctx, c.Raft, fsm.VolumeClaim, &entry)
	if err != nil {
		return 0, err
	}

	// The caller needs the claims with the state and the index that they have now: a claim that does not wait
	// was granted by this entry.
	tx := c.Store.Read()
	// The entry made each claim. If one is gone already, its allocation has ended meanwhile.
	for _, c := range own {
		row := csi.Claim(tx, c.Namespace, c.VolumeID, c.AllocID)
		if row == nil {
			return 0, structs.Conflictf(
				"the claim of allocation %s on volume %q was released at once",
				c.AllocID, c.VolumeID)
		}

		resp.Claims = append(resp.Claims, row)
	}

	return index, nil
}

// checkCount bounds the claims of a log entry, because an entry delays the entries behind it.
func (c Claims) checkCount(n int) error {
	if n > c.Settings.MaxClaims {
		return structs.Invalidf(
			"Claims: %d are given; expected at most %d, more in several requests",
			n, c.Settings.MaxClaims)
	}
	return nil
}

// ownClaims checks that each claim is for an allocation on the calling node and, where roles decide, that the
// allocation asks for it. It returns copies with the fields that follow from the rows.
func ownClaims(
	tx *state.ReadTx,
	req *structs.CSIVolumeClaimRequest,
	roles bool,
) ([]*structs.CSIClaim, error) {
	n := len(req.Claims)
	own := make([]*structs.CSIClaim, n)
	for i, given := range req.Claims {
		if given == nil {
			return nil, structs.Invalidf("Claims[%d]: nothing is given; expected a claim", i)
		}

		// The copy leaves the request of a caller in this process as it was.
		c := given.Copy()
		alloc := state.Alloc(tx, c.AllocID)
		if alloc == nil {
			return nil, structs.NotFoundf(
				"there is no allocation %q to claim volume %q for",
				c.AllocID, c.VolumeID)
		}

		if alloc.NodeID != req.NodeID ||
			c.NodeID != "" && c.NodeID != req.NodeID {
			return nil, structs.Deniedf(
				"allocation %s is not on node %s: a node claims for its own allocations alone",
				c.AllocID, req.NodeID)
		}

		// Where no roles decide, whoever reaches a server may register a job that asks for any volume.
		if roles {
			err := rights.CheckClaimed(alloc, c)
			if err != nil {
				return nil, err
			}
		}

		// These follow from the rows, so no value of the node enters the log.
		c.Namespace = alloc.Namespace
		c.NodeID = req.NodeID
		c.JobID = alloc.JobID
		c.TaskGroup = alloc.TaskGroup
		c.Unguarded = structs.Cut(c.Unguarded, structs.MaxReason)

		v := csi.Volume(tx, c.Namespace, c.VolumeID)
		// A volume that does not exist has no plugin yet. The claim waits for the volume.
		if v != nil {
			c.PluginID = v.PluginID
		}

		own[i] = c
	}

	return own, nil
}

// Unpublish releases claims of the calling node, which has released the volumes. One log entry releases all
// claims of a request, for example when a node is drained.
func (c Claims) Unpublish(
	ctx context.Context,
	req *structs.CSIVolumeUnpublishRequest,
	_ *structs.Empty,
) (uint64, error) {
	// The field is for the endpoint that releases claims by order of an operator.
	if req.Operator != "" {
		return 0, structs.Invalidf("Operator: a node must not set this field")
	}

	// Each list costs the entry about the same, so the larger one counts.
	err := c.checkCount(max(len(req.Claims), len(req.TurnedReadOnly)))
	if err != nil || len(req.Claims) == 0 {
		return c.Store.Index(), err
	}

	tx := c.Store.Read()
	node := state.Node(tx, req.NodeID)
	if node != nil && node.Unaccounted && slices.ContainsFunc(req.Claims, func(k structs.CSIClaimKey) bool {
		return csi.MayHold(tx, node, k.Namespace, k.VolumeID)
	}) {
		// The node deletes its record of a volume after the answer. It has to report the volume first,
		// because the volume may be attached.
		return 0, structs.Unavailablef(
			"node %s has to report its volumes first: it %s", req.NodeID, node.WhyUnaccounted())
	}

	// Of several claims one may be gone already, because the node repeats a request without an answer. One of
	// another node is a fault of the caller.
	for _, k := range req.Claims {
		row := csi.Claim(tx, k.Namespace, k.VolumeID, k.AllocID)
		if row != nil && row.NodeID != req.NodeID {
			return 0, structs.Deniedf(
				"the claim of allocation %s on volume %q is another node's",
				k.AllocID, k.VolumeID)
		}
	}

	entry := *req
	entry.Agent = req.Agent.OfLog()
	return fsm.Propose(ctx, c.Raft, fsm.VolumeUnpublish, &entry)
}

// Get returns a claim with the secrets of its volume, for the node that uses them. No other answer has
// secrets. Many nodes wait here, so a node waits only for the rows of its claim. A deleted claim does not
// come back, so the node does not wait for it.
func (c Claims) Get(
	ctx context.Context,
	req *structs.CSIClaimGetRequest,
) (*structs.CSIClaimGetResponse, error) {
	type answer = structs.CSIClaimGetResponse
	// It has the rows of the last run, by their pointers, and not the filled-in answer.
	var last *answer
	asked := query.Request{
		Method: structs.CSIClaimGet.Name,
		Body:   req,
	}

	read := func(tx *state.ReadTx) (*answer, bool, error) {
		resp, err := claimWithRows(tx, req)
		if err != nil {
			return nil, false, err
		}

		recovering := c.awaitReports(tx, resp)
		rows := *resp
		// It opens the secrets in resp, so the rows are copied before.
		missing, err := volumesecrets.Fill(tx, c.Keys, resp)
		if err != nil {
			return nil, false, err
		}

		// Outside tx: a change among the instances of the plugin ends no wait.
		if resp.Ready {
			now := c.Store.Read()
			resp.Provider = nodeconn.Provider(now, resp.Volume.PluginID)
			resp.CallTimeout = csi.PluginConfig(now, resp.Volume.PluginID).OfNode()
		}

		// Rows are immutable, so a different pointer is a change. A node needs a ready answer at once: not
		// every change that makes it ready between two requests gives it a newer index.
		needed := resp.Ready || last != nil &&
			(rows.Claim != last.Claim || rows.Volume != last.Volume || rows.Attachment != last.Attachment)
		last = &rows
		if !resp.Ready {
			// The reason is read outside tx: a change of the claims that it names must not end this wait.
			reason := csi.ClaimBlocked(c.Store.Read(), resp.Claim)
			resp.Blocked = cmp.Or(recovering, missing, reason)
		}

		return resp, needed, nil
	}

	resp, err := query.Wait(ctx, c.Queries, asked, read)
	if err != nil {
		return nil, err
	}

	volumesecrets.Hide(resp)
	return resp, nil
}

// awaitReports makes an answer not ready while a node has not reported its volumes after a restore: it may
// have the volume attached. It returns the reason, "" without one.
func (c Claims) awaitReports(tx *state.ReadTx, resp *structs.CSIClaimGetResponse) (recovering string) {
	if !resp.Ready {
		return ""
	}

	claim := resp.Claim
	recovering = csi.VolumeRecovering(c.Store.Read(), claim.Namespace, claim.VolumeID)
	if recovering != "" {
		_ = csi.Recovering(tx) // so that its end is a change; no other read of tx reads the rows of nodes
		resp.Ready = false
	}
	return recovering
}

// claimWithRows returns a claim with the rows that its node needs. The grant makes the attachment, so a claim
// that waits reads neither attachment nor plugin, and a change of these does not end the wait of the node.
func claimWithRows(
	tx *state.ReadTx,
	req *structs.CSIClaimGetRequest,
) (*structs.CSIClaimGetResponse, error) {
	ns := req.RequestNamespace()
	claim := csi.Claim(tx, ns, req.VolumeID, req.AllocID)
	if claim == nil {
		return nil, structs.NotFoundf("allocation %s has no claim on volume %q",
			req.AllocID, req.VolumeID)
	}

	if claim.NodeID != req.NodeID {
		return nil, structs.Deniedf(
			"the claim of allocation %s on volume %q is another node's",
			req.AllocID, req.VolumeID)
	}

	resp := &structs.CSIClaimGetResponse{
		Claim:  claim,
		Volume: csi.Volume(tx, ns, req.VolumeID),
	}

	// The index is the rows', and not the tables', which change all the time.
	resp.Index = claim.ModifyIndex
	if resp.Volume != nil {
		resp.Index = max(resp.Index, resp.Volume.ModifyIndex)
		// The node uses it when it loses its lease.
		resp.LossPolicy = csi.LossPolicy(tx, resp.Volume)
	}

	if claim.State != structs.ClaimGranted || resp.Volume == nil {
		return resp, nil
	}

	// The node needs the context that ControllerPublishVolume has answered (CSI spec, publish_context).
	resp.Attachment = csi.Attachment(tx, ns, req.VolumeID, claim.NodeID)
	if resp.Attachment != nil {
		resp.Index = max(resp.Index, resp.Attachment.ModifyIndex)
		resp.Ready = resp.Attachment.State == structs.AttachmentAttached
		return resp, nil
	}

	// A plugin without PUBLISH_UNPUBLISH_VOLUME has no attachments, and the node goes on with the grant
	// alone.
	plugin := csi.Plugin(tx, resp.Volume.PluginID)
	if plugin != nil {
		resp.Index = max(resp.Index, plugin.ModifyIndex)
	}

	// The row of a plugin is deleted with its last reference. Then nothing says that it attaches volumes.
	resp.Ready = plugin == nil || !plugin.SupportsAttachDetach
	return resp, nil
}
