package api

import (
	"context"
	"net/url"
	"strconv"

	"berth/structs"
)

// The dialect lists the claims of its host volumes here.
var claimList = NewEndpoint(Get, "/v1/volumes/claims",
	serveList(structs.VolumeClaimList, bindClaimList,
		func(a *structs.VolumeClaimListResponse) []*structs.VolumeClaimStub {
			return a.Claims
		}))

func bindClaimList(c *Call, q *structs.VolumeClaimListRequest) error {
	q.VolumeID = c.Param("volume_id")
	q.NodeID = c.Param("node_id")
	q.AllocID = c.Param("alloc_id")
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
	params := QueryValues(q)
	setGiven(params, "volume_id", f.VolumeID)
	setGiven(params, "node_id", f.NodeID)
	setGiven(params, "alloc_id", f.AllocID)
	return claimList.call(ctx, c, Request{Query: params})
}

// The dialect does not have this route.
var claimRelease = NewEndpoint(Remove, "/v1/volume/csi/{id}/claim",
	ServeMethod(structs.VolumeClaimRelease, bindClaimRelease, Whole))

// The dialect deletes the claims of its host volumes here.
var _ = Handle(Remove, "/v1/volumes/claim/{id}",
	ServeMethod(structs.VolumeClaimRelease, bindClaimDelete, Whole))

// Only the operator socket of the server that leads takes this route.
var claimForce = NewEndpoint(Remove, "/v1/volume/csi/{id}/claim/force",
	ServeMethod(structs.VolumeClaimForce, bindClaimRelease, Whole))

func bindClaimRelease(c *Call, req *structs.VolumeClaimReleaseRequest) error {
	req.VolumeID = c.ID()
	req.AllocID = c.Param("alloc_id")
	if req.AllocID == "" {
		return badParam("alloc_id", "", "the ID of an allocation")
	}
	return bindRelease(c, req)
}

func bindClaimDelete(c *Call, req *structs.VolumeClaimReleaseRequest) (err error) {
	req.VolumeID, req.AllocID, err = structs.ParseClaimID(c.ID())
	if err != nil {
		return err
	}
	return bindRelease(c, req)
}

// bindRelease reads what the routes that release a claim share.
func bindRelease(c *Call, req *structs.VolumeClaimReleaseRequest) (err error) {
	req.Reason = c.Param("reason")
	req.By = c.Param("by")
	req.DryRun, err = c.Flag("dry_run")
	if err != nil {
		return err
	}
	req.Force, err = c.Flag("force")
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
	r := Request{ID: volume, Query: params}
	if o.Force && !o.DryRun {
		return claimForce.Send(ctx, c, r)
	}
	params.Set("dry_run", strconv.FormatBool(o.DryRun))
	params.Set("force", strconv.FormatBool(o.Force))
	return claimRelease.Send(ctx, c, r)
}
