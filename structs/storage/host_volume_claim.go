package storage

import "berth/structs"

// MaxHostVolumeClaims is the most claims of one volume.
const MaxHostVolumeClaims = 128

// TaskGroupHostVolumeClaim keeps a dynamic host volume for a group of a job whose request has sticky. The
// first allocation that gets the volume makes the claim. Later allocations of the group take it over, one
// at a time, and so get the volume with its data.
type TaskGroupHostVolumeClaim struct {
	ID            string
	Namespace     string
	JobID         string
	TaskGroupName string
	// AllocID is the allocation that has the claim, or had it last. It may be gone.
	AllocID    string
	VolumeID   string
	VolumeName string // with per_alloc it has an index
	structs.Indexes
}

// HostVolumeClaimList lists claims by namespace and ID.
var HostVolumeClaimList = structs.Read[ClaimListRequest, ClaimListResponse]("TaskGroupHostVolumeClaim.List")

// ClaimListRequest selects the claims of a job, of a group and of volumes with a name, "" for all.
type ClaimListRequest struct {
	JobID      string
	TaskGroup  string
	VolumeName string
	structs.QueryOptions
}

// ClaimListResponse has the claims that match.
type ClaimListResponse struct {
	Claims []*TaskGroupHostVolumeClaim
	structs.QueryMeta
}

// HostVolumeClaimDelete deletes a claim. The volume and the allocation that has it stay, and the next
// allocation chooses a volume anew. The error is not-found.
var HostVolumeClaimDelete = structs.Write[ClaimDeleteRequest, structs.Empty](
	"TaskGroupHostVolumeClaim.Delete")

// ClaimDeleteRequest names the claim.
type ClaimDeleteRequest struct {
	ClaimID string
	structs.WriteOptions
}
