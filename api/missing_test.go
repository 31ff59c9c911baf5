package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// A body without the fields that decide what a request does is rejected, and calls no procedure: null and a
// missing version would revert to the first one.
func TestHandler_RejectsBodiesWithoutWhatDecides(t *testing.T) {
	s := newServer(t)
	for _, c := range []struct{ path, body, want string }{
		{"/v1/job/j/revert", `{"JobID":"j"}`, "JobVersion: expected the number of a version of the job, found none"},
		{"/v1/job/j/revert", `{"JobVersion":null}`, "JobVersion: expected the number"},
		{"/v1/job/j/stable", `{"Stable":true}`, "JobVersion: expected the number"},
		{"/v1/job/j/stable", `{"JobVersion":3}`, "Stable: expected true or false, found none"},
		{"/v1/deployment/pause/d", "", "Pause: expected true to pause the deployment, false to resume it, found none"},
		{"/v1/deployment/pause/d", "null", "Pause: expected true"},
		{"/v1/deployment/pause/d", `{"DeploymentID":"d"}`, "Pause: expected true"},
		{"/v1/operator/scheduler/configuration", " null\n", "the body is null; expected an object"},
		{"/v1/node/n/drain", "null", "the body is null; expected an object"},
	} {
		resp, answer := s.do(t, http.MethodPost, c.path, c.body)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(answer, c.want) {
			t.Errorf("%s %s: got %d %q, want 400 %q", c.path, c.body, resp.StatusCode, answer, c.want)
		}
		for _, call := range s.caller.Take() {
			t.Errorf("%s %s called %s", c.path, c.body, call.Method)
		}
	}
}
