package job_test

import (
	"context"
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/cli/job"
	"berth/structs"
)

func TestStart_RegistersTheStoppedJobAgain(t *testing.T) {
	caller := &apitest.Caller{}
	stopped := &structs.Job{ID: "web", Namespace: "default", Stop: true, Version: 3, JobModifyIndex: 17}
	apitest.Answer(caller, structs.JobGet, structs.JobGetResponse{Job: stopped})
	apitest.Fail(caller, structs.JobSubmissionGet, structs.NotFoundf("no source"))
	var sent *structs.JobRegisterRequest
	apitest.On(caller, structs.JobRegister, func(_ context.Context, r *structs.JobRegisterRequest) (
		*structs.JobRegisterResponse, error,
	) {
		sent = r
		return &structs.JobRegisterResponse{EvalID: "e1"}, nil
	})
	addr := clitest.Serve(t, caller, nil)
	tree := []command.Command{{Name: "job", Synopsis: "Jobs", Sub: job.Commands}}
	code, out, errs := clitest.Run(t, tree, "job", "start", "-detach", "-address", addr, "web")
	if code != 0 || sent == nil || sent.Job.Stop || !sent.EnforceIndex || sent.JobModifyIndex != 17 {
		t.Fatalf("got %d %q %q, and the request %+v; want the job without the stop, unless it has changed",
			code, out, errs, sent)
	}

	stopped.Stop = false
	stopped.Status = "running"
	code, _, errs = clitest.Run(t, tree, "job", "start", "-address", addr, "web")
	if code != 6 || !strings.Contains(errs, `job "web" is not stopped; it is running`) {
		t.Errorf("a running job: got %d %q", code, errs)
	}
}
