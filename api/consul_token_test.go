package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"berth/api"
	"berth/api/jobs"
	"berth/structs"
)

// The token of a submitter travels beside the job, and no text of a job has it.
func TestJobs_SendTheTokenOfTheSubmitter(t *testing.T) {
	const token = "hunter2"
	s := newServer(t)
	c := api.NewClient(api.ClientConfig{Address: s.URL})
	job := &structs.Job{ID: "j"}
	revert := jobs.RevertOptions{ConsulToken: token}
	_, _ = jobs.Register(t.Context(), c, job, jobs.RegisterOptions{ConsulToken: token})
	_, _ = jobs.Revert(t.Context(), c, "j", 1, revert)
	job.ConsulToken = token // as a job in JSON has it
	_, _ = jobs.Register(t.Context(), c, job, jobs.RegisterOptions{})
	for i, sent := range s.caller.Take() {
		var got structs.Secret
		switch req := sent.Request.(type) {
		case *structs.JobRegisterRequest:
			got = req.ConsulToken
			if req.Job.ConsulToken != "" {
				t.Error("the job has the token")
			}
		case *structs.JobRevertRequest:
			got = req.ConsulToken
		}
		if got != token {
			t.Errorf("request %d came without the token", i)
		}
	}
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	if shown := fmt.Sprintf("%s %+v %v %#v", text, job, revert, revert); strings.Contains(shown, token) {
		t.Errorf("a text shows the token: %s", shown)
	}
}
