package rights

import (
	"cmp"

	"berth/acl"
	"berth/internal/mvcc"
	"berth/state"
	"berth/structs"
)

// The rights on jobs and on the rows that belong to them.
var (
	JobList  = List(acl.ListJobs)
	JobRead  = Namespace(acl.ReadJob)
	JobWrite = Namespace(acl.SubmitJob)

	JobSubmit = Where(submitNeeds, func(q Question) bool {
		req := q.Req.(*structs.JobRegisterRequest)
		return mayRun(q.ACL, req.RequestNamespace(), req.Job, keptJob(q.Tx, req))
	})
	JobPlan = Both(readsJobs, Where(submitNeeds, func(q Question) bool {
		req := q.Req.(*structs.JobPlanRequest)
		return mayRun(q.ACL, req.RequestNamespace(), req.Job, nil)
	}))
	JobWhy      = Both(JobRead, readsJobs)
	JobValidate = NamespaceOf(acl.ReadJob, func(_ mvcc.Reader, r *structs.JobValidateRequest) []string {
		if r.Job == nil || r.Job.Namespace == "" {
			return nil
		}
		return []string{r.Job.Namespace}
	})
	JobRevert      = submitsVersion(revertedVersion)
	JobStable      = submitsVersion(stableVersion) // a deployment that fails may revert to it
	JobDispatch    = Namespace(acl.DispatchJob)
	JobForce       = either(acl.SubmitJob, acl.DispatchJob)
	JobScale       = scales()
	JobScaleStatus = either(acl.ReadJobScaling, acl.ReadJob)

	ScalingList = List(acl.ListScaling)
	ScalingRead = NamespaceOf(acl.ReadScaling, scalingNamespace)

	RowsList = List(acl.ReadJob) // of allocations, evaluations and deployments

	AllocRead  = allocs(acl.ReadJob, func(r *structs.AllocGetRequest) []string { return []string{r.AllocID} })
	AllocsRead = allocs(acl.ReadJob, func(r *structs.AllocsGetRequest) []string { return r.AllocIDs })
	AllocStop  = allocs(acl.AllocLifecycle,
		func(r *structs.AllocStopRequest) []string { return []string{r.AllocID} })

	EvalRead = NamespaceOf(acl.ReadJob, evalNamespace)

	DeploymentRead = deployment(acl.ReadJob,
		func(r *structs.DeploymentGetRequest) string { return r.DeploymentID })
	DeploymentFail = deployment(acl.SubmitJob,
		func(r *structs.DeploymentFailRequest) string { return r.DeploymentID })
	DeploymentPause = deployment(acl.SubmitJob,
		func(r *structs.DeploymentPauseRequest) string { return r.DeploymentID })
	DeploymentPromote = deployment(acl.SubmitJob,
		func(r *structs.DeploymentPromoteRequest) string { return r.DeploymentID })
	DeploymentHealth = deployment(acl.SubmitJob,
		func(r *structs.DeploymentHealthRequest) string { return r.DeploymentID })
)

// allocs needs a capability in the namespaces of allocations.
func allocs[Req any](c acl.Capability, ids func(*Req) []string) Right {
	return NamespaceOf(c, func(tx mvcc.Reader, r *Req) (all []string) {
		for _, id := range ids(r) {
			all = append(all, allocNamespace(tx, id)...)
		}
		return all
	})
}

func scalingNamespace(tx mvcc.Reader, r *structs.ScalingPolicyGetRequest) []string {
	p := state.ScalingPolicy(tx, r.ID)
	if p == nil {
		return nil
	}
	return []string{p.Target["Namespace"]}
}

func evalNamespace(tx mvcc.Reader, r *structs.EvalGetRequest) []string {
	e := state.Eval(tx, r.EvalID)
	if e == nil {
		return nil
	}
	return []string{e.Namespace}
}

// deployment needs a capability in the namespace of a deployment.
func deployment[Req any](c acl.Capability, id func(*Req) string) Right {
	return NamespaceOf(c, func(tx mvcc.Reader, r *Req) []string {
		d := state.Deployment(tx, id(r))
		if d == nil {
			return nil
		}
		return []string{d.Namespace}
	})
}

// either needs one of two capabilities in the namespace of the request.
func either(a, b acl.Capability) Right {
	first := Namespace(a)
	second := Namespace(b)
	return Where("namespace: "+string(a)+" or "+string(b), func(q Question) bool {
		return first.Allows(q) || second.Allows(q)
	})
}

// submitNeeds says what the registration of a job needs.
const submitNeeds = "namespace: submit-job, and by what the job has: host_volume, volume: claim, " +
	"volume: write with a class, csi-register-plugin, submit-raw-exec, submit-privileged"

// keptJob returns the stored version of a job whose counts a registration keeps, nil for none.
func keptJob(tx mvcc.Reader, r *structs.JobRegisterRequest) *structs.Job {
	if r.Job == nil || !r.PreserveCounts {
		return nil
	}
	return state.Job(tx, cmp.Or(r.Job.Namespace, r.RequestNamespace()), r.Job.ID)
}

// scales is the right to change the count of a group. A larger count mounts further volumes of per_alloc.
func scales() Right {
	may := either(acl.ScaleJob, acl.SubmitJob)
	needs := may.String() + ", and for further per_alloc volumes volume: claim, with a class volume: write"
	return Where(needs, func(q Question) bool {
		if !may.Allows(q) {
			return false
		}

		req := q.Req.(*structs.JobScaleRequest)
		ns := req.RequestNamespace()
		job := state.Job(q.Tx, ns, req.JobID)
		if job == nil || job.Group(req.Group) == nil || req.Count == nil {
			return true
		}
		g := job.Group(req.Group)
		further := indexes{from: g.Count, to: int(min(*req.Count, structs.MaxGroupCount))}
		return mayMountEach(q.ACL, ns, g, further)
	})
}

func revertedVersion(r *structs.JobRevertRequest) (id string, version uint64) {
	return r.JobID, r.JobVersion
}

func stableVersion(r *structs.JobStableRequest) (id string, version uint64) {
	return r.JobID, r.JobVersion
}

// submitsVersion is the right to have a former version of a job again: it may have parts that its caller
// could not submit. named returns the ID of the job and the number of the version.
func submitsVersion[Req any](named func(*Req) (id string, version uint64)) Right {
	return Where(submitNeeds, func(q Question) bool {
		ns := q.Req.(interface{ RequestNamespace() string }).RequestNamespace()
		id, version := named(q.Req.(*Req))
		return mayRun(q.ACL, ns, state.JobVersion(q.Tx, ns, id, version), nil)
	})
}
