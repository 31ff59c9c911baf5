package node_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/api/apitest"
	"berth/api/show"
	"berth/cli/clitest"
	"berth/structs"
)

// TestNodeDrain_SendsItsFlags checks the request of each flag.
func TestNodeDrain_SendsItsFlags(t *testing.T) {
	type meta = map[string]string
	enable := func(spec structs.DrainSpec) *structs.NodeDrainRequest {
		return &structs.NodeDrainRequest{DrainSpec: &spec, Meta: meta{}}
	}
	hour := structs.DrainSpec{Deadline: time.Hour}
	ignoring := structs.DrainSpec{Deadline: time.Hour, IgnoreSystemJobs: true}
	cancelled := meta{"cancel_message": "later", "ticket": "8"}
	noted := enable(hour)
	noted.Meta = meta{"message": "disk", "ticket": "7"}
	for flags, want := range map[string]*structs.NodeDrainRequest{
		"-enable":                             enable(hour),
		"-enable -deadline 30m":               enable(structs.DrainSpec{Deadline: 30 * time.Minute}),
		"-enable -no-deadline":                enable(structs.DrainSpec{}),
		"-enable -force":                      enable(structs.DrainSpec{Deadline: -time.Second, Force: true}),
		"-enable -force -deadline 1m":         enable(structs.DrainSpec{Deadline: time.Minute, Force: true}),
		"-enable -ignore-system":              enable(ignoring),
		"-enable -keep-ineligible":            enable(hour),
		"-enable -yes":                        enable(hour),
		"-enable -m disk -meta ticket=7":      noted,
		"-disable":                            {MarkEligible: true, Meta: meta{}},
		"-disable -keep-ineligible":           {Meta: meta{}},
		"-disable -m later -meta ticket=8":    {MarkEligible: true, Meta: cancelled},
		"-disable -keep-ineligible -m later ": {Meta: meta{"cancel_message": "later"}},
	} {
		t.Run(flags, func(t *testing.T) {
			w := clitest.NewCluster(t.TempDir())
			addr := clitest.Serve(t, w.Caller, w.Agent)
			line := "node drain " + strings.TrimSpace(flags) + " -address " + addr + " one"
			if want.DrainSpec != nil {
				line = strings.Replace(line, "-enable", "-enable -detach", 1)
			}
			code, _, errs := runLine(t, line)
			if code != 0 || errs != "" || len(w.Drains) != 1 {
				t.Fatalf("got exit code %d and %d requests: %s", code, len(w.Drains), errs)
			}
			got := w.Drains[0]
			if got.NodeID != clitest.Node1 || got.MarkEligible != want.MarkEligible ||
				!reflect.DeepEqual(got.DrainSpec, want.DrainSpec) ||
				len(got.Meta)+len(want.Meta) > 0 && !reflect.DeepEqual(got.Meta, want.Meta) {
				t.Errorf("got %+v with %+v, want %+v with %+v", got, got.DrainSpec, want, want.DrainSpec)
			}
		})
	}
}

// drainingCluster serves a drain whose status is the next of a list at each read, and then the last one.
func drainingCluster(t *testing.T, reads ...structs.NodeDrainStatusResponse) (
	w *clitest.Cluster, addr string,
) {
	t.Helper()
	w = clitest.NewCluster(t.TempDir())
	read := 0
	apitest.On(w.Caller, structs.NodeDrainStatus, func(context.Context, *structs.NodeGetRequest) (
		*structs.NodeDrainStatusResponse, error,
	) {
		resp := reads[min(read, len(reads)-1)]
		read++
		resp.NodeID = clitest.Node1
		resp.Index = uint64(10 + read)
		return &resp, nil
	})
	return w, clitest.Serve(t, w.Caller, w.Agent)
}

// The watch tells what each allocation waits for when that changes, and that it has left.
func TestNodeDrain_ShowsWhatIsWaitedFor(t *testing.T) {
	first := structs.DrainWait{AllocID: clitest.Alloc1, JobID: "web", Reason: "it is about to be moved"}
	second := structs.DrainWait{
		AllocID: clitest.Alloc2,
		JobID:   "db",
		Reason:  "at most 1 of group g may be missing",
	}
	moving := second
	moving.Reason = "it is stopping"
	_, addr := drainingCluster(t,
		clitest.DrainWaits(first, second),
		clitest.DrainWaits(second),
		clitest.DrainWaits(moving),
		clitest.DrainEnded(structs.DrainComplete))
	for _, mode := range []string{"-enable", "-monitor"} {
		code, out, errs := runLine(t, "node drain "+mode+" -address "+addr+" one")
		if code != 0 || errs != "" {
			t.Fatalf("%s: got exit code %d: %s", mode, code, errs)
		}
		if mode == "-monitor" {
			clitest.CheckLines(t, out, "The drain of node "+show.ShortID(clitest.Node1)+" is complete")
			continue
		}
		clitest.CheckLines(t, out,
			"Node "+show.ShortID(clitest.Node1)+" drains",
			"Allocation "+show.ShortID(clitest.Alloc1)+` of job "web": it is about to be moved`,
			"Allocation "+show.ShortID(clitest.Alloc2)+` of job "db": at most 1 of group g may be missing`,
			"Allocation "+show.ShortID(clitest.Alloc1)+` of job "web" has left`,
			"Allocation "+show.ShortID(clitest.Alloc2)+` of job "db": it is stopping`,
			"Allocation "+show.ShortID(clitest.Alloc2)+` of job "db" has left`,
			"The drain of node "+show.ShortID(clitest.Node1)+" is complete",
			"To let it take allocations again: berth node eligibility -enable "+
				show.ShortID(clitest.Node1),
		)
	}
}

