package endpoints

import (
	"cmp"

	"berth/fsm"
	"berth/structs"
)

// refuseDropped refuses to forward a job with a part that a server of the cluster does not know. A leader of
// an earlier version would drop the part as it reads the request, and store the rest.
func (e *Endpoints) refuseDropped(req any) error {
	r, registers := req.(*structs.JobRegisterRequest)
	if !registers || r.Job == nil {
		return nil
	}
	version := e.gossip()
	if version >= fsm.Version() {
		return nil
	}
	job, err := copyJob(r.Job)
	if err != nil {
		return err
	}
	job.Namespace = cmp.Or(job.Namespace, r.RequestNamespace())
	job.Canonicalize()
	err = job.Complete().Err()
	if err != nil {
		return err
	}
	if version < fsm.PlacementSince {
		job.DropDefaultUpdates()
	}
	entry, err := fsm.JobRegister.Encode(&structs.JobRegisterRequest{
		Job:            job,
		PreserveCounts: r.PreserveCounts,
	})
	if err != nil {
		return structs.Internalf("%w", err)
	}
	command := fsm.CommandOf(entry)
	needs := command.Needs(entry)
	if version < needs {
		return structs.Preconditionf("job %q: servers of an older version do not know a part of it "+
			"(version %d, it needs %d); upgrade them, or remove one that is gone: berth server force-leave NAME",
			job.ID, version, needs)
	}
	return nil
}
