package state

import (
	"maps"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// JobSubmission returns the source of a version of a job, nil if none is stored.
func JobSubmission(tx Reader, ns, id string, version uint64) *structs.JobSubmission {
	return schema.JobSubmissions.Get(tx, ns, id, mvcc.Ordered(version))
}

// putSubmission stores the source that a request has for the newest version of a job. A later source of an
// unchanged job replaces it. A request without a source changes nothing.
func putSubmission(tx *WriteTx, s *structs.JobSubmission, j *structs.Job) {
	if s == nil {
		return
	}
	row := *s
	row.Namespace = j.Namespace
	row.JobID = j.ID
	row.Version = j.Version
	row.JobModifyIndex = j.JobModifyIndex
	old := JobSubmission(tx, j.Namespace, j.ID, j.Version)
	if old == nil || !sameSource(old, s) {
		schema.JobSubmissions.Put(tx, &row)
	}
}

func sameSource(a, b *structs.JobSubmission) bool {
	return a.Source == b.Source &&
		a.Format == b.Format &&
		a.Variables == b.Variables &&
		maps.Equal(a.VariableFlags, b.VariableFlags)
}

// dropSubmission deletes the source of a version of a job, if it has one.
func dropSubmission(tx *WriteTx, version *structs.Job) {
	s := JobSubmission(tx, version.Namespace, version.ID, version.Version)
	if s != nil {
		schema.JobSubmissions.Delete(tx, s)
	}
}
