package node_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/cli"
	"berth/cli/clitest"
	"berth/structs"
	"berth/structs/cluster"
)

type loss = cluster.NodeFenceStatusResponse

// lostCluster answers with the losses one after the other, the last one again and again. It records the
// requests of operators.
func lostCluster(t *testing.T, losses ...loss) (addr string, sent *[]cluster.NodeFenceRequest) {
	t.Helper()
	w := clitest.NewCluster(t.TempDir())
	next := func(context.Context, *structs.NodeGetRequest) (*loss, error) {
		now := losses[0]
		if len(losses) > 1 {
			losses = losses[1:]
		}
		return &now, nil
	}
	apitest.On(w.Caller, cluster.NodeFenceStatus, next)
	sent = new([]cluster.NodeFenceRequest)
	record := func(_ context.Context, req *cluster.NodeFenceRequest) (*structs.Empty, error) {
		*sent = append(*sent, *req)
		return &structs.Empty{}, nil
	}
	apitest.On(w.Caller, cluster.NodeFence, record)
	apitest.On(w.Caller, cluster.NodeConfirmLost, record)
	return clitest.Serve(t, w.Caller, w.Agent), sent
}

func ordered(state, reason string, released int) *cluster.FenceRun {
	return &cluster.FenceRun{
		Number: 3, Device: "ipmi", By: "ann", State: state, Reason: reason, Released: released, Begun: 1, Ended: 2,
	}
}

func TestNodeFence_WaitsForTheEndOfItsOrder(t *testing.T) {
	before := &cluster.FenceRun{Number: 2, Device: "old", By: "bob", State: cluster.FenceProved, Released: 9}
	waiting := clitest.Lost(before)
	waiting.Order = &cluster.FenceOrder{NodeID: clitest.Node1}
	runs := clitest.Lost(ordered(cluster.FenceRunning, "", 0), before)
	runs.Order = waiting.Order
	back := clitest.Lost(ordered(cluster.FenceVoid, "the node came back", 0), before)
	back.Status = structs.NodeReady
	for name, c := range map[string]struct {
		end  cluster.NodeFenceStatusResponse
		code int
		says string
	}{
		"proved": {clitest.Lost(ordered(cluster.FenceProved, "", 1), before), 0, "is fenced, and 1 claim released"},
		"failed": {clitest.Lost(ordered(cluster.FenceFailed, "no route", 0), before), 7,
			"berth node confirm-lost 11111111"},
		"back": {back, 6, "it came back, and nothing is released"},
	} {
		t.Run(name, func(t *testing.T) {
			addr, sent := lostCluster(t, clitest.Lost(before), waiting, runs, c.end)
			code, out, errs := runLine(t, "node fence -reason dead -address "+addr+" one")
			if code != c.code || !strings.Contains(out+errs, c.says) || !strings.Contains(out, "device ipmi runs") ||
				!strings.Contains(out, "waits for the leader") || strings.Contains(out, "old") {
				t.Errorf("exit code %d:\n%s%s", code, out, errs)
			}
			if len(*sent) != 1 || (*sent)[0].Epoch != 7 || (*sent)[0].By == "" || (*sent)[0].Why != "dead" {
				t.Errorf("sent %+v", *sent)
			}
		})
	}
}

