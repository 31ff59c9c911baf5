package api_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/jobs"
	"berth/internal/auditlog"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/jobaction"
)

// hasActions lets the servers of an agent know the job web, whose task app has the action dump. It runs in
// the allocation here.
func hasActions(s *server) {
	apitest.Answer(s.caller, structs.JobGet, structs.JobGetResponse{Job: &structs.Job{
		ID: "web",
		TaskGroups: []*structs.TaskGroup{{Name: "g", Tasks: []*structs.Task{{
			Name:    "app",
			Actions: []*structs.Action{{Name: "dump", Command: "/bin/dump"}},
		}}}},
	}})
	apitest.Answer(s.caller, structs.JobAllocations, structs.AllocListResponse{
		Allocations: []*structs.AllocListStub{{
			ID:           "here",
			TaskGroup:    "g",
			ClientStatus: structs.AllocRunning,
			TaskStates:   map[string]*structs.TaskState{"app": {State: structs.TaskRunning}},
		}},
	})
}

// runsActions lets an agent run echo as each action in the allocation here, and notes the targets.
func runsActions(s *server) (asked *[]jobaction.Target) {
	asked = &[]jobaction.Target{}
	s.agent.Action = func(at jobaction.Target) (api.ExecFunc, error) {
		if at.AllocID != "here" {
			return nil, structs.NotFoundf("allocation %s is not here", at.AllocID)
		}
		*asked = append(*asked, at)
		return echo, nil
	}
	return asked
}

// runAction runs an action with an input, and checks that it is repeated.
func runAction(t *testing.T, c *api.Client, at jobaction.Target) error {
	t.Helper()
	var out bytes.Buffer
	run, err := jobs.OpenAction(t.Context(), c, at, &api.Exec{
		Stdin:  strings.NewReader("input"),
		Stdout: &out,
		Stderr: io.Discard,
	})
	if err != nil {
		return err
	}
	code, err := run(t.Context())
	if err != nil || code != 7 || out.String() != "input" {
		t.Errorf("%+v: got %d, %v, %q", at, code, err, out.String())
	}
	return nil
}

// TestAction_RunsWhereItsTaskRuns: each agent finds the allocation, and that of the node gets the request.
func TestAction_RunsWhereItsTaskRuns(t *testing.T) {
	far, near := newServer(t), newServer(t)
	asked := runsActions(far)
	placeOn(near, strings.TrimPrefix(far.URL, "http://"))
	hasActions(near)
	hasActions(far)
	for _, s := range []*server{far, near} {
		c := api.NewClient(api.ClientConfig{Address: s.URL, Namespace: "team"})
		t.Cleanup(c.Close)
		type target = jobaction.Target
		for at, want := range map[target]target{
			{JobID: "web", Action: "dump"}:                   {AllocID: "here", Task: "app", Group: "g"},
			{JobID: "a/b", Action: "other", AllocID: "here"}: {AllocID: "here"},
			{JobID: "web", Action: "x", AllocID: "here", Task: "t", Group: "h"}: {
				AllocID: "here", Task: "t", Group: "h",
			},
		} {
			want.JobID = at.JobID
			want.Action = at.Action
			want.Namespace = "team"
			*asked = nil
			err := runAction(t, c, at)
			if err != nil || !reflect.DeepEqual(*asked, []target{want}) {
				t.Errorf("%+v: got %+v, %v", at, *asked, err)
			}
		}
	}
}

func TestAction_NamesFaults(t *testing.T) {
	s := newServer(t)
	runsActions(s)
	hasActions(s)
	c := newClient(t, s)
	for at, want := range map[jobaction.Target]string{
		{JobID: "web"}:                                              "the parameter action is missing",
		{JobID: "web", Action: "none"}:                              `job web has no action "none"`,
		{JobID: "web", Action: "dump", Task: "none"}:                `task none of job web has no action "dump"`,
		{JobID: "web", Action: "dump", AllocID: "../../acl/tokens"}: "expected the ID of an allocation",
		{JobID: "web", Action: "dump", AllocID: ".."}:               "expected the ID of an allocation",
	} {
		err := runAction(t, c, at)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %s", at, err, want)
		}
	}
	resp, body := s.do(t, http.MethodGet, "/v1/job/web/action?action=dump&"+
		url.Values{"command": {`["sh"]`}}.Encode(), "")
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "Upgrade: websocket") {
		t.Errorf("no websocket: %s %s", resp.Status, body)
	}
}

// TestAction_NeedsTheRightsOfExec: an action needs the right in its namespace and then in its allocation and
// task. The audit log has it once, with the allocation.
func TestAction_NeedsTheRightsOfExec(t *testing.T) {
	sink := auditlog.Config{Enabled: true}
	sink.Finish(t.TempDir())
	log, err := auditlog.Open(sink, auditlog.Deps{Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	s := newServer(t, func(cfg *api.Config) {
		cfg.ACL = true
		cfg.Audit = log
	})
	hasActions(s)
	runsActions(s)
	var mu sync.Mutex
	var denied int // the question that is denied; 0 for none
	var asked []access.CheckRequest
	apitest.On(s.caller, access.Check, func(_ context.Context, r *access.CheckRequest) (
		*access.CheckResponse, error,
	) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, *r)
		if len(asked) == denied {
			return nil, structs.Deniedf("this needs %s", r.Needs)
		}
		return &access.CheckResponse{}, nil
	})
	c := api.NewClient(api.ClientConfig{Address: s.URL, Token: "t", Namespace: "team"})
	t.Cleanup(c.Close)
	for denied = range 3 {
		asked = nil
		err := os.Truncate(sink.Sinks[0].Path, 0)
		if err != nil {
			t.Fatal(err)
		}
		err = runAction(t, c, jobaction.Target{JobID: "web", Action: "dump"})
		if (denied == 0) != (err == nil) || err != nil && !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("question %d is denied: %v", denied, err)
		}
		mu.Lock()
		for i, r := range asked[:min(len(asked), 2)] {
			ofAlloc := i == 1
			if r.Needs != access.NeedsAllocExec || r.Namespace != "team" && !ofAlloc || r.AuthToken != "t" ||
				(r.AllocID == "here") != ofAlloc || (r.Task == "app") != ofAlloc {
				t.Errorf("question %d: %+v", i, r)
			}
		}
		if denied == 1 && len(asked) != 1 || denied != 1 && len(asked) < 2 {
			t.Errorf("%d questions with %d denied", len(asked), denied)
		}
		mu.Unlock()
		begun := beginnings(t, sink.Sinks[0].Path)
		const object = `"objects":[{"type":"allocation","id":"here"}]`
		if denied == 0 && (len(begun) != 1 || !strings.Contains(begun[0], object)) ||
			denied != 0 && len(begun) > 0 {
			t.Errorf("with the question %d denied, the audit log has %q", denied, begun)
		}
	}
}

// beginnings returns the lines before changes of an audit log. Those after them may come later.
func beginnings(t *testing.T, path string) (lines []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, `"kind":"change"`) && strings.Contains(line, auditlog.Received) {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestActions_ListsThoseOfAJob(t *testing.T) {
	s := newServer(t)
	hasActions(s)
	got, _, err := jobs.ListActions(t.Context(), newClient(t, s), "web", nil)
	want := jobaction.JobAction{Name: "dump", Command: "/bin/dump", TaskName: "app", TaskGroupName: "g"}
	if err != nil || len(got) != 1 || !reflect.DeepEqual(*got[0], want) {
		t.Errorf("got %+v, %v", got, err)
	}
}
