package watch

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth/cli/clitest"
	"berth/structs"
)

// TestWatch_ExplainsALongWaitOnce checks that a watch writes a cause and the failing check once while only
// their times change, and a new cause when it appears.
func TestWatch_ExplainsALongWaitOnce(t *testing.T) {
	reads := 0
	cause := "the checks of service web do not pass"
	var out strings.Builder
	w := New(clitest.CallOf(t, &out, map[string]func() any{
		"/v1/job/web/why": func() any {
			reads++
			leaf := &structs.Reason{
				Text:   fmt.Sprintf("%s, %ds ago", cause, reads),
				Fact:   cause,
				Remedy: "berth alloc checks a1a1a1a1",
			}
			return &structs.WhyResponse{
				Waits: true,
				Reasons: []*structs.Reason{{
					Text:    "the deployment is not complete",
					Because: []*structs.Reason{leaf},
				}},
			}
		},
		"/v1/job/web/allocations": func() any {
			a := &structs.AllocListStub{ID: clitest.Alloc1, ClientStatus: "running", DesiredStatus: "run"}
			return []*structs.AllocListStub{a}
		},
		"/v1/client/allocation/" + clitest.Alloc1 + "/checks": func() any {
			return clitest.ChecksOne()[clitest.Alloc1]
		},
	}))
	w.WaitFor("job", "prod", "web")
	for range 3 {
		w.explain(t.Context())
	}
	cause = "the task has ended"
	w.explain(t.Context())
	for text, want := range map[string]int{
		"waits: the checks of service web do not pass, 1s ago": 1,
		"do not pass":           1,
		"-> berth alloc checks": 2,
		"check \"answers\" of service \"web\" on allocation a1a1a1a1": 1,
		"failure (the answer has the status 503)":                     1,
		"waits: the task has ended":                                   1,
		"the deployment is not":                                       0,
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
	w := New(clitest.CallOf(t, &out, map[string]func() any{
		"/v1/job/web/why": func() any {
			return &structs.WhyResponse{
				Waits:   true,
				Reasons: []*structs.Reason{{Text: "no node has memory", Remedy: "add nodes"}},
			}
		},
	}))
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

// TestWatch_CountsTheJobsOfADrainThatItDoesNotExplain checks that a drain of many jobs does not look like one
// of the first few.
func TestWatch_CountsTheJobsOfADrainThatItDoesNotExplain(t *testing.T) {
	var out strings.Builder
	w := New(clitest.CallOf(t, &out, nil))
	w.WaitFor("node", "", clitest.Node1)
	for n := range mostDrained + 4 {
		w.Waits.Jobs = append(w.Waits.Jobs, Named{"default", fmt.Sprint("job", n)})
	}
	w.explain(t.Context())
	w.explain(t.Context())
	clitest.CheckLines(t, out.String(), "and 4 more jobs: berth node status "+clitest.Node1)
}

// TestWatch_ExplainsForABoundedTime checks that a watch goes on, to notice that the job runs, although the
// node does not answer with the checks that explain the wait.
func TestWatch_ExplainsForABoundedTime(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var asked atomic.Bool
	var out strings.Builder
	w := New(clitest.CallOf(t, &out, map[string]func() any{
		"/v1/job/web/why": func() any { return &structs.WhyResponse{Waits: true} },
		"/v1/job/web/allocations": func() any {
			a := &structs.AllocListStub{ID: clitest.Alloc1, ClientStatus: "running", DesiredStatus: "run"}
			return []*structs.AllocListStub{a}
		},
		"/v1/client/allocation/" + clitest.Alloc1 + "/checks": func() any {
			asked.Store(true)
			<-ctx.Done()
			return nil
		},
	}))
	w.WaitFor("job", "prod", "web")
	w.Waits.Next = time.Time{}
	w.explainSometimes(ctx)
	if ctx.Err() != nil || !asked.Load() {
		t.Errorf("the explanation takes as long as the node is silent; asked for the checks: %v",
			asked.Load())
	}
	cancel()
}
