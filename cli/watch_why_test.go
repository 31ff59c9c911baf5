package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/structs"
)

// TestWatch_ExplainsALongWaitOnce checks that a watch writes a cause and the failing check once while only
// their times change, and a new cause when it appears.
func TestWatch_ExplainsALongWaitOnce(t *testing.T) {
	reads := 0
	cause := "the checks of service web do not pass"
	var out strings.Builder
	w := watchOf(t, &out, map[string]func() any{
		"/v1/job/web/why": func() any {
			reads++
			leaf := &structs.Reason{
				Text:   fmt.Sprintf("%s, %ds ago", cause, reads),
				Fact:   cause,
				Remedy: "berth alloc checks a1a1a1a1",
			}
			return &structs.WhyResponse{
				Waits:   true,
				Reasons: []*structs.Reason{{Text: "the deployment is not complete", Because: []*structs.Reason{leaf}}},
			}
		},
		"/v1/job/web/allocations": func() any {
			a := &structs.AllocListStub{ID: clitest.Alloc1, ClientStatus: "running", DesiredStatus: "run"}
			return []*structs.AllocListStub{a}
		},
		"/v1/client/allocation/" + clitest.Alloc1 + "/checks": func() any {
			return clitest.ChecksOne()[clitest.Alloc1]
		},
	})
	w.WaitFor("job", "prod", "web")
	for range 3 {
		w.explain(t.Context())
	}
	cause = "the task has ended"
	w.explain(t.Context())
	for text, want := range map[string]int{
		"waits: the checks of service web do not pass, 1s ago": 1,
		"do not pass":                             1,
		"-> berth alloc checks":                   2,
		"failure (the answer has the status 503)": 1,
		"waits: the task has ended":               1,
		"the deployment is not":                   0,
	} {
		if got := strings.Count(out.String(), text); got != want {
			t.Errorf("%q is written %d times, want %d:\n%s", text, got, want, out.String())
		}
	}
	if got := w.Advice(); !strings.HasSuffix(got, "berth job why -namespace prod web") {
		t.Errorf("the advice at a timeout is %q", got)
	}
}

// A user who reads the end of the output alone sees there what the watch has waited for.
func TestWatch_RepeatsTheCausesWhenItsTimeIsOver(t *testing.T) {
	var out strings.Builder
	w := watchOf(t, &out, map[string]func() any{
		"/v1/job/web/why": func() any {
			return &structs.WhyResponse{
				Waits:   true,
				Reasons: []*structs.Reason{{Text: "no node has memory", Remedy: "add nodes"}},
			}
		},
	})
	w.WaitFor("job", "prod", "web")
	ctx, cancel := context.WithCancel(t.Context())
	w.explain(ctx)
	cancel()
	w.ExplainAtLast(ctx)
	for _, text := range []string{"waits: no node has memory", "-> add nodes"} {
		if got := strings.Count(out.String(), text); got != 2 {
			t.Errorf("%q is written %d times, want 2:\n%s", text, got, out.String())
		}
	}
}

// TestWatch_ExplainsTheJobsOfADrain checks that the watch of a drain writes why the jobs wait that it waits
// for, with the remedy and the failing check.
func TestWatch_ExplainsTheJobsOfADrain(t *testing.T) {
	var out strings.Builder
	waits := []structs.DrainWait{
		{AllocID: clitest.Alloc2, Namespace: "prod", JobID: "web", Reason: "group g may miss no more"},
		{AllocID: clitest.Alloc3, Namespace: "prod", JobID: "web", Reason: "group g may miss no more"},
		{AllocID: clitest.Alloc3, Namespace: "prod", JobID: "db", Reason: "it is stopping"},
	}
	reads := 0
	w := watchOf(t, &out, map[string]func() any{
		"/v1/node/" + clitest.Node1 + "/drain": func() any {
			reads++
			if reads > 1 {
				return drainEnded(structs.DrainComplete)
			}
			return drainWaits(waits...)
		},
		"/v1/job/web/why": func() any {
			cause := &structs.Reason{
				Text:   "the checks of service web do not pass",
				Remedy: "berth alloc checks a1a1a1a1",
			}
			return &structs.WhyResponse{Waits: true, Reasons: []*structs.Reason{cause}}
		},
		"/v1/job/db/why": func() any {
			return &structs.WhyResponse{Reasons: []*structs.Reason{{Text: "nothing waits"}}}
		},
		"/v1/job/web/allocations": func() any {
			a := &structs.AllocListStub{ID: clitest.Alloc1, ClientStatus: "running", DesiredStatus: "run"}
			return []*structs.AllocListStub{a}
		},
		"/v1/client/allocation/" + clitest.Alloc1 + "/checks": func() any {
			return clitest.ChecksOne()[clitest.Alloc1]
		},
	})
	w.Waits.next = time.Time{}
	begun := true
	err := awaitDrain(t.Context(), w, clitest.Node1, &begun)
	if err != nil {
		t.Fatal(err)
	}
	clitest.CheckLines(t, out.String(),
		"waits: the checks of service web do not pass",
		"-> berth alloc checks a1a1a1a1",
		"failure (the answer has the status 503)",
		"is complete",
	)
	if strings.Contains(out.String(), "nothing waits") {
		t.Errorf("a job that waits for nothing is explained:\n%s", out.String())
	}
	if got := w.Advice(); !strings.HasSuffix(got, "berth node status "+clitest.Node1) {
		t.Errorf("the advice at a timeout is %q", got)
	}
}

// TestWatch_CountsTheJobsOfADrainThatItDoesNotExplain checks that a drain of many jobs does not look like one
// of the first few.
func TestWatch_CountsTheJobsOfADrainThatItDoesNotExplain(t *testing.T) {
	var out strings.Builder
	w := watchOf(t, &out, nil)
	w.WaitFor("node", "", clitest.Node1)
	for n := range mostDrained + 4 {
		w.Waits.Jobs = append(w.Waits.Jobs, Named{"default", fmt.Sprint("job", n)})
	}
	w.explain(t.Context())
	w.explain(t.Context())
	clitest.CheckLines(t, out.String(), "and 4 more jobs: berth node status "+clitest.Node1)
}

// watchOf returns a watch of an agent with answers by path. The agent has no other paths.
func watchOf(t *testing.T, out *strings.Builder, answers map[string]func() any) *Watch {
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[r.URL.Path]
		if answer == nil {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(answer())
	}))
	t.Cleanup(agent.Close)
	client := api.NewClient(api.ClientConfig{Address: agent.URL})
	t.Cleanup(client.Close)
	return New(&command.Call{Stdio: command.Stdio{Out: out}, Command: &command.Command{}, API: client})
}