// The tasks of an allocation that a node has when it goes down may run on.
func TestNodeDrain_TellsOfLostAllocations(t *testing.T) {
	wait := structs.DrainWait{AllocID: clitest.Alloc1, JobID: "web", Reason: "it is stopping"}
	end := clitest.DrainEnded(structs.DrainComplete)
	end.NodeStatus = structs.NodeDown
	_, addr := drainingCluster(t, clitest.DrainWaits(wait), end)
	code, out, errs := runLine(t, "node drain -enable -address "+addr+" one")
	if code != 0 || strings.Contains(out, "has left") {
		t.Errorf("got exit code %d: %s%s", code, out, errs)
	}
	clitest.CheckLines(t, out,
		`of job "web" is lost with its node, which is down; its tasks may still run there`)
}

// There is nothing to watch at a node that does not drain, also if its last drain was cancelled.
func TestNodeDrain_MonitorsNoDrain(t *testing.T) {
	_, addr := drainingCluster(t, clitest.DrainEnded(structs.DrainCanceled))
	code, out, errs := runLine(t, "node drain -monitor -address "+addr+" one")
	if code != 0 || !strings.Contains(out, "does not drain; its last drain was canceled") {
		t.Errorf("got exit code %d: %s%s", code, out, errs)
	}
	code, _, errs = runLine(t, "node drain -enable -address "+addr+" one")
	if code == 0 || !strings.Contains(errs, "is canceled") {
		t.Errorf("a drain that is cancelled at once: exit code %d: %s", code, errs)
	}
}

// A watch of a drain that somebody cancels fails. -monitor sends nothing.
func TestNodeDrain_FailsWhenItIsCancelled(t *testing.T) {
	wait := structs.DrainWait{AllocID: clitest.Alloc1, JobID: "web", Reason: "it is stopping"}
	w, addr := drainingCluster(t, clitest.DrainWaits(wait), clitest.DrainEnded(structs.DrainCanceled))
	code, out, errs := runLine(t, "node drain -monitor -address "+addr+" one")
	want := "the drain of node " + show.ShortID(clitest.Node1) +
		" is canceled; to see why: berth node status " + clitest.Node1
	if code == 0 || !strings.Contains(errs, want) {
		t.Errorf("got exit code %d: %s", code, errs)
	}
	clitest.CheckLines(t, out, `of job "web": it is stopping`)
	if strings.Contains(out, "has left") {
		t.Errorf("an allocation has left in\n%s", out)
	}
	if len(w.Drains) > 0 {
		t.Errorf("-monitor sent %+v", w.Drains[0])
	}
}

// The status of a node that drains has what the drain waits for.
func TestNodeStatus_ShowsWhatItsDrainWaitsFor(t *testing.T) {
	wait := structs.DrainWait{AllocID: clitest.Alloc1, JobID: "web", TaskGroup: "g", Reason: "it is stopping"}
	w, addr := drainingCluster(t, clitest.DrainWaits(wait))
	apitest.On(w.Caller, structs.NodeGet, func(context.Context, *structs.NodeGetRequest) (
		*structs.NodeGetResponse, error,
	) {
		n := structs.Node{ID: clitest.Node1, Name: "one", DrainStrategy: &structs.DrainStrategy{}}
		return &structs.NodeGetResponse{Node: &structs.NodeDetail{Node: n}}, nil
	})
	code, out, errs := runLine(t, "node status -address "+addr+" one")
	if code != 0 {
		t.Fatalf("got exit code %d: %s", code, errs)
	}
	clitest.CheckLines(t, out, "Drain waits for", "it is stopping")
}

// statusOutput returns what node status prints about a node.
func statusOutput(t *testing.T, n *structs.NodeDetail) string {
	t.Helper()
	w, addr := drainingCluster(t)
	apitest.On(w.Caller, structs.NodeGet, func(context.Context, *structs.NodeGetRequest) (
		*structs.NodeGetResponse, error,
	) {
		return &structs.NodeGetResponse{Node: n}, nil
	})
	code, out, errs := runLine(t, "node status -address "+addr+" one")
	if code != 0 {
		t.Fatalf("got exit code %d: %s", code, errs)
	}
	return out
}

// An operator must see why a node gets no work, and which machine to change.
func TestNodeStatus_ShowsAReturnAndASecondAgent(t *testing.T) {
	n := &structs.NodeDetail{
		Node: structs.Node{
			ID:        clitest.Node1,
			Name:      "one",
			HTTPAddr:  "10.0.0.1:4646",
			Status:    structs.NodeReady,
			BootID:    "b1",
			Returning: true,
		},
		SecondAgent: &structs.SecondAgent{
			Name:     "clone",
			HTTPAddr: "10.0.0.2:4646",
			BootID:   "b2",
			Reason:   "the lease runs",
		},
	}
	out := statusOutput(t, n)
	for _, want := range []string{
		"= ready (back after a loss; it takes no allocations until it has released what it lost",
		"has the node  one    10.0.0.1:4646  b1",
		"rejected      clone  10.0.0.2:4646  b2",
		"the lease runs",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	n.Status = structs.NodeDown
	n.SecondAgent = nil
	if out := statusOutput(t, n); !strings.Contains(out, "= down\n") || strings.Contains(out, "rejected") {
		t.Errorf("got\n%s", out)
	}
}
