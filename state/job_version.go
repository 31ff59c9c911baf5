package state

import (
	"iter"
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// Is reports whether a stored version is one of the job, and not one of a purged job that had the ID before
// and whose allocations use it.
func IsVersionOf(version, job *structs.Job) bool { return version.CreateIndex >= job.CreateIndex }

// Of yields the stored versions of a job, oldest first.
func VersionsOf(tx mvcc.Reader, job *structs.Job) iter.Seq[*structs.Job] {
	return schema.Filter(schema.JobVersions.Scan(tx, job.Namespace, job.ID), func(v *structs.Job) bool {
		return IsVersionOf(v, job)
	})
}

// NoVersion is the error for a version that a job does not have.
func NoVersion(ns, id string, version uint64) error {
	return structs.NotFoundf("there is no version %d of job %q in namespace %q", version, id, ns)
}

// setStable sets whether a version of a job is known to work.
func setStable(tx *mvcc.WriteTx, version *structs.Job, stable bool) {
	if version != nil && version.Stable != stable {
		change(tx, version, func(j *structs.Job) { j.Stable = stable })
	}
}

// forgetVersions leaves no version of a purged job stable or tagged. Those that its allocations use would
// otherwise be versions to which the next job with its ID goes back.
func forgetVersions(tx *mvcc.WriteTx, job *structs.Job) {
	for _, v := range slices.Collect(schema.JobVersions.Scan(tx, job.Namespace, job.ID)) {
		if v.Stable || v.VersionTag != nil {
			change(tx, v, func(j *structs.Job) {
				j.Stable = false
				j.VersionTag = nil
			})
		}
	}
}

// change changes a version. The current version is stored twice, and both rows have to be equal (see
// Check).
func change(tx *mvcc.WriteTx, version *structs.Job, edit func(*structs.Job)) {
	v := version.Copy()
	edit(v)
	schema.JobVersions.Put(tx, v)

	j := schema.Jobs.Get(tx, v.Namespace, v.ID)
	if j != nil && j.Version == v.Version {
		j = j.Copy()
		edit(j)
		schema.Jobs.Put(tx, j)
	}
}

// keepTagged adds the tagged versions of a job to the versions that stay.
func keepTagged(tx mvcc.Reader, job *structs.Job, stays map[uint64]bool) {
	for v := range VersionsOf(tx, job) {
		if v.VersionTag != nil {
			stays[v.Version] = true
		}
	}
}

// TaggedVersion returns the version of a job that has a tag, nil if none has it.
func TaggedVersion(tx mvcc.Reader, job *structs.Job, tag string) *structs.Job {
	for v := range VersionsOf(tx, job) {
		if v.VersionTag != nil && v.VersionTag.Name == tag {
			return v
		}
	}
	return nil
}

// Tag puts a tag on a version of a job. It replaces the tag that the version has.
func JobTag(tx *mvcc.WriteTx, p *structs.JobTagRequest) error {
	version, err := find(tx, p)
	if err == nil {
		err = structs.CheckJobTag(p.TagName, p.Description)
	}
	if err == nil {
		err = checkTags(tx, version, p.TagName)
	}
	if err != nil {
		return err
	}

	change(tx, version, func(j *structs.Job) {
		j.VersionTag = &structs.JobVersionTag{
			Name:        p.TagName,
			Description: p.Description,
			TaggedTime:  p.Now,
		}
	})
	return nil
}

func find(tx mvcc.Reader, p *structs.JobTagRequest) (*structs.Job, error) {
	ns := p.RequestNamespace()
	job := schema.Jobs.Get(tx, ns, p.JobID)
	if job == nil {
		return nil, noJob(ns, p.JobID)
	}
	version := schema.JobVersions.Get(tx, ns, p.JobID, mvcc.Ordered(p.JobVersion))
	if version == nil || !IsVersionOf(version, job) {
		return nil, NoVersion(ns, p.JobID, p.JobVersion)
	}
	return version, nil
}

func noJob(ns, id string) error {
	return structs.NotFoundf("there is no job %q in namespace %q", id, ns)
}

// checkTags rejects a name that another version has, and a tag beyond the bound.
func checkTags(tx mvcc.Reader, version *structs.Job, name string) error {
	tagged := 0
	for v := range VersionsOf(tx, schema.Jobs.Get(tx, version.Namespace, version.ID)) {
		switch {
		case v.VersionTag == nil, v.Version == version.Version:
			continue
		case v.VersionTag.Name == name:
			return structs.Conflictf("version %d of job %q has the tag %q: remove it from that version first, "+
				"or choose another name", v.Version, v.ID, structs.Cut(name, structs.MaxQuoted))
		}
		tagged++
	}
	if tagged >= structs.MaxJobTags {
		return structs.Preconditionf("%d other versions of job %q have tags, the most that the servers store: remove one first", tagged, version.ID)
	}
	return nil
}

// JobUntag removes a tag from its version. The version then stays as long as one that never had a tag.
func JobUntag(tx *mvcc.WriteTx, p *structs.JobUntagRequest) error {
	ns := p.RequestNamespace()
	job := schema.Jobs.Get(tx, ns, p.JobID)
	if job == nil {
		return noJob(ns, p.JobID)
	}
	version := TaggedVersion(tx, job, p.TagName)
	if version == nil {
		return NoVersionTag(p.JobID, p.TagName)
	}
	change(tx, version, func(j *structs.Job) { j.VersionTag = nil })
	return nil
}

// NoVersionTag is the error for a tag that no version of a job has.
func NoVersionTag(job, tag string) error {
	return structs.NotFoundf("no version of job %q has the tag %q: \"job history\" lists the tags",
		job, structs.Cut(tag, structs.MaxQuoted))
}
