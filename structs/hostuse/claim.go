package hostuse

import "berth/structs"

// MaxClaims is the most claims of one volume.
const MaxClaims = 128

// TaskGroupHostVolumeClaim keeps a dynamic host volume for a group of a job whose request has sticky. The
// first allocation that gets the volume makes the claim. Later allocations of the group take it over, one
// at a time, and so get the volume with its data.
type TaskGroupHostVolumeClaim struct {
	ID            string `level:"2"`
	Namespace     string `level:"2"`
	JobID         string `level:"2"`
	TaskGroupName string `level:"2"`
	// AllocID is the allocation that has the claim, or had it last. It may be gone.
	AllocID         string `level:"2"`
	VolumeID        string `level:"2"`
	VolumeName      string `level:"2"` // with per_alloc it has an index
	structs.Indexes `level:"2"`
}

// ClaimList lists claims by namespace and ID.
var ClaimList = structs.Read[ClaimListRequest, ClaimListResponse]("TaskGroupHostVolumeClaim.List")

// ClaimListRequest selects the claims of a job, of a group and of volumes with a name, "" for all.
type ClaimListRequest struct {
	JobID                string `level:"2"`
	TaskGroup            string `level:"2"`
	VolumeName           string `level:"2"`
	structs.QueryOptions `level:"2"`
}

// ClaimListResponse has the claims that match.
type ClaimListResponse struct {
	Claims            []*TaskGroupHostVolumeClaim `level:"2"`
	structs.QueryMeta `level:"2"`
}

// ClaimDelete deletes a claim. The volume and the allocation that has it stay, and the next allocation
// chooses a volume anew. The error is not-found.
var ClaimDelete = structs.Write[ClaimDeleteRequest, structs.Empty]("TaskGroupHostVolumeClaim.Delete")

// ClaimDeleteRequest names the claim.
type ClaimDeleteRequest struct {
	ClaimID              string `level:"2"`
	structs.WriteOptions `level:"2"`
}
