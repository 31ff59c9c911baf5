package job_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"berth/api"
	"berth/api/apitest"
	"berth/cli"
	"berth/cli/clitest"
	"berth/structs"
	"berth/structs/jobaction"
)

// serveActionWeb serves the job web, whose task server runs in the allocation alloc1. Its actions write their
// targets and end with the code 42.
func serveActionWeb(t *testing.T) (addr string) {
	t.Helper()
	caller := &apitest.Caller{}
	actions := []*structs.Action{
		{Name: "dump", Command: "/bin/dump", Args: []string{"-to", "a b"}},
		{Name: "ping", Command: "/bin/ping"},
	}
	apitest.On(caller, structs.JobGet, func(_ context.Context, r *structs.JobGetRequest) (
		*structs.JobGetResponse, error,
	) {
		job := &structs.Job{ID: r.JobID, TaskGroups: []*structs.TaskGroup{{
			Name:  "app",
			Tasks: []*structs.Task{{Name: "server", Actions: actions}},
		}}}
		if r.JobID == "none" {
			job.TaskGroups = nil
		}
		return &structs.JobGetResponse{Job: job}, nil
	})
	apitest.Answer(caller, structs.JobAllocations, structs.AllocListResponse{
		Allocations: []*structs.AllocListStub{{
			ID:           "alloc1",
			TaskGroup:    "app",
			ClientStatus: structs.AllocRunning,
			TaskStates:   map[string]*structs.TaskState{"server": {State: structs.TaskRunning}},
		}},
	})
	agent := &apitest.Agent{Action: func(at jobaction.Target) (api.ExecFunc, error) {
		return func(_ context.Context, x *api.Exec) (int, error) {
			text, _ := io.ReadAll(x.Stdin)
			words := []string{at.JobID, at.Namespace, at.AllocID, at.Group, at.Task, at.Action, string(text)}
			_, err := io.WriteString(x.Stdout, strings.Join(words, " "))
			return 42, err
		}, nil
	}}
	return clitest.Serve(t, caller, agent)
}

func TestAction_RunsAndLists(t *testing.T) {
	addr := serveActionWeb(t)
	for line, want := range map[string]struct {
		code      int
		out, errs string
	}{
		"action -job web dump":                            {42, "web  alloc1 app server dump ", ""},
		"action -job web -namespace team -group app dump": {42, "web team alloc1 app server dump ", ""},
		"action -job web -i=false ping":                   {42, "web  alloc1 app server ping ", ""},
		"action dump":                                     {2, "", "-job is missing"},
		"action -job web":                                 {2, "", "<action> is missing"},
		"action -job web -e ab dump":                      {2, "", "expected one ASCII character"},
		"action -job web other":                           {2, "", `job web has no action "other"`},
		"actions none":                                    {0, "Job none has no actions\n", ""},
	} {
		args := strings.Fields("job " + strings.Replace(line, " ", " -address "+addr+" ", 1))
		code, out, errs := clitest.Run(t, cli.Tree(), args...)
		if code != want.code || strings.TrimSpace(out) != strings.TrimSpace(want.out) ||
			!strings.Contains(errs, want.errs) {
			t.Errorf("%s: got %d, %q, %q", line, code, out, errs)
		}
	}
	_, out, _ := clitest.Run(t, cli.Tree(), "job", "actions", "-address", addr, "web")
	clitest.CheckLines(t, out,
		"Action  Group  Task    Command",
		"dump    app    server  /bin/dump -to 'a b'",
		"ping    app    server  /bin/ping")
}
