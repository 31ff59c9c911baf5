package job

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"berth/api"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

// TestWatch_ReadsTheEndOfADeployment checks that a watch of a job awaits the allocations of a deployment that
// has succeeded, also with canaries that were promoted meanwhile, and those of no other.
func TestWatch_ReadsTheEndOfADeployment(t *testing.T) {
	for status, awaits := range map[string]bool{
		structs.DeploymentPaused:     false,
		structs.DeploymentSuccessful: true,
	} {
		awaited := false
		read := clitest.WebDeployment()
		if !awaits {
			read.TaskGroups["app"].DesiredCanaries = 0
		}
		answers := map[string]func() any{
			"/v1/job/web":            func() any { return &structs.Job{ID: "web", Version: 2} },
			"/v1/job/web/deployment": func() any { return read },
			"/v1/deployment/" + clitest.Deployment1: func() any {
				d := *read
				d.Status = status
				return &d
			},
			"/v1/job/web/allocations": func() any {
				awaited = true
				return []*structs.AllocListStub{}
			},
			"/v1/deployment/allocations/" + clitest.Deployment1: func() any {
				return []*structs.AllocListStub{}
			},
		}
		agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewEncoder(w).Encode(answers[r.URL.Path]())
		}))
		w := watch.New(&command.Call{
			Stdio:   command.Stdio{Out: io.Discard},
			Command: &command.Command{},
			API:     api.NewClient(api.ClientConfig{Address: agent.URL}),
		})
		err := awaitJob(t.Context(), w, &structs.Job{ID: "web"}, "")
		if err != nil || awaited != awaits {
			t.Errorf("%s: the watch awaits allocations: %v (%v), want %v", status, awaited, err, awaits)
		}
		agent.Close()
	}
}
