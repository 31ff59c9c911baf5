package volumes

import (
	"cmp"
	"context"
	"net/url"
	"strconv"
	"strings"

	"berth/api"
	"berth/structs"
	"berth/structs/storage"
)

// The dialect lists the claims of sticky host volumes here. The others have a parameter of theirs.
var claimList = api.NewEndpoint(&table, api.Get, "/v1/volumes/claims", claimsOfKind(
	api.ServeList(structs.VolumeClaimList, bindClaims,
		func(a *structs.VolumeClaimListResponse) []*structs.VolumeClaimStub { return a.Claims }),
	api.ServeList(storage.HostVolumeClaimList, bindStickyClaims,
		func(a *storage.ClaimListResponse) []*storage.TaskGroupHostVolumeClaim { return a.Claims })))

// claimsOfKind serves the claims of CSI volumes to a request that asks for them, or that selects by what only
// they have.
func claimsOfKind[T any](ofCSI api.ServeFunc[T], sticky func(*api.Call) (any, error)) api.ServeFunc[T] {
	return func(c *api.Call) (any, error) {
		switch kind := c.Param("type"); kind {
		case structs.VolumeTypeCSI:
			return ofCSI(c)
		case structs.VolumeTypeHost:
			return sticky(c)
		case "":
		default:
			return nil, structs.Invalidf("the parameter type is %q, expected csi or host",
				structs.Cut(kind, structs.MaxQuoted))
		}
		if cmp.Or(c.Param("volume_id"), c.Param("node_id"), c.Param("alloc_id")) != "" {
			return ofCSI(c)
		}
		return sticky(c)
	}
}

func bindClaims(c *api.Call, q *structs.VolumeClaimListRequest) error {
	q.VolumeID = c.Param("volume_id")
	q.NodeID = c.Param("node_id")
	q.AllocID = c.Param("alloc_id")
	return nil
}

func bindStickyClaims(c *api.Call, q *storage.ClaimListRequest) error {
	q.JobID = c.Param("job_id")
	q.TaskGroup = c.Param("task_group")
	q.VolumeName = c.Param("volume_name")
	return nil
}

// ClaimFilter selects the claims of a volume, of a node and of an allocation. "" selects all.
type ClaimFilter struct {
	VolumeID string
	NodeID   string
	AllocID  string
}

// ListClaims lists the claims on CSI volumes, with what holds each of them or for what it waits.
func ListClaims(ctx context.Context, c *api.Client, f ClaimFilter, q *api.Query) (
	[]*structs.VolumeClaimStub, *api.Meta, error,
) {
	params := api.QueryValues(q)
	params.Set("type", structs.VolumeTypeCSI)
	params.Set("volume_id", f.VolumeID)
	params.Set("node_id", f.NodeID)
	params.Set("alloc_id", f.AllocID)
	return claimList.Page(ctx, c, api.Request{Query: params})
}

// StickyClaimFilter selects the claims of a job, of a group and of volumes with a name. "" selects all.
type StickyClaimFilter struct {
	JobID      string
	TaskGroup  string
	VolumeName string
}

// ListStickyClaims lists the claims of groups on sticky host volumes.
func ListStickyClaims(ctx context.Context, c *api.Client, f StickyClaimFilter, q *api.Query) (
	all []*storage.TaskGroupHostVolumeClaim, meta *api.Meta, err error,
) {
	params := api.QueryValues(q)
	params.Set("type", structs.VolumeTypeHost)
	params.Set("job_id", f.JobID)
	params.Set("task_group", f.TaskGroup)
	params.Set("volume_name", f.VolumeName)
	meta, err = claimList.Decode(ctx, c, api.Request{Query: params}, &all)
	return all, meta, err
}

// The dialect does not have this route.
var claimRelease = api.NewEndpoint(&table, api.Remove, "/v1/volume/csi/{id}/claim",
	api.ServeMethod(structs.VolumeClaimRelease, bindClaimRelease, api.Whole))

// The dialect deletes the claims of sticky host volumes here. The ID of the claim of an allocation has a
// dot.
var claimRemove = api.NewEndpoint(&table, api.Remove, "/v1/volumes/claim/{id}", claimByID(
	api.ServeMethod(structs.VolumeClaimRelease, bindClaimDelete, api.Whole),
	api.ServeMethod(storage.HostVolumeClaimDelete,
		api.WithID(func(r *storage.ClaimDeleteRequest, id string) { r.ClaimID = id }), api.Whole)))

func claimByID[T any](ofCSI api.ServeFunc[T], sticky func(*api.Call) (any, error)) api.ServeFunc[T] {
	return func(c *api.Call) (any, error) {
		if strings.Contains(c.ID(), ".") {
			return ofCSI(c)
		}
		return sticky(c)
	}
}

// DeleteStickyClaim deletes the claim of a group on a sticky host volume.
func DeleteStickyClaim(ctx context.Context, c *api.Client, id string) error {
	return claimRemove.Exec(ctx, c, api.Request{ID: id})
}

// Only the operator socket of the server that leads takes this route.
var claimForce = api.NewEndpoint(&table, api.Remove, "/v1/volume/csi/{id}/claim/force",
	api.ServeMethod(structs.VolumeClaimForce, bindClaimRelease, api.Whole))

func bindClaimRelease(c *api.Call, req *structs.VolumeClaimReleaseRequest) error {
	req.VolumeID = c.ID()
	req.AllocID = c.Param("alloc_id")
	if req.AllocID == "" {
		return structs.Invalidf("the parameter alloc_id is missing, expected the ID of an allocation")
	}
	return bindClaimProof(c, req)
}

func bindClaimDelete(c *api.Call, req *structs.VolumeClaimReleaseRequest) (err error) {
	req.VolumeID, req.AllocID, err = parseClaimID(c.ID())
	if err != nil {
		return err
	}
	return bindClaimProof(c, req)
}

// parseClaimID returns the volume and the allocation of a claim: see structs.ClaimID.
func parseClaimID(id string) (volume, alloc string, err error) {
	alloc, volume, found := strings.Cut(id, ".") // IDs of allocations have no dot
	if !found || alloc == "" || volume == "" {
		return "", "", structs.Invalidf(
			"claim %q: expected ALLOC.VOLUME; to see the claims: berth volume claim list",
			structs.Cut(id, structs.MaxQuoted))
	}
	return volume, alloc, nil
}

// bindClaimProof reads what the routes that release a claim share.
func bindClaimProof(c *api.Call, req *structs.VolumeClaimReleaseRequest) (err error) {
	req.Reason = c.Param("reason")
	req.By = c.Param("by")
	req.Shown, err = BindShown(c)
	if err != nil {
		return err
	}
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
	// Shown, if not nil, is the state on which the release was decided: if it has changed, the error is a
	// conflict.
	Shown *structs.DetachShown
}

// ReleaseClaim releases a claim on a volume and returns the proof of it.
func ReleaseClaim(
	ctx context.Context, c *api.Client, volume string, o ClaimReleaseOptions,
) (*structs.VolumeClaimReleaseResponse, error) {
	params := url.Values{"alloc_id": {o.AllocID}, "reason": {o.Reason}, "by": {o.By}}
	SetShown(params, o.Shown)
	r := api.Request{ID: volume, Query: params}
	if o.Force && !o.DryRun {
		return claimForce.Send(ctx, c, r)
	}
	params.Set("dry_run", strconv.FormatBool(o.DryRun))
	params.Set("force", strconv.FormatBool(o.Force))
	return claimRelease.Send(ctx, c, r)
}
