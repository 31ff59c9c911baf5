package required

import (
	"berth/acl"
	"berth/endpoints/rights"
	"berth/internal/mvcc"
	"berth/state"
	"berth/structs"
	"berth/structs/inquiry"
)

// The rights on jobs and on the rows that belong to them.
var (
	JobList  = rights.List(acl.ListJobs)
	JobRead  = rights.Namespace(acl.ReadJob)
	JobWrite = rights.Namespace(acl.SubmitJob)

	JobSubmit   = submits(func(r *structs.JobRegisterRequest) *structs.Job { return r.Job })
	JobPlan     = submits(func(r *inquiry.JobPlanRequest) *structs.Job { return r.Job })
	JobValidate = rights.NamespaceOf(acl.ReadJob, func(_ mvcc.Reader, r *inquiry.JobValidateRequest) []string {
		if r.Job == nil || r.Job.Namespace == "" {
			return nil
		}
		return []string{r.Job.Namespace}
	})
	JobRevert      = reverts()
	JobDispatch    = rights.Namespace(acl.DispatchJob)
	JobForce       = either(acl.SubmitJob, acl.DispatchJob)
	JobScale       = either(acl.ScaleJob, acl.SubmitJob)
	JobScaleStatus = either(acl.ReadJobScaling, acl.ReadJob)

	ScalingList = rights.List(acl.ListScaling)
	ScalingRead = rights.NamespaceOf(acl.ReadScaling, scalingNamespace)

	RowsList = rights.List(acl.ReadJob) // of allocations, evaluations, deployments and services

	AllocRead  = allocs(acl.ReadJob, func(r *structs.AllocGetRequest) []string { return []string{r.AllocID} })
	AllocsRead = allocs(acl.ReadJob, func(r *structs.AllocsGetRequest) []string { return r.AllocIDs })
	AllocStop  = allocs(acl.AllocLifecycle,
		func(r *structs.AllocStopRequest) []string { return []string{r.AllocID} })

	EvalRead = rights.NamespaceOf(acl.ReadJob, evalNamespace)

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
func allocs[Req any](c acl.Capability, ids func(*Req) []string) rights.Right {
	return rights.NamespaceOf(c, func(tx mvcc.Reader, r *Req) (all []string) {
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
func deployment[Req any](c acl.Capability, id func(*Req) string) rights.Right {
	return rights.NamespaceOf(c, func(tx mvcc.Reader, r *Req) []string {
		d := state.Deployment(tx, id(r))
		if d == nil {
			return nil
		}
		return []string{d.Namespace}
	})
}

// either needs one of two capabilities in the namespace of the request.
func either(a, b acl.Capability) rights.Right {
	first := rights.Namespace(a)
	second := rights.Namespace(b)
	return rights.Where("namespace: "+string(a)+" or "+string(b), func(q rights.Question) bool {
		return first.Allows(q) || second.Allows(q)
	})
}

// submitNeeds says what the registration of a job needs.
const submitNeeds = "namespace: submit-job, and by what the job has: host_volume, volume: claim, " +
	"csi-register-plugin, submit-raw-exec, submit-privileged"

// submits is the right to register the job of a request.
func submits[Req any](jobOf func(*Req) *structs.Job) rights.Right {
	return rights.Where(submitNeeds, func(q rights.Question) bool {
		ns := q.Req.(interface{ RequestNamespace() string }).RequestNamespace()
		return mayRun(q.ACL, ns, jobOf(q.Req.(*Req)))
	})
}

// reverts is the right to register a former version of a job again: it may have parts that its caller could
// not submit.
func reverts() rights.Right {
	return rights.Where(submitNeeds, func(q rights.Question) bool {
		req := q.Req.(*structs.JobRevertRequest)
		ns := req.RequestNamespace()
		return mayRun(q.ACL, ns, state.JobVersion(q.Tx, ns, req.JobID, req.JobVersion))
	})
}
