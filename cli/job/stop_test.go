package job_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/structs"
)

func TestJobStop_WaitsForTheReleaseOfVolumesAndShowsTheReason(t *testing.T) {
	addr := clitest.HeldCluster(t, structs.AllocComplete, 2)
	code, out, errs := runLine(t, "job stop db -address "+addr)
	if code != 0 || errs != "" {
		t.Fatalf("got exit code %d: %q", code, errs)
	}
	held := strings.Index(out, "still holds volume data: Internal: target is busy")
	ended := strings.Index(out, `Job "db" has ended`)
	if held < 0 || ended < held {
		t.Errorf("got the output\n%s", out)
	}
}

// stoppingCluster serves the stop of a job. allocations returns the allocations of the job at a read, the
// first of which is 1.
func stoppingCluster(
	t *testing.T, allocations func(read int) ([]*structs.AllocListStub, error),
) (addr string) {
	t.Helper()
	c := &apitest.Caller{}
	apitest.Answer(c, structs.JobGet, structs.JobGetResponse{Job: &structs.Job{ID: "db"}})
	apitest.Answer(c, structs.JobDeregister, structs.JobDeregisterResponse{})
	reads := 0
	apitest.On(c, structs.JobAllocations, func(context.Context, *structs.JobGetRequest) (
		*structs.AllocListResponse, error,
	) {
		reads++
		found, err := allocations(reads)
		return &structs.AllocListResponse{Allocations: found}, err
	})
	return clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
}

func TestJobStop_ShowsTheAllocationsThatItEnds(t *testing.T) {
	addr := stoppingCluster(t, func(read int) ([]*structs.AllocListStub, error) {
		before := &structs.AllocListStub{
			ID:           clitest.Alloc1,
			Name:         "db.g[0]",
			ClientStatus: structs.AllocComplete,
		}
		now := &structs.AllocListStub{
			ID:           clitest.Alloc2,
			Name:         "db.g[0]",
			ClientStatus: structs.AllocRunning,
		}
		if read > 1 {
			now.ClientStatus = structs.AllocFailed
		}
		return []*structs.AllocListStub{before, now}, nil
	})
	code, out, errs := runLine(t, "job stop db -address "+addr)
	if code != 0 ||
		!strings.Contains(out, "a2a2a2a2 (db.g[0]) is failed") ||
		strings.Contains(out, "a1a1a1a1") {
		t.Errorf("got exit code %d: %q\n%s", code, errs, out)
	}
}

func TestAllocStatus_OfAnEndedAllocationShowsItsHeldVolumes(t *testing.T) {
	for status, want := range map[string]string{
		structs.AllocComplete: "granted, not released yet  Internal: target is busy",
		structs.AllocRunning:  "granted",
	} {
		addr := clitest.HeldCluster(t, status, 1)
		_, out, _ := runLine(t, "alloc status "+clitest.Alloc1+" -address "+addr)
		if !strings.Contains(out, want) ||
			status == structs.AllocRunning && strings.Contains(out, "not released") {
			t.Errorf("%s: got the output\n%s", status, out)
		}
	}
}

func TestJobStop_ContinuesAfterAnElection(t *testing.T) {
	addr := stoppingCluster(t, func(read int) ([]*structs.AllocListStub, error) {
		if read == 1 {
			return nil, structs.Errorf(structs.KindUnavailable, "the cluster has no leader")
		}
		return nil, nil
	})
	code, out, errs := runLine(t, "job stop db -address "+addr)
	if code != 0 || !strings.Contains(out, `Job "db" has ended`) {
		t.Errorf("got exit code %d: %q\n%s", code, errs, out)
	}
}

// The commands that stop allocations pass the order to skip the shutdown_delay on.
func TestNoShutdownDelay_OfEachCommand(t *testing.T) {
	var skips []bool
	c := &apitest.Caller{}
	job := &structs.Job{ID: "db", TaskGroups: []*structs.TaskGroup{{Name: "g"}}}
	alloc := &structs.Allocation{
		ID:             clitest.Alloc1,
		JobID:          "db",
		DesiredStatus:  structs.AllocDesiredStop,
		ClientStatus:   structs.AllocComplete,
		NextAllocation: clitest.Alloc2,
	}
	next := &structs.Allocation{ID: clitest.Alloc2, JobID: "db", ClientStatus: structs.AllocRunning}
	apitest.Answer(c, structs.JobGet, structs.JobGetResponse{Job: job})
	apitest.Answer(c, structs.JobAllocations, structs.AllocListResponse{
		Allocations: []*structs.AllocListStub{{
			ID:            clitest.Alloc1,
			DesiredStatus: structs.AllocDesiredRun,
			ClientStatus:  structs.AllocRunning,
		}},
	})
	apitest.On(c, structs.AllocGet, func(_ context.Context, r *structs.AllocGetRequest) (
		*structs.AllocGetResponse, error,
	) {
		found := alloc
		if r.AllocID == clitest.Alloc2 {
			found = next
		}
		return &structs.AllocGetResponse{Alloc: found}, nil
	})
	apitest.On(c, structs.JobDeregister, func(_ context.Context, r *structs.JobDeregisterRequest) (
		*structs.JobDeregisterResponse, error,
	) {
		skips = append(skips, r.NoShutdownDelay)
		return &structs.JobDeregisterResponse{}, nil
	})
	apitest.On(c, structs.AllocStop, func(_ context.Context, r *structs.AllocStopRequest) (
		*structs.AllocStopResponse, error,
	) {
		skips = append(skips, r.NoShutdownDelay)
		return &structs.AllocStopResponse{}, nil
	})
	addr := clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
	for _, command := range [][]string{
		{"job", "stop", "-detach"},
		{"alloc", "stop", "-detach"},
		{"job", "restart", "-reschedule"},
	} {
		for _, flags := range [][]string{nil, {"-no-shutdown-delay"}} {
			subject := "db"
			if command[0] == "alloc" {
				subject = clitest.Alloc1
			}
			skips = nil
			args := slices.Concat(command, flags, []string{"-address", addr, subject})
			code, out, errs := runArgs(t, args)
			if code != 0 || len(skips) != 1 || skips[0] != (flags != nil) {
				t.Errorf("%v: exit code %d, skips %v: %s%s", args, code, skips, out, errs)
			}
		}
	}
}

// The request to stop a job that does not exist succeeds, as in the dialect. The command says that there is
// none.
func TestJobStop_OfAJobThatDoesNotExist(t *testing.T) {
	c := &apitest.Caller{}
	type response = structs.JobGetResponse
	apitest.On(c, structs.JobGet, func(context.Context, *structs.JobGetRequest) (*response, error) {
		return nil, structs.NotFoundf("there is no job")
	})
	apitest.Answer(c, structs.JobDeregister, structs.JobDeregisterResponse{})
	addr := clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
	code, _, errs := runLine(t, "job stop x -address "+addr)
	if code == 0 || !strings.Contains(errs, "there is no job") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// A command whose time ends during an election names the next step, like any other that is late.
func TestJobStop_NamesTheNextStepIfItsTimeEndsInAnElection(t *testing.T) {
	addr := stoppingCluster(t, func(int) ([]*structs.AllocListStub, error) {
		return nil, structs.Errorf(structs.KindUnavailable, "the cluster has no leader")
	})
	code, out, errs := runLine(t, "job stop -timeout 300ms db -address "+addr)
	const want = "not done after 300ms; the operation continues; to see what it waits for: berth job why db"
	if code == 0 || !strings.Contains(errs, want) {
		t.Errorf("got exit code %d: %q\n%s", code, errs, out)
	}
}
