package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/structs"
)

// TestJobBodies_ReportAllFaults sends a body with faults, which leave a job with another fault, and with one
// that is due to a fault of the body.
func TestJobBodies_ReportAllFaults(t *testing.T) {
	s := newServer(t)
	const body = `{"Job": {"ID": "j", "Type": "sevrice", "TaskGroups": [
		{"Name": "g", "Coutn": 2, "Tasks": [{"Name": "t", "Driver": 5}]}]}, "EvalPriority": "x"}`
	const want = `Job.TaskGroups[0].Coutn: berth does not know this field (did you mean "Count"?) (line 2, column 17)
Job.TaskGroups[0].Tasks[0].Driver: expected a string, found a number (line 2, column 63)
EvalPriority: expected a number, found a string (line 2, column 87)
job "j": type "sevrice" must be one of service, batch, system, sysbatch (line 1, column 29)`
	for _, path := range []string{"/v1/jobs", "/v1/job/j", "/v1/validate/job"} {
		resp, answer := s.do(t, http.MethodPut, path, body)
		if resp.StatusCode != http.StatusBadRequest || strings.TrimSpace(answer) != want {
			t.Errorf("%s: got %d, %s\nwant %s", path, resp.StatusCode, answer, want)
		}
	}
	resp, answer := s.do(t, http.MethodPut, "/v1/job/j/plan", body)
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(answer, `job "j": type "sevrice"`) {
		t.Errorf("plan: got %d, %s", resp.StatusCode, answer)
	}
	resp, answer = s.do(t, http.MethodPut, "/v1/jobs", `{"Job": {"ID": "j"}, "EvalPriority": "x"} {`)
	if resp.StatusCode != http.StatusBadRequest || strings.Contains(answer, "group") {
		t.Errorf("a body that cannot be read: got %d, %s", resp.StatusCode, answer)
	}
}

// TestJobRegister_WarnsOfFieldsWithoutEffect sends fields that the dialect itself ignores.
func TestJobRegister_WarnsOfFieldsWithoutEffect(t *testing.T) {
	s := newServer(t)
	apitest.On(s.caller, structs.JobRegister, func(context.Context, *structs.JobRegisterRequest) (
		*structs.JobRegisterResponse, error,
	) {
		return &structs.JobRegisterResponse{Warnings: "of the server"}, nil
	})
	apitest.On(s.caller, structs.JobValidate, func(context.Context, *structs.JobValidateRequest) (
		*structs.JobValidateResponse, error,
	) {
		return &structs.JobValidateResponse{}, nil
	})
	apitest.On(s.caller, structs.JobPlan, func(context.Context, *structs.JobPlanRequest) (
		*structs.JobPlanResponse, error,
	) {
		return &structs.JobPlanResponse{Warnings: "of the server"}, nil
	})
	const body = `{"Job": {"ID": "j", "ConsulNamespace": "a", "TaskGroups": [
		{"Name": "g", "Networks": [{"MBits": 10}],
		"Consul": {"Namespace": "a", "Cluster": "default", "Partition": ""},
		"Services": [{"Cluster": "default", "Checks": [{"Notes": "of the shop"}]}],
		"Tasks": [{"Name": "t", "Resources": {"IOPS": 3}}, {"Name": "u", "Resources": {"IOPS": 0}}]},
		{"Consul": {"Namespace": "a"}, "Tasks": [
		{"Consul": {"Namespace": "b"}}, {"Consul": {"Cluster": "default"}}]}]}}`
	const ofConsul = `has no effect: namespaces are those of Consul Enterprise; berth uses that of the agent`
	const lines = `ConsulNamespace \"a\" ` + ofConsul + `\n` +
		`MBits 10 has no effect: bandwidth is neither reserved nor limited\n` +
		`Notes \"of the shop\" has no effect: nothing shows the notes of a check\n` +
		`IOPS 3 has no effect: operations of disks are neither reserved nor limited`
	for path, want := range map[string]string{
		"/v1/jobs":         `"Warnings":"of the server\n` + lines,
		"/v1/job/j":        `"Warnings":"of the server\n` + lines,
		"/v1/job/j/plan":   `"Warnings":"of the server\n` + lines,
		"/v1/validate/job": `"Warnings":"` + lines,
	} {
		resp, answer := s.do(t, http.MethodPut, path, body)
		if resp.StatusCode != http.StatusOK || !strings.Contains(answer, want) {
			t.Errorf("%s: got %d, %s, want %s", path, resp.StatusCode, answer, want)
		}
	}
	for field, other := range map[string]string{
		`"IOPS"`:               `"IOPSX"`,
		`{"Namespace": "b"}`:   `{"Partition": "b"}`,
		`"Consul": {"Cluster"`: `"Consul": {"Consul"`,
	} {
		resp, answer := s.do(t, http.MethodPut, "/v1/jobs", strings.Replace(body, field, other, 1))
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(answer, "berth does not know this field") {
			t.Errorf("%s: got %d, %s", other, resp.StatusCode, answer)
		}
	}
}

// TestJobRegister_AcceptsFieldsOfTasksWithoutEffect sends fields of the dialect's own clients.
func TestJobRegister_AcceptsFieldsOfTasksWithoutEffect(t *testing.T) {
	s := newServer(t)
	apitest.On(s.caller, structs.JobRegister, func(context.Context, *structs.JobRegisterRequest) (
		*structs.JobRegisterResponse, error,
	) {
		return &structs.JobRegisterResponse{}, nil
	})
	for fields, want := range map[string]string{
		`"ScalingPolicies": [{"Type": "vertical_mem", "Max": 5}]`:  "ScalingPolicies",
		`"RestartPolicy": {"RenderTemplates": true}`:               "RenderTemplates true",
		`"Services": [{"Checks": [{"FailuresBeforeWarning": 2}]}]`: "FailuresBeforeWarning 2",
	} {
		resp, answer := s.do(t, http.MethodPut, "/v1/jobs",
			`{"Job": {"ID": "j", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", `+fields+`}]}]}}`)
		if resp.StatusCode != http.StatusOK || !strings.Contains(answer, want) {
			t.Errorf("%s: got %d, %s, want %s", fields, resp.StatusCode, answer, want)
		}
	}
	resp, answer := s.do(t, http.MethodPut, "/v1/jobs",
		`{"Job": {"ID": "j", "UI": {"Description": "d"}}}`)
	if resp.StatusCode != http.StatusOK || !strings.Contains(answer, "UI {") {
		t.Errorf("got %d, %s", resp.StatusCode, answer)
	}
}
