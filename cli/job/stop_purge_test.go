package job_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/structs"
)

// purgedCluster serves job db, whose row a purge deletes at once. If ends is set, its allocation ends after
// an explanation of the wait.
func purgedCluster(t *testing.T, ends bool) (addr string) {
	t.Helper()
	var mu sync.Mutex
	purged := false
	explained := false
	c := &apitest.Caller{}
	type request = structs.JobGetRequest
	apitest.On(c, structs.JobGet, func(context.Context, *request) (*structs.JobGetResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		if purged {
			return nil, clitest.NotFound("job", "db")
		}
		return &structs.JobGetResponse{Job: &structs.Job{ID: "db"}}, nil
	})
	apitest.On(c, structs.JobDeregister, func(_ context.Context, r *structs.JobDeregisterRequest) (
		*structs.JobDeregisterResponse, error,
	) {
		mu.Lock()
		defer mu.Unlock()
		purged = r.Purge
		return &structs.JobDeregisterResponse{}, nil
	})
	apitest.Answer(c, structs.JobList, structs.JobListResponse{Jobs: []*structs.JobListStub{{ID: "db-2"}}})
	apitest.On(c, structs.JobWhy, func(_ context.Context, r *request) (*structs.WhyResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		if r.JobID != "db" {
			return nil, clitest.NotFound("job", r.JobID)
		}
		explained = true
		reasons := []*structs.Reason{{
			Text:   "allocation a1a1a1a1 is stopping",
			Remedy: "berth alloc status a1a1a1a1",
		}}
		return &structs.WhyResponse{Waits: true, Reasons: reasons, Text: structs.WhyText(reasons)}, nil
	})
	type allocations = structs.AllocListResponse
	apitest.On(c, structs.JobAllocations, func(context.Context, *request) (*allocations, error) {
		mu.Lock()
		defer mu.Unlock()
		a := &structs.AllocListStub{ID: clitest.Alloc1, Name: "db.g[0]", ClientStatus: structs.AllocRunning}
		if ends && explained {
			a.ClientStatus = structs.AllocComplete
		}
		return &allocations{Allocations: []*structs.AllocListStub{a}}, nil
	})
	return clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
}

// A job that was purged has no row. The command explains the wait for its allocations all the same.
func TestJobStop_ExplainsTheEndOfAPurgedJob(t *testing.T) {
	t.Parallel()
	code, out, errs := runLine(t, "job stop -purge db -address "+purgedCluster(t, true))
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	clitest.CheckLines(t, out,
		"1 allocation still to end",
		"waits: allocation a1a1a1a1 is stopping",
		"-> berth alloc status a1a1a1a1",
		`Job "db" has ended`,
	)
}

// The command that a purge names at its timeout works, although no list has the job, and another one has an
// ID that begins like its own.
func TestJobStop_NamesACommandThatWorksAfterAPurge(t *testing.T) {
	t.Parallel()
	addr := purgedCluster(t, false)
	code, out, errs := runLine(t, "job stop -purge -timeout 200ms db -address "+addr)
	_, advice, found := strings.Cut(strings.TrimSpace(errs), "to see what it waits for: berth ")
	if code == 0 || !found || !strings.Contains(out, "waits: allocation a1a1a1a1 is stopping") {
		t.Fatalf("exit code %d: %s\n%s", code, errs, out)
	}
	code, out, errs = runLine(t, advice+" -address "+addr)
	if code != 0 || !strings.Contains(out, "allocation a1a1a1a1 is stopping") {
		t.Errorf("%s: exit code %d: %s\n%s", advice, code, errs, out)
	}
}
