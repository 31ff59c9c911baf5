package job

import (
	"context"

	"berth/internal/admit"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/validate/field"
)

// decide asks the admission rules about a job, and about the volumes that it asks for and that do not exist
// yet. Of each request it is the volume of the first allocation: the others differ by their IDs.
func (j Jobs) decide(ctx context.Context, tx *state.ReadTx, job *structs.Job) (admit.Verdict, error) {
	objects := []admit.Input{admit.OfJob(job, state.Job(tx, job.Namespace, job.ID))}
	for _, v := range csi.FirstJobVolumes(tx, job) {
		objects = append(objects, admit.OfVolume(v, nil))
	}
	return j.Admit(ctx, tx, objects...)
}

// applyRules returns an error, of kind denied, if an admission rule denies a job, and otherwise the warnings
// of the rules. The children of a job are not asked about: the job was, and they differ by their ID, their
// time, and the payload and metadata of a dispatch.
func (j Jobs) applyRules(
	ctx context.Context, tx *state.ReadTx, job *structs.Job,
) (warnings string, err error) {
	v, err := j.decide(ctx, tx, job)
	if err == nil {
		err = v.Err()
	}
	return field.JoinFaults(v.Warnings), err
}

// checkRules adds a fault for each admission rule that denies a job, and returns the warnings of the rules.
// They are evaluated on a job without other faults alone: an expression may rely on the form of valid jobs.
func (j Jobs) checkRules(
	ctx context.Context, tx *state.ReadTx, job *structs.Job, found *field.Faults,
) (warnings string, err error) {
	if found.Err() != nil {
		return "", nil
	}

	v, err := j.decide(ctx, tx, job)
	for _, line := range v.Denials {
		found.Add(line)
	}
	return field.JoinFaults(v.Warnings), err
}

// withCounts returns a job with the counts that it will have: the stored version's if they are kept.
func withCounts(tx *state.ReadTx, req *structs.JobRegisterRequest, job *structs.Job) *structs.Job {
	if !req.PreserveCounts {
		return job
	}
	return state.WithKeptCounts(tx, job)
}

// AsStored returns a copy of a job in the form in which it is stored. Admission rules are tested on it.
func (j Jobs) AsStored(given *structs.Job, namespace string) (*structs.Job, error) {
	return j.admitJob(given, namespace)
}
