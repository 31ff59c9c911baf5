package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"berth/api"
	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/structs"
)

// jobWithVolume is a job of one allocation that uses the volume data.
func jobWithVolume() *structs.Job {
	group := &structs.TaskGroup{
		Name:  "g",
		Count: 1,
		Volumes: map[string]*structs.VolumeRequest{
			"d": {
				Name:       "d",
				Type:       "csi",
				Source:     "data",
				AccessMode: structs.CSISingleNodeWriter,
			},
		},
	}
	return &structs.Job{
		ID:         "db",
		Namespace:  "default",
		Type:       structs.JobService,
		TaskGroups: []*structs.TaskGroup{group},
	}
}

// heldCluster serves a job whose allocation has a status, and whose claim of the volume is released after a
// number of reads.
func heldCluster(t *testing.T, status string, reads int) (addr string) {
	t.Helper()
	meta := structs.QueryMeta{Index: 7, KnownLeader: true}
	c := &apitest.Caller{}
	alloc := &structs.Allocation{
		ID:            clitest.Alloc1,
		Name:          "db.g[0]",
		Namespace:     "default",
		JobID:         "db",
		TaskGroup:     "g",
		NodeID:        clitest.Node1,
		Job:           jobWithVolume(),
		DesiredStatus: structs.AllocDesiredStop,
		ClientStatus:  status,
	}
	apitest.Answer(c, structs.JobGet, structs.JobGetResponse{
		Job:       jobWithVolume(),
		QueryMeta: meta,
	})
	apitest.Answer(c, structs.JobDeregister, structs.JobDeregisterResponse{})
	apitest.Answer(c, structs.AllocGet, structs.AllocGetResponse{Alloc: alloc, QueryMeta: meta})
	apitest.Answer(c, structs.JobAllocations,
		structs.AllocListResponse{
			Allocations: []*structs.AllocListStub{alloc.Stub()},
			QueryMeta:   meta,
		})
	apitest.Answer(c, structs.CSIVolumeGet, structs.CSIVolumeGetResponse{
		QueryMeta: meta,
		Volume: &structs.CSIVolumeDetail{
			Attachments: []*structs.CSIAttachment{{
				NodeID:    clitest.Node1,
				State:     structs.AttachmentAttaching,
				LastError: &structs.OperationError{Code: "Internal", Message: "the array is full"},
			}},
		},
	})
	type request = structs.CSIClaimListRequest
	type response = structs.CSIClaimListResponse
	apitest.On(c, structs.CSIClaimList, func(_ context.Context, q *request) (*response, error) {
		resp := &response{QueryMeta: meta}
		if q.VolumeID == "gone" {
			return nil, structs.Errorf(structs.KindNotFound, "no volume gone")
		}
		switch q.Filter {
		case "": // all claims, also those of a running job
			resp.Claims = []*structs.CSIClaim{{
				VolumeID: q.VolumeID,
				JobID:    "other",
				State:    structs.ClaimGranted,
			}}
		case `JobID == "db" and State == "granted"`:
		default:
			return nil, structs.Errorf(structs.KindInvalid, "unexpected filter %s", q.Filter)
		}
		if q.VolumeID != "data" {
			return resp, nil
		}
		if reads > 0 {
			reads--
			resp.Claims = append(resp.Claims, &structs.CSIClaim{
				VolumeID:     "data",
				AllocID:      clitest.Alloc1,
				JobID:        "db",
				State:        structs.ClaimGranted,
				ReleaseError: &structs.OperationError{Code: "Internal", Message: "target is busy"},
			})
		}
		return resp, nil
	})
	return clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
}

func TestJobStop_WaitsForTheReleaseOfVolumesAndShowsTheReason(t *testing.T) {
	addr := heldCluster(t, structs.AllocComplete, 2)
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

func TestHeldVolumes_ReturnsTheHeldVolumes(t *testing.T) {
	addr := heldCluster(t, structs.AllocComplete, 1)
	c := &command.Call{
		Command: &command.Command{},
		API:     api.NewClient(api.ClientConfig{Address: addr}),
	}
	c.Out = io.Discard
	defer c.API.Close()
	w := New(c)
	for _, want := range [][]string{{"data"}, nil} {
		still, err := w.heldVolumes(t.Context(), "db", []string{"gone", "data", "free"})
		if err != nil || !slices.Equal(still, want) {
			t.Errorf("got %v, error %v, want %v", still, err, want)
		}
	}
}

func TestAllocStatus_OfAnEndedAllocationShowsItsHeldVolumes(t *testing.T) {
	for status, want := range map[string]string{
		structs.AllocComplete: "granted, not released yet  Internal: target is busy",
		structs.AllocRunning:  "granted",
	} {
		addr := heldCluster(t, status, 1)
		_, out, _ := runLine(t, "alloc status "+clitest.Alloc1+" -address "+addr)
		if !strings.Contains(out, want) ||
			status == structs.AllocRunning && strings.Contains(out, "not released") {
			t.Errorf("%s: got the output\n%s", status, out)
		}
	}
}

func TestJobRun_ShowsAFailedAttach(t *testing.T) {
	addr := heldCluster(t, structs.AllocPending, 1)
	c := &command.Call{
		Command: &command.Command{Flags: command.DetachFlags},
		API:     api.NewClient(api.ClientConfig{Address: addr}),
	}
	var out strings.Builder
	c.Out = &out
	defer c.API.Close()
	stub := &structs.AllocListStub{
		ID:        clitest.Alloc1,
		Namespace: "default",
		Name:      "db.g[0]",
		JobID:     "db",
		TaskGroup: "g",
		NodeID:    clitest.Node1,
	}
	err := New(c).reportClaims(t.Context(), jobWithVolume(), stub)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "volume data is attaching: Internal: the array is full") {
		t.Errorf("got the output %q", out.String())
	}
}

// The message of the node names the remedy. "berth volume retry" does not reach a node.
func TestWhyHeld_DoesNotOfferARetryThatReachesNoNode(t *testing.T) {
	claim := &structs.CSIClaim{ReleaseError: &structs.OperationError{
		Code:      "Unimplemented",
		Message:   "Unimplemented: no; restart it",
		Attempts:  1,
		RetryTime: structs.NeverTry,
	}}
	if got := WhyHeld(claim); got != "Unimplemented: no; restart it" {
		t.Errorf("got %q", got)
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
