package job_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/cli/clitest"
	"berth/structs"
)

// The servers answer a stop before an evaluation replaces the allocation: it still runs, and is to run. The
// command awaits the successor all the same, so the next batch does not stop while the first one is missing.
func TestJobRestart_AwaitsTheSuccessorOfAnAllocationThatStillRuns(t *testing.T) {
	c := &apitest.Caller{}
	before := structs.Allocation{
		ID:            clitest.Alloc1,
		JobID:         "db",
		DesiredStatus: structs.AllocDesiredRun,
		ClientStatus:  structs.AllocRunning,
	}
	replaced := before
	replaced.DesiredStatus = structs.AllocDesiredStop
	replaced.NextAllocation = clitest.Alloc2
	next := structs.Allocation{
		ID:            clitest.Alloc2,
		JobID:         "db",
		DesiredStatus: structs.AllocDesiredRun,
		ClientStatus:  structs.AllocRunning,
	}
	answers := map[string][]*structs.Allocation{clitest.Alloc1: {&before, &replaced}, clitest.Alloc2: {&next}}
	var reads []string
	apitest.On(c, structs.AllocGet, func(_ context.Context, r *structs.AllocGetRequest) (
		*structs.AllocGetResponse, error,
	) {
		reads = append(reads, r.AllocID)
		left := answers[r.AllocID]
		answers[r.AllocID] = left[min(1, len(left)-1):]
		return &structs.AllocGetResponse{Alloc: left[0]}, nil
	})
	answerJob(c, &before)
	addr := clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
	code, _, errs := runLine(t, "job restart -reschedule db -address "+addr)
	want := []string{clitest.Alloc1, clitest.Alloc1, clitest.Alloc2}
	if code != 0 || !slices.Equal(reads, want) {
		t.Errorf("exit code %d, reads of %v, want %v: %s", code, reads, want, errs)
	}
}

// A leader that fails while a command awaits a successor or a restart does not end it: the rest of the
// allocations would keep the old state.
func TestJobRestart_GoesOnAfterAnElection(t *testing.T) {
	started := time.Unix(1000, 0)
	for _, options := range []string{"", "-reschedule "} {
		a := structs.Allocation{
			ID:            clitest.Alloc1,
			JobID:         "db",
			DesiredStatus: structs.AllocDesiredRun,
			ClientStatus:  structs.AllocRunning,
			TaskStates:    map[string]*structs.TaskState{"t": {State: structs.TaskRunning, StartedAt: started}},
		}
		c := &apitest.Caller{}
		reads := 0
		apitest.On(c, structs.AllocGet, func(_ context.Context, r *structs.AllocGetRequest) (
			*structs.AllocGetResponse, error,
		) {
			reads++
			after := a
			after.ID = r.AllocID
			after.TaskStates = map[string]*structs.TaskState{"t": {
				State:     structs.TaskRunning,
				StartedAt: started.Add(time.Second),
			}}
			switch {
			case reads == 1:
				return nil, structs.Unavailablef("the cluster has no leader")
			case options != "" && r.AllocID == clitest.Alloc1:
				after.NextAllocation = clitest.Alloc2
			}
			return &structs.AllocGetResponse{Alloc: &after}, nil
		})
		answerJob(c, &a)
		addr := clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
		code, _, errs := runLine(t, "job restart "+options+"db -address "+addr)
		if code != 0 || reads < 2 {
			t.Errorf("job restart %s: exit code %d after %d reads: %s", options, code, reads, errs)
		}
	}
}

// A restart whose task does not come back waits for changes, and names the next step when its time is over.
func TestJobRestart_NamesTheNextStepAtItsTimeout(t *testing.T) {
	started := time.Unix(1000, 0)
	for options, missing := range map[string]string{
		"":             `task "t" does not run again yet`,
		"-reschedule ": "no successor runs yet",
	} {
		a := structs.Allocation{
			ID:            clitest.Alloc1,
			Namespace:     "default",
			JobID:         "db",
			DesiredStatus: structs.AllocDesiredRun,
			ClientStatus:  structs.AllocRunning,
			TaskStates:    map[string]*structs.TaskState{"t": {State: structs.TaskRunning, StartedAt: started}},
		}
		c := &apitest.Caller{}
		blocked := make(chan struct{}, 1)
		apitest.On(c, structs.AllocGet, func(ctx context.Context, r *structs.AllocGetRequest) (
			*structs.AllocGetResponse, error,
		) {
			if r.MinIndex == 7 {
				blocked <- struct{}{}
				<-ctx.Done()
				return nil, ctx.Err()
			}
			resp := &structs.AllocGetResponse{Alloc: &a}
			resp.Index = 7
			return resp, nil
		})
		answerJob(c, &a)
		reasons := []*structs.Reason{{Text: "no node has the memory"}}
		apitest.Answer(c, structs.JobWhy, structs.WhyResponse{Waits: true, Reasons: reasons})
		addr := clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
		code, out, errs := runLine(t, "job restart -timeout 1s "+options+"db -address "+addr)
		if !strings.Contains(out, "waits: no node has the memory") {
			t.Errorf("job restart %s does not explain at last:\n%s", options, out)
		}
		if code == 0 || !strings.Contains(errs, missing+"; to see what it waits for: berth job why db") {
			t.Errorf("job restart %s: exit code %d, %s", options, code, errs)
		}
		if len(blocked) == 0 {
			t.Errorf("job restart %s has not waited for a change of the index", options)
		}
	}
}

