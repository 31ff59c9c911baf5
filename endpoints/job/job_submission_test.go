package job_test

import (
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/structs"
)

func TestJobRegister_StoresTheSource(t *testing.T) {
	s := endpointstest.New(t)
	source := &structs.JobSubmission{
		Source:        "job \"j\" {}",
		Format:        structs.FormatHCL2,
		VariableFlags: map[string]string{"a": "b"},
		Variables:     "c = 1",
		JobID:         "another",
		Version:       7,
	}
	endpointstest.Must(s, structs.JobRegister,
		&structs.JobRegisterRequest{Job: endpointstest.Job("j"), Submission: source})
	got := endpointstest.Must(s, structs.JobSubmissionGet, &structs.JobSubmissionRequest{JobID: "j"}).Submission
	if got.Source != source.Source || got.VariableFlags["a"] != "b" || got.Variables != "c = 1" ||
		got.JobID != "j" || got.Namespace != "default" || got.Version != 0 || got.JobModifyIndex == 0 {
		t.Errorf("got the source %+v", got)
	}
	unknown := &structs.JobSubmissionRequest{JobID: "j", Version: 1}
	endpointstest.Rejected(s, structs.KindNotFound, structs.JobSubmissionGet, unknown)
	endpointstest.Rejected(s, structs.KindNotFound, structs.JobSubmissionGet,
		&structs.JobSubmissionRequest{JobID: "k"})
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: endpointstest.Job("k")})
	err := endpointstest.Rejected(s, structs.KindNotFound, structs.JobSubmissionGet,
		&structs.JobSubmissionRequest{JobID: "k"})
	if !strings.Contains(err.Error(), "without its source") {
		t.Errorf("a version without a source: %v", err)
	}
}

// The job is registered, because it does not depend on its source.
func TestJobRegister_DropsASourceWithAWarning(t *testing.T) {
	large := strings.Repeat("x", endpointstest.JobSource)
	for name, given := range map[string]struct {
		source  structs.JobSubmission
		warning string
	}{
		"large": {structs.JobSubmission{Source: large, Format: "hcl2"}, "1000004 bytes"},
		"large variables": {
			structs.JobSubmission{Source: "x", Variables: large},
			"store at most 1000000 (job_max_source_size)",
		},
		"a fitting one": {structs.JobSubmission{Source: large[4:], Format: "hcl2"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := endpointstest.New(t)
			job := endpointstest.Job("j")
			job.TaskGroups[0].Volumes = nil
			got := endpointstest.Must(s, structs.JobRegister,
				&structs.JobRegisterRequest{Job: job, Submission: &given.source})
			if !strings.Contains(got.Warnings, given.warning) ||
				(given.warning == "") != (got.Warnings == "") {
				t.Errorf("got warnings %q, want %q in them", got.Warnings, given.warning)
			}
			endpointstest.Must(s, structs.JobGet, &structs.JobGetRequest{JobID: "j"})
			if given.warning != "" {
				get := &structs.JobSubmissionRequest{JobID: "j"}
				endpointstest.Rejected(s, structs.KindNotFound, structs.JobSubmissionGet, get)
			}
		})
	}
}

// A registration tells nothing of sources where the operator wants none.
func TestJobRegister_StoresNoSourceIfNoneIsAllowed(t *testing.T) {
	s := endpointstest.New(t)
	s.JobSource = 0
	job := endpointstest.Job("j")
	job.TaskGroups[0].Volumes = nil
	got := endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{
		Job:        job,
		Submission: &structs.JobSubmission{Source: "x", Format: "hcl2"},
	})
	if got.Warnings != "" {
		t.Errorf("the warnings are %q", got.Warnings)
	}
	endpointstest.Rejected(s, structs.KindNotFound, structs.JobSubmissionGet,
		&structs.JobSubmissionRequest{JobID: "j"})
}

func TestJobRegister_RejectsAWrongSource(t *testing.T) {
	s := endpointstest.New(t)
	flags := map[string]string{}
	for n := range structs.MaxVariables + 1 {
		flags[strings.Repeat("x", n)] = ""
	}
	for name, source := range map[string]*structs.JobSubmission{
		"no format":      {Source: "x"},
		"another format": {Source: "x", Format: "yaml"},
		"many variables": {Source: "x", Format: "hcl2", VariableFlags: flags},
	} {
		t.Run(name, func(t *testing.T) {
			endpointstest.Rejected(s, structs.KindInvalid, structs.JobRegister, &structs.JobRegisterRequest{
				Job:        endpointstest.Job("j"),
				Submission: source,
			})
		})
	}
}
