package interop

import (
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"

	public "github.com/hashicorp/nomad/api"
)

// providerJob manages a job in a namespace by the calls of the public provider of OpenTofu.
type providerJob struct {
	t     *testing.T
	c     *public.Client
	query *public.QueryOptions // of the namespace
}

// job returns the job of the file with a count, in the namespace.
func (p providerJob) job(count string) *public.Job {
	p.t.Helper()
	job, err := p.c.Jobs().ParseHCL(sleeper(count, ""), true)
	if err != nil {
		p.t.Fatalf("parsing the job: %v", err)
	}
	job.Namespace = &p.query.Namespace
	return job
}

// apply plans a job whose stored version has an index, 0 for none, registers it, follows its evaluations and
// its deployment, and returns the new index. The provider names the namespace in the job alone.
func (p providerJob) apply(job *public.Job, index uint64) uint64 {
	p.t.Helper()
	plan, _, err := p.c.Jobs().PlanOpts(job, &public.PlanOptions{}, nil)
	if err != nil || plan.JobModifyIndex != index {
		p.t.Fatalf("the plan is %+v, %v; want the index %d", plan, err, index)
	}
	resp, _, err := p.c.Jobs().RegisterOpts(job, &public.RegisterOptions{ModifyIndex: index}, nil)
	if err != nil || resp.JobModifyIndex <= index || resp.EvalID == "" {
		p.t.Fatalf("the registration is %+v, %v", resp, err)
	}
	d := p.deployed(p.evaluated(resp.EvalID))
	if d.JobID != *job.ID || d.Namespace != p.query.Namespace || d.JobSpecModifyIndex != resp.JobModifyIndex {
		p.t.Errorf("the deployment is %+v", d)
	}
	return resp.JobModifyIndex
}

// evaluated follows an evaluation and those after it to the end of the last one, by their IDs alone, and
// returns the ID of the deployment.
func (p providerJob) evaluated(id string) (deployment string) {
	p.t.Helper()
	for id != "" {
		var e *public.Evaluation
		awaitAnswer(p.t, "evaluation "+id, func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
			var meta *public.QueryMeta
			var err error
			e, meta, err = p.c.Evaluations().Info(id, q)
			return err == nil && e.Status == "complete", meta, err
		})
		deployment = e.DeploymentID
		id = e.NextEval
	}
	if deployment == "" {
		p.t.Fatal("the evaluation has no deployment")
	}
	return deployment
}

// deployed follows a deployment to its success.
func (p providerJob) deployed(id string) (d *public.Deployment) {
	p.t.Helper()
	awaitAnswer(p.t, "deployment "+id, func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		var meta *public.QueryMeta
		var err error
		d, meta, err = p.c.Deployments().Info(id, q)
		return err == nil && d.Status == "successful", meta, err
	})
	return d
}

// check checks the reads after an apply.
func (p providerJob) check(id string, index uint64, count int) {
	p.t.Helper()
	job, _, err := p.c.Jobs().Info(id, p.query)
	if err != nil || *job.JobModifyIndex != index || *job.Namespace != p.query.Namespace ||
		*job.Region != "global" || *job.Type != "service" || len(job.Datacenters) == 0 ||
		*job.TaskGroups[0].Count != count {
		p.t.Errorf("the provider reads %+v, %v", job, err)
	}
	allocs, _, err := p.c.Jobs().Allocations(id, false, p.query)
	if err != nil || len(allocs) != count {
		p.t.Errorf("the job has %d allocations, %v; want %d", len(allocs), err, count)
	}
}

// TestClient_ManagesAJobLikeTheProvider makes the calls of the resource nomad_job: it creates a job, raises
// its count, and purges it.
func TestClient_ManagesAJobLikeTheProvider(t *testing.T) {
	t.Parallel()
	c := connectToAgent(t)
	awaitReadyNode(t, c)
	_, err := c.Namespaces().Register(&public.Namespace{Name: "team"}, nil)
	checkNoError(t, "registering the namespace", err)
	p := providerJob{t, c, &public.QueryOptions{Namespace: "team"}}
	index := uint64(0)
	id := ""
	for count := 1; count <= 2; count++ {
		job := p.job(strconv.Itoa(count))
		id = *job.ID
		index = p.apply(job, index)
		p.check(id, index, count)
	}

	_, _, err = c.Jobs().Deregister(id, true, &public.WriteOptions{Namespace: "team"})
	checkNoError(t, "purging the job", err)
	_, _, err = c.Jobs().Info(id, p.query)
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("after its purge: %v", err)
	}
}

// TestClient_ManagesAVariableLikeTheProvider makes the calls of the resource nomad_variable, which names the
// namespace in the variable alone. It updates a variable by a second creation.
func TestClient_ManagesAVariableLikeTheProvider(t *testing.T) {
	t.Parallel()
	c := connectToAgent(t)
	_, err := c.Namespaces().Register(&public.Namespace{Name: "team"}, nil)
	checkNoError(t, "registering the namespace", err)
	query := &public.QueryOptions{Namespace: "team"}
	const path = "nomad/jobs/of-the-provider"
	for _, items := range []public.VariableItems{{"user": "me", "password": "p"}, {"user": "you"}} {
		v := &public.Variable{Namespace: "team", Path: path, Items: items}
		_, _, err = c.Variables().Create(v, nil)
		checkNoError(t, "writing the variable", err)
		read, _, err := c.Variables().Read(path, query)
		if err != nil || read.Namespace != "team" || read.Path != path || !maps.Equal(read.Items, items) {
			t.Errorf("the provider reads %+v, %v", read, err)
		}
	}
	_, _, err = c.Variables().Read(path, nil)
	if !errors.Is(err, public.ErrVariablePathNotFound) {
		t.Errorf("in the default namespace: %v", err)
	}
	_, err = c.Variables().Delete(path, &public.WriteOptions{Namespace: "team"})
	checkNoError(t, "deleting the variable", err)
	_, _, err = c.Variables().Read(path, query)
	if !errors.Is(err, public.ErrVariablePathNotFound) {
		t.Errorf("after the deletion: %v", err)
	}
}