func TestNodeFence_DryRunShowsWhatWouldBeReleased(t *testing.T) {
	lost := clitest.Lost()
	unguarded := *lost.Claims[0]
	unguarded.OnNodeLoss = structs.LossLease
	guarded := unguarded
	guarded.Guarded = true
	lost.Claims = append(lost.Claims, &unguarded, &guarded)
	lost.Others = []*cluster.FenceMismatch{{Name: "pve", Reason: `plug: node 11111111 has no pin "vmid"`}}
	addr, sent := lostCluster(t, lost)
	code, out, errs := runLine(t, "node fence -dry-run -address "+addr+" one")
	for _, want := range []string{
		"ipmi", "power", "${pin.plug}", "1 of 3", "data", "hold", "a1a1a1a1", "web",
		"lease (not guarded: holds)", "lease  ", "Devices that do not fence it", `has no pin "vmid"`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if code != 0 || len(*sent) != 0 {
		t.Errorf("exit code %d, sent %+v: %s", code, *sent, errs)
	}
}

func TestNodeFence_TestNamesTheDevicesThatDoNotWork(t *testing.T) {
	for name, c := range map[string]struct {
		results []*cluster.FenceTest
		code    int
		says    string
	}{
		"none":   {nil, 6, "no fence device of the servers matches"},
		"works":  {[]*cluster.FenceTest{{Device: "ipmi", OK: true}}, 0, "ipmi"},
		"is off": {[]*cluster.FenceTest{{Device: "ipmi", ExitCode: 1}}, 7, "test again"},
	} {
		t.Run(name, func(t *testing.T) {
			w := clitest.NewCluster(t.TempDir())
			apitest.Answer(w.Caller, cluster.NodeFenceTest, cluster.NodeFenceTestResponse{Results: c.results})
			addr := clitest.Serve(t, w.Caller, w.Agent)
			code, out, errs := runLine(t, "node fence test one -address "+addr)
			if code != c.code || !strings.Contains(out+errs, c.says) {
				t.Errorf("exit code %d:\n%s%s", code, out, errs)
			}
		})
	}
}

// A node may have the name test.
func TestNodeFence_TakesTheLastWordForTheNode(t *testing.T) {
	for line, want := range map[string]struct {
		code int
		says string
		sent int
	}{
		"node fence -detach test":       {4, `"test"`, 0}, // no such node: it is a name, and nothing is tested
		"node fence test test":          {4, `"test"`, 0},
		"node fence -detach one":        {0, "is to be fenced", 1},
		"node fence other one":          {2, `the argument "one" is not expected`, 0},
		"node fence -dry-run test one":  {2, "-dry-run and test exclude each other", 0},
		"node fence":                    {2, "<node> is missing", 0},
		"node fence test one something": {2, `the argument "something" is not expected`, 0},
	} {
		addr, sent := lostCluster(t, clitest.Lost())
		code, out, errs := runLine(t, line+" -address "+addr)
		if code != want.code || !strings.Contains(out+errs, want.says) || len(*sent) != want.sent {
			t.Errorf("%s: exit code %d, sent %+v:\n%s%s", line, code, *sent, out, errs)
		}
	}
}

// pinnedCluster answers with a pin of each kind, and records the changes of pins.
func pinnedCluster(t *testing.T) (addr string, sent *[]cluster.NodeFencePinRequest) {
	t.Helper()
	w := clitest.NewCluster(t.TempDir())
	apitest.Answer(w.Caller, cluster.NodeFencePins, cluster.NodeFencePinsResponse{
		Pins: []*cluster.FencePin{
			{Kind: cluster.FencePinOfID, Key: clitest.Node2, Name: "slot", Value: "7", NodeID: clitest.Node2},
			{Kind: cluster.FencePinOfName, Key: "gone", Name: "bmc", Value: "10.0.9.9", NodeID: "former"},
			{Kind: cluster.FencePinOfName, Key: "one", Name: "bmc", Value: "10.0.9.1", NodeID: clitest.Node1},
		},
		Warnings: []*cluster.FenceWarning{{NodeID: clitest.Node2, Name: "two", Text: "no bmc"}},
		Unlisted: 3,
	})
	apitest.On(w.Caller, structs.NodeGet,
		func(_ context.Context, req *structs.NodeGetRequest) (*structs.NodeGetResponse, error) {
			name := map[string]string{clitest.Node1: "one", clitest.Node2: "two"}[req.NodeID]
			return &structs.NodeGetResponse{
				Node: &structs.NodeDetail{Node: structs.Node{ID: req.NodeID, Name: name}},
			}, nil
		})
	sent = new([]cluster.NodeFencePinRequest)
	apitest.On(w.Caller, cluster.NodeFencePin,
		func(_ context.Context, req *cluster.NodeFencePinRequest) (*structs.Empty, error) {
			*sent = append(*sent, *req)
			return &structs.Empty{}, nil
		})
	return clitest.Serve(t, w.Caller, w.Agent), sent
}

func TestNodeFence_ChangesPins(t *testing.T) {
	type request = cluster.NodeFencePinRequest
	for line, want := range map[string]struct {
		code int
		says string
		sent *request
	}{
		"-pin one bmc=10.0.9.1 slot=a=b": {0, "bmc, slot", &request{
			NodeID: clitest.Node1, Pins: map[string]string{"bmc": "10.0.9.1", "slot": "a=b"},
		}},
		"-unpin one bmc slot": {0, "bmc, slot", &request{NodeID: clitest.Node1, Remove: []string{"bmc", "slot"}}},
		"-unpin gone bmc":     {0, "bmc", &request{NodeID: "gone", Left: true, Remove: []string{"bmc"}}},
		"-unpin three bmc":    {4, `"three"`, nil},
		"-pin one":            {2, "name the pins after the node", nil},
		"-pin one bmc":        {2, `"bmc": expected name=value`, nil},
		"-unpin one bmc=1":    {2, `"bmc=1": expected the name of a pin alone`, nil},
		"-pin -unpin one bmc": {2, "exclude each other", nil},
		"-pin -dry-run one b": {2, "exclude each other", nil},
	} {
		addr, sent := pinnedCluster(t)
		code, out, errs := runLine(t, "node fence "+line+" -address "+addr)
		if code != want.code || !strings.Contains(out+errs, want.says) {
			t.Errorf("%s: exit code %d:\n%s%s", line, code, out, errs)
		}
		if (want.sent == nil) != (len(*sent) == 0) {
			t.Errorf("%s: sent %+v", line, *sent)
			continue
		}
		if want.sent == nil {
			continue
		}
		got := (*sent)[0]
		same := got.NodeID == want.sent.NodeID && got.Left == want.sent.Left &&
			maps.Equal(got.Pins, want.sent.Pins) && slices.Equal(got.Remove, want.sent.Remove)
		if !same || got.By == "" {
			t.Errorf("%s: sent %+v", line, got)
		}
	}
}

func TestNodePins_ListsThoseOfANode(t *testing.T) {
	for line, want := range map[string]struct {
		code      int
		has, lack string
	}{
		"":      {0, "10.0.9.1 10.0.9.9 slot two no_bmc 3_more_nodes", ""},
		" one":  {0, "10.0.9.1", "10.0.9.9 slot Warning"},
		" two":  {0, "slot Warning", "10.0.9. more"},
		" gone": {0, "10.0.9.9", "10.0.9.1 slot Warning"},
		" nine": {4, "nine", "slot"},
	} {
		addr, _ := pinnedCluster(t)
		code, out, errs := runLine(t, "node pins"+line+" -address "+addr)
		if code != want.code {
			t.Errorf("pins%s: exit code %d: %s", line, code, errs)
		}
		for part := range strings.FieldsSeq(want.has) {
			if !strings.Contains(out+errs, strings.ReplaceAll(part, "_", " ")) {
				t.Errorf("pins%s lacks %q:\n%s", line, part, out)
			}
		}
		for part := range strings.FieldsSeq(want.lack) {
			if strings.Contains(out, part) {
				t.Errorf("pins%s has %q:\n%s", line, part, out)
			}
		}
	}
}

func TestConfirmLost_NeedsTheNameOfTheNode(t *testing.T) {
	up := clitest.Lost()
	up.Status = structs.NodeReady
	for name, c := range map[string]struct {
		loss  cluster.NodeFenceStatusResponse
		args  string
		typed string
		code  int
		says  string
		sent  int
	}{
		"the name":     {clitest.Lost(), "-reason burnt", "one\n", 0, "1 claim released", 1},
		"another name": {clitest.Lost(), "-reason burnt", "two\n", 6, "nothing is released", 0},
		"nothing":      {clitest.Lost(), "-reason burnt", "", 6, "nothing is released", 0},
		"yes":          {clitest.Lost(), "-reason burnt -yes", "", 0, "1 claim released", 1},
		"no reason":    {clitest.Lost(), "-yes", "", 2, "a -reason is needed", 0},
		"a node is up": {up, "-reason burnt -yes", "", 6, "its lease and grace have not ended", 0},
	} {
		t.Run(name, func(t *testing.T) {
			addr, sent := lostCluster(t, c.loss)
			line := strings.Fields("node confirm-lost " + c.args + " -address " + addr + " one")
			code, out, errs := clitest.RunTyped(t, cli.Tree(), c.typed, line...)
			if code != c.code || !strings.Contains(out+errs, c.says) || len(*sent) != c.sent {
				t.Errorf("exit code %d, sent %+v:\n%s%s", code, *sent, out, errs)
			}
			if c.sent == 1 && ((*sent)[0].Epoch != 7 || (*sent)[0].Why != "burnt" || (*sent)[0].By == "" ||
				!strings.Contains(out, "data")) {
				t.Errorf("sent %+v:\n%s", *sent, out)
			}
		})
	}
}

func TestConfirmLost_ListsTheAllocationsWithoutAClaim(t *testing.T) {
	w := clitest.NewCluster(t.TempDir())
	lost := clitest.Lost()
	apitest.Answer(w.Caller, cluster.NodeFenceStatus, lost)
	apitest.Answer(w.Caller, cluster.NodeConfirmLost, structs.Empty{})
	alloc := func(id, job, desired, status string) *structs.Allocation {
		return &structs.Allocation{
			ID: id, Namespace: "default", JobID: job, TaskGroup: "app", NodeID: clitest.Node1,
			DesiredStatus: desired, ClientStatus: status,
		}
	}
	apitest.Answer(w.Caller, structs.NodeAllocs, structs.AllocsResponse{Allocs: []*structs.Allocation{
		alloc(lost.Claims[0].AllocID, "web", structs.AllocDesiredRun, structs.AllocUnknown),
		alloc("b2b2b2b2-0000", "cache", structs.AllocDesiredRun, structs.AllocUnknown),
		alloc("c3c3c3c3-0000", "batch", structs.AllocDesiredStop, structs.AllocRunning),
		alloc("d4d4d4d4-0000", "old", structs.AllocDesiredStop, structs.AllocComplete),
	}})
	addr := clitest.Serve(t, w.Caller, w.Agent)
	code, out, errs := runLine(t, "node confirm-lost -yes -reason burnt -address "+addr+" one")
	_, others, found := strings.Cut(out, "Other allocations that count as lost\n")
	want := `Allocation  Namespace  Job    Task group  Desired  Status
b2b2b2b2    default    cache  app         run      unknown
c3c3c3c3    default    batch  app         stop     running
`
	if code != 0 || !found || !strings.HasPrefix(others, want) {
		t.Errorf("exit code %d, want\n%s in\n%s%s", code, want, out, errs)
	}
}

// The machine of a second agent is another one than that of the volumes.
func TestConfirmLost_NamesTheMachineThatMustBeOff(t *testing.T) {
	w := clitest.NewCluster(t.TempDir())
	apitest.Answer(w.Caller, cluster.NodeFenceStatus, clitest.Lost())
	apitest.Answer(w.Caller, cluster.NodeConfirmLost, structs.Empty{})
	apitest.Answer(w.Caller, structs.NodeGet, structs.NodeGetResponse{Node: &structs.NodeDetail{
		Node:        structs.Node{ID: clitest.Node1, Name: "one", HTTPAddr: "10.0.0.1:4646", BootID: "b1"},
		SecondAgent: &structs.SecondAgent{HTTPAddr: "10.0.0.2:4646", BootID: "b2"},
	}})
	addr := clitest.Serve(t, w.Caller, w.Agent)
	code, out, errs := runLine(t, "node confirm-lost -yes -reason burnt -address "+addr+" one")
	for _, want := range []string{
		"It ran on 10.0.0.1:4646, in boot b1: that machine must be off.",
		"A second agent on 10.0.0.2:4646, in boot b2, waits for its volumes. It says nothing about the first.",
	} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, want %q in\n%s%s", code, want, out, errs)
		}
	}
}
