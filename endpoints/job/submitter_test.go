package job_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/state"
	"berth/structs"
)

const submitterToken = "0d0a5a2c-secret-of-the-submitter"

// consulJob has services in Consul, once by default, and one that is not there.
func consulJob(priority int) *structs.Job {
	service := func(name, provider string) *structs.Service {
		return &structs.Service{Name: name, Provider: provider}
	}
	return &structs.Job{
		ID:          "j",
		Type:        structs.JobService,
		Priority:    priority,
		Datacenters: []string{"dc1"},
		TaskGroups: []*structs.TaskGroup{{
			Name:     "g",
			Count:    1,
			Services: []*structs.Service{service("web", structs.ServiceProviderConsul), service("own", "nomad")},
			Tasks: []*structs.Task{{
				Name:      "t",
				Driver:    "exec",
				Config:    map[string]any{"command": "/bin/true"},
				Resources: &structs.Resources{CPU: 10, MemoryMB: 10},
				Services:  []*structs.Service{service("${NOMAD_TASK_NAME}-api", ""), service("web", "")},
			}},
		}},
	}
}

func registration(priority int, token structs.Secret) *structs.JobRegisterRequest {
	return &structs.JobRegisterRequest{Job: consulJob(priority), ConsulToken: token}
}

func submitterServer(t *testing.T) (*endpointstest.Server, *endpointstest.FakeConsul) {
	s := endpointstest.New(t)
	f := &endpointstest.FakeConsul{Right: submitterToken}
	s.Consul = f
	return s, f
}

func TestRegister_ChecksTheRightsOfTheSubmitter(t *testing.T) {
	s, f := submitterServer(t)
	endpointstest.Rejected(s, structs.KindDenied, structs.JobRegister, registration(50, ""))
	endpointstest.Rejected(s, structs.KindDenied, structs.JobRegister, registration(50, "other"))
	if s.Raft.Len() != 0 {
		t.Error("a rejected registration is in the log")
	}
	endpointstest.Must(s, structs.JobRegister, registration(50, submitterToken))
	endpointstest.Must(s, structs.JobRegister, registration(60, submitterToken))
	want := []string{"t-api web", "t-api web", "t-api web", "t-api web"}
	if !slices.Equal(f.Checked, want) {
		t.Errorf("checked the services %q, want %q", f.Checked, want)
	}
	endpointstest.Rejected(s, structs.KindDenied, structs.JobRevert, &structs.JobRevertRequest{JobID: "j"})
	endpointstest.Must(s, structs.JobRevert, &structs.JobRevertRequest{JobID: "j", ConsulToken: submitterToken})
	if got := state.Job(s.Store.Read(), "default", "j").Priority; got != 50 {
		t.Errorf("the job has priority %d after the revert", got)
	}
}

// A plan, and a change of a count, need no token.
func TestRegister_ChecksNoOtherRequests(t *testing.T) {
	s, f := submitterServer(t)
	endpointstest.Must(s, structs.JobPlan, &structs.JobPlanRequest{Job: consulJob(50)})
	endpointstest.Must(s, structs.JobRegister, registration(50, submitterToken))
	endpointstest.Must(s, structs.JobScale,
		&structs.JobScaleRequest{JobID: "j", Group: "g", Count: new(int64(3))})
	if len(f.Checked) != 1 {
		t.Errorf("checked %q", f.Checked)
	}
}

func TestRegister_StoresNoToken(t *testing.T) {
	for name, source := range map[string]*structs.JobSubmission{
		"source":   {Source: "token = " + submitterToken, Format: structs.FormatHCL2},
		"variable": {Format: structs.FormatHCL2, VariableFlags: map[string]string{"token": submitterToken}},
		"file":     {Format: structs.FormatHCL2, Variables: "token = " + submitterToken},
		"none":     {Source: "job", Format: structs.FormatHCL2},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := submitterServer(t)
			req := registration(50, submitterToken)
			req.Job.ConsulToken = submitterToken
			req.Submission = source
			resp := endpointstest.Must(s, structs.JobRegister, req)
			endpointstest.Must(s, structs.JobRegister, registration(60, submitterToken))
			endpointstest.Must(s, structs.JobRevert,
				&structs.JobRevertRequest{JobID: "j", ConsulToken: submitterToken})
			var saved bytes.Buffer
			if err := s.Store.Save(&saved); err != nil {
				t.Fatal(err)
			}
			texts := []string{saved.String(), s.Raft.Text(), fmt.Sprintf("%+v %+v", resp, req.WithoutToken())}
			for _, text := range texts {
				if strings.Contains(text, submitterToken) {
					t.Error("the token is in the state, in the log or in a text")
				}
			}
			stored := state.JobSubmission(s.Store.Read(), "default", "j", 0) != nil
			if stored != (name == "none") || stored == strings.Contains(resp.Warnings, "-consul-token") {
				t.Errorf("source stored: %v, warnings %q", stored, resp.Warnings)
			}
		})
	}
}
