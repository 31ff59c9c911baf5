package api

import (
	"context"
	"net/url"
	"strconv"

	"berth/structs"
)

// The dialect lists the claims of its host volumes here.
var claimList = route(get, "/v1/volumes/claims",
	serveList(structs.VolumeClaimList, bindClaimList,
		func(a *structs.VolumeClaimListResponse) []*structs.VolumeClaimStub {
			return a.Claims
		}))

func bindClaimList(c *call, q *structs.VolumeClaimListRequest) error {
	q.VolumeID = c.param("volume_id")
	q.NodeID = c.param("node_id")
	q.AllocID = c.param("alloc_id")
	return nil
}

// ClaimFilter selects the claims of a volume, of a node and of an allocation. "" selects all.
type ClaimFilter struct {
	VolumeID string
	NodeID   string
	AllocID  string
}

// Claims lists claims with what holds each of them, or for what it waits.
func (c *Client) Claims(ctx context.Context, f ClaimFilter, q *Query) (
	[]*structs.VolumeClaimStub, *Meta, error,
) {
	params := queryValues(q)
	setGiven(params, "volume_id", f.VolumeID)
	setGiven(params, "node_id", f.NodeID)
	setGiven(params, "alloc_id", f.AllocID)
	return claimList.call(ctx, c, request{query: params})
}

// The dialect does not have this route.
var claimRelease = route(remove, "/v1/volume/csi/{id}/claim",
	serveMethod(structs.VolumeClaimRelease, bindClaimRelease, whole))

// The dialect deletes the claims of its host volumes here.
var _ = handle(remove, "/v1/volumes/claim/{id}",
	serveMethod(structs.VolumeClaimRelease, bindClaimDelete, whole))

// Only the operator socket of the server that leads takes this route.
var claimForce = route(remove, "/v1/volume/csi/{id}/claim/force",
	serveMethod(structs.VolumeClaimForce, bindClaimRelease, whole))

func bindClaimRelease(c *call, req *structs.VolumeClaimReleaseRequest) error {
	req.VolumeID = c.id()
	req.AllocID = c.param("alloc_id")
	if req.AllocID == "" {
		return badParam("alloc_id", "", "the ID of an allocation")
	}
	return bindRelease(c, req)
}

func bindClaimDelete(c *call, req *structs.VolumeClaimReleaseRequest) (err error) {
	req.VolumeID, req.AllocID, err = structs.ParseClaimID(c.id())
	if err != nil {
		return err
	}
	return bindRelease(c, req)
}

// bindRelease reads what the routes that release a claim share.
func bindRelease(c *call, req *structs.VolumeClaimReleaseRequest) (err error) {
	req.Reason = c.param("reason")
	req.By = c.param("by")
	req.DryRun, err = c.flag("dry_run")
	if err != nil {
		return err
	}
	req.Force, err = c.flag("force")
	return err
}

// ClaimReleaseOptions select the claim of a volume. DryRun only tells what the release would do. Force
// releases the claim also without the confirmation of its node; without DryRun only the operator socket of
// the server that leads takes it. Reason and By are recorded.
type ClaimReleaseOptions struct {
	AllocID string
	DryRun  bool
	Force   bool
	Reason  string
	By      string
}

// ClaimRelease releases a claim on a volume and returns the proof of it.
func (c *Client) ClaimRelease(
	ctx context.Context, volume string, o ClaimReleaseOptions,
) (*structs.VolumeClaimReleaseResponse, error) {
	params := url.Values{"alloc_id": {o.AllocID}}
	setGiven(params, "reason", o.Reason)
	setGiven(params, "by", o.By)
	r := request{id: volume, query: params}
	if o.Force && !o.DryRun {
		return claimForce.send(ctx, c, r)
	}
	params.Set("dry_run", strconv.FormatBool(o.DryRun))
	params.Set("force", strconv.FormatBool(o.Force))
	return claimRelease.send(ctx, c, r)
}
