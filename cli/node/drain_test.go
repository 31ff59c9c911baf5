package node

import (
	"strings"
	"testing"
	"time"

	"berth/cli/clitest"
	"berth/cli/watch"
	"berth/structs"
)

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
	w := watch.New(clitest.CallOf(t, &out, map[string]func() any{
		"/v1/node/" + clitest.Node1 + "/drain": func() any {
			reads++
			if reads > 1 {
				return clitest.DrainEnded(structs.DrainComplete)
			}
			return clitest.DrainWaits(waits...)
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
	}))
	w.Waits.Next = time.Time{}
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
