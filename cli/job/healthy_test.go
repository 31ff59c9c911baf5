package job_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/api/apitest"
	"berth/cli"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/structs"
)

// TestJobRun_EndsAtTheFirstHealthyMoment checks that job run of the example of the README waits for the
// change of its deployment, and that nothing it does after that waits for another change.
func TestJobRun_EndsAtTheFirstHealthyMoment(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := &apitest.Caller{}
	job := &structs.Job{ID: "counter", TaskGroups: []*structs.TaskGroup{{Name: "counter", Count: 1}}}
	a := &structs.AllocListStub{
		ID:            clitest.Alloc1,
		TaskGroup:     "counter",
		ClientStatus:  "running",
		DesiredStatus: "run",
	}
	apitest.Answer(c, structs.JobRegister, structs.JobRegisterResponse{})
	apitest.Answer(c, structs.JobGet, structs.JobGetResponse{Job: job})
	latest := structs.DeploymentGetResponse{Deployment: counterDeployment(0)}
	apitest.Answer(c, structs.JobLatestDeployment, latest)
	apitest.On(c, structs.DeploymentGet, func(ctx context.Context, r *structs.DeploymentGetRequest) (
		*structs.DeploymentGetResponse, error,
	) {
		resp := &structs.DeploymentGetResponse{Deployment: counterDeployment(0)}
		resp.Index = 7
		if r.MinIndex == 7 { // the read that waits is answered by the change
			c.Take()
			resp.Deployment = counterDeployment(1)
			resp.Index = 8
		}
		return resp, ctx.Err()
	})
	allocs := structs.AllocListResponse{Allocations: []*structs.AllocListStub{a}}
	apitest.Answer(c, structs.DeploymentAllocations, allocs)
	apitest.Answer(c, structs.JobAllocations, allocs)
	addr := clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
	var out strings.Builder
	args := []string{"job", "run", "-address", addr, "../../examples/counter.hcl"}
	code := cli.Run(ctx, args, command.Stdio{In: strings.NewReader(""), Out: &out, Err: io.Discard})
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out.String())
	}
	clitest.CheckLines(t, out.String(),
		`Group "counter": 1 of 1 placed, 0 healthy`,
		"of version 0 is successful",
		`Group "counter": 1 of 1 placed, 1 healthy`,
		`Job "counter": 1 allocation running`,
	)
	var after []string
	for _, r := range c.Take() {
		after = append(after, r.Method)
		list, ok := r.Request.(*structs.JobGetRequest)
		if ok && list.MinIndex > 0 {
			t.Errorf("after the change of its deployment it waits for another change: %+v", list)
		}
	}
	want := []string{structs.DeploymentAllocations.Name, structs.JobAllocations.Name}
	if !slices.Equal(after, want) {
		t.Errorf("after the change of its deployment it calls %v, want %v", after, want)
	}
}

// counterDeployment is the deployment of the example, with this many healthy allocations of one.
func counterDeployment(healthy int) *structs.Deployment {
	d := clitest.WebDeployment()
	d.JobID = "counter"
	d.JobVersion = 0
	d.StatusDescription = ""
	d.TaskGroups = map[string]*structs.DeploymentState{
		"counter": {DesiredTotal: 1, PlacedAllocs: 1, HealthyAllocs: healthy},
	}
	if healthy == 1 {
		d.Status = structs.DeploymentSuccessful
	}
	return d
}
