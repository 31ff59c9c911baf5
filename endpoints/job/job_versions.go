package job

import (
	"slices"

	"berth/state"
	"berth/structs"
	"berth/structs/jobdiff"
)

// Versions lists the versions of a job, the newest first, with their differences on request. The error is
// not-found.
func (j Jobs) Versions(
	tx *state.ReadTx,
	req *structs.JobGetRequest,
	resp *structs.JobVersionsResponse,
) (err error) {
	ns := req.RequestNamespace()
	job := state.Job(tx, ns, req.JobID)
	// Versions of a purged job with the same ID are kept while allocations use them. They are not shown.
	for v := range state.JobVersions(tx, ns, req.JobID) {
		if job == nil || state.IsVersionOf(v, job) {
			resp.Versions = append(resp.Versions, v)
		}
	}

	// The rows are the oldest first.
	slices.Reverse(resp.Versions)
	if len(resp.Versions) == 0 {
		return noJob(ns, req.JobID)
	}

	resp.Diffs, err = diffs(resp.Versions, req)
	return err
}

// diffs returns the difference of each version of a job to the one that a request names, or to the version
// before it. Without a named one there is one difference less than versions.
func diffs(versions []*structs.Job, req *structs.JobGetRequest) (all []*structs.JobDiff, err error) {
	base, err := diffBase(versions, req)
	if err != nil || !req.Diffs {
		return nil, err
	}
	for i, v := range versions {
		switch {
		case base != nil:
			all = append(all, jobdiff.Compare(base, v, true))
		case i < len(versions)-1:
			all = append(all, jobdiff.Compare(versions[i+1], v, true))
		}
	}
	return all, nil
}

// diffBase returns the version with which a request compares all others, nil if it names none.
func diffBase(versions []*structs.Job, req *structs.JobGetRequest) (*structs.Job, error) {
	named := func(*structs.Job) bool { return false }
	var missing error
	switch {
	case req.DiffTag != "" && req.DiffVersion != nil:
		return nil, structs.Invalidf("diff_tag and diff_version exclude each other")
	case req.DiffTag != "":
		named = func(v *structs.Job) bool { return v.VersionTag != nil && v.VersionTag.Name == req.DiffTag }
		missing = state.NoVersionTag(req.JobID, req.DiffTag)
	case req.DiffVersion != nil:
		named = func(v *structs.Job) bool { return v.Version == *req.DiffVersion }
		missing = state.NoVersion(req.RequestNamespace(), req.JobID, *req.DiffVersion)
	}
	i := slices.IndexFunc(versions, named)
	if i < 0 {
		return nil, missing
	}
	return versions[i], nil
}