// answerJob answers for job db with one allocation, and stops that.
func answerJob(c *apitest.Caller, a *structs.Allocation) {
	job := &structs.Job{ID: "db", TaskGroups: []*structs.TaskGroup{{Name: "g"}}}
	apitest.Answer(c, structs.JobGet, structs.JobGetResponse{Job: job})
	apitest.Answer(c, structs.JobAllocations, structs.AllocListResponse{
		Allocations: []*structs.AllocListStub{a.Stub()},
	})
	apitest.Answer(c, structs.AllocStop, structs.AllocStopResponse{})
}

// A node or a server that does not answer the request is named soon and at the end.
func TestJobRestart_SaysWhoseAnswerItWaitsFor(t *testing.T) {
	t.Parallel()
	for options, of := range map[string]string{
		"":             "the node of allocation a1a1a1a1",
		"-reschedule ": "the servers, which stop it",
	} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			c := &apitest.Caller{}
			answerJob(c, runningAlloc(clitest.Alloc1))
			h := api.NewHandler(api.Config{
				Routes: areas.Routes(),
				Caller: c,
				Agent:  clitest.NewAgent(t.TempDir()),
				Logger: hclog.NewNullLogger(),
			})
			agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					_, _ = io.Copy(io.Discard, r.Body) // then the server notices that the client has gone
					<-r.Context().Done()
					return
				}
				h.ServeHTTP(w, r)
			}))
			defer agent.Close()
			code, out, errs := runLine(t, "job restart -timeout 1s "+options+"db -address "+agent.URL)
			if !strings.Contains(out, "waits for the answer of "+of) {
				t.Errorf("the output does not name what it waits for:\n%s", out)
			}
			want := "no answer of " + of + "; to see what it waits for: berth job why db"
			if code == 0 || !strings.Contains(errs, want) {
				t.Errorf("exit code %d, %s; want %q", code, errs, want)
			}
		})
	}
}

// An allocation that fails after its restart is an error that names the command which shows why.
func TestJobRestart_NamesTheNextStepAfterAFailure(t *testing.T) {
	for options, want := range map[string]string{
		"": "it is failed (no disk) after the restart; to see why: berth alloc status a1a1a1a1",
		"-reschedule ": "its successor a2a2a2a2 is failed (no disk); " +
			"to see why: berth alloc status a2a2a2a2",
		"-on-error continue ": "1 allocation of 1 could not be restarted; to see why: berth job why db",
	} {
		c := &apitest.Caller{}
		apitest.On(c, structs.AllocGet, func(_ context.Context, r *structs.AllocGetRequest) (
			*structs.AllocGetResponse, error,
		) {
			a := *runningAlloc(r.AllocID)
			if r.AllocID == clitest.Alloc1 && options == "-reschedule " {
				a.NextAllocation = clitest.Alloc2
			} else {
				a.ClientStatus = structs.AllocFailed
				a.ClientDescription = "no disk"
			}
			return &structs.AllocGetResponse{Alloc: &a}, nil
		})
		answerJob(c, runningAlloc(clitest.Alloc1))
		addr := clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
		code, _, errs := runLine(t, "job restart "+options+"db -address "+addr)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("job restart %s: exit code %d, %s; want %q", options, code, errs, want)
		}
	}
}

// runningAlloc is an allocation of job db that runs.
func runningAlloc(id string) *structs.Allocation {
	return &structs.Allocation{
		ID:            id,
		Namespace:     "default",
		JobID:         "db",
		DesiredStatus: structs.AllocDesiredRun,
		ClientStatus:  structs.AllocRunning,
		TaskStates: map[string]*structs.TaskState{"t": {
			State:     structs.TaskRunning,
			StartedAt: time.Unix(1000, 0),
		}},
	}
}
