package state_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
)

// lostNode returns a fixture in which n1 is down and holds, for job db: "fenced" and "other" (plugin q),
// whose policy is fence, and "held", whose policy is hold. n2 is up, and job next waits there for all three.
func lostNode(t *testing.T) *fixture {
	w := newFixture(t)
	w.Node("n1", append(attachingHalves("p"), attachingHalves("q")...)...)
	w.Node("n2", append(attachingHalves("p"), attachingHalves("q")...)...)
	for _, v := range []struct{ id, plugin, policy string }{
		{"fenced", "p", structs.LossFence},
		{"held", "p", ""},
		{"other", "q", structs.LossFence},
	} {
		row := aVolume(v.id, v.plugin)
		row.OnNodeLoss = v.policy
		do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
			Volumes:      []*structs.CSIVolume{row},
			WriteOptions: w.Now(),
		})
		w.Alloc("db-"+v.id, "db", "n1")
		w.Alloc("next-"+v.id, "next", "n2")
		for _, job := range []string{"db-", "next-"} {
			w.Claim(aClaim(v.id, job+v.id, structs.ClaimWrite, structs.CSISingleNodeWriter))
		}
		w.Outcome(v.id, "n1", "attach", nil)
	}
	w.Status(structs.NodeDown, "n1")
	return w
}

func (w *fixture) runs(node string) []*cluster.FenceRun {
	return state.FenceRuns(w.Store.Read(), node)
}

// begin begins the next run for n1.
func (w *fixture) begin(device, scope string) {
	w.T.Helper()
	do(w, state.FenceBegin, &cluster.FenceBeginRequest{
		NodeID:  "n1",
		Epoch:   w.Epoch("n1"),
		Number:  state.LastFence(w.Store.Read(), "n1") + 1,
		Attempt: 1,
		Device:  device,
		Scope:   scope,
		Now:     w.Now().Now,
	})
}

// end ends the last run for n1.
func (w *fixture) end(p cluster.FenceEndRequest) {
	w.T.Helper()
	p.NodeID = "n1"
	p.Number = state.LastFence(w.Store.Read(), "n1")
	p.Now = w.Now().Now
	do(w, state.FenceEnd, &p)
}

func (w *fixture) order(node string) error {
	w.T.Helper()
	return try(w, state.FenceOrdered, &cluster.NodeFenceRequest{
		NodeID:       node,
		By:           "ann",
		Why:          "the board is dead",
		WriteOptions: w.Now(),
	})
}

// held returns the volumes that n1 still holds.
func (w *fixture) held() string {
	var held []string
	for _, v := range []string{"fenced", "held", "other"} {
		if w.ClaimState(v, "db-"+v) == structs.ClaimGranted {
			held = append(held, v)
		}
	}
	return strings.Join(held, " ")
}

func TestFenceEnd_ReleasesWhatTheProofCovers(t *testing.T) {
	proved := cluster.FenceEndRequest{Proved: true, NextTry: 1}
	all := []structs.CSIClaimKey{
		{Namespace: structs.DefaultNamespace, VolumeID: "fenced", AllocID: "db-fenced"},
		{Namespace: structs.DefaultNamespace, VolumeID: "held", AllocID: "db-held"},
	}
	for name, c := range map[string]struct {
		order bool
		scope string
		end   cluster.FenceEndRequest
		held  string
	}{
		"power":             {false, cluster.FencePower, proved, ""},
		"power, ordered":    {true, cluster.FencePower, proved, ""},
		"no proof":          {true, cluster.FencePower, cluster.FenceEndRequest{Cause: cluster.FenceCauseAgent}, "fenced held other"},
		"storage":           {false, cluster.FenceStorage, cluster.FenceEndRequest{Proved: true, Covered: all}, "other"},
		"storage, ordered":  {true, cluster.FenceStorage, cluster.FenceEndRequest{Proved: true, Covered: all}, "other"},
		"storage, of none":  {true, cluster.FenceStorage, proved, "fenced held other"},
		"no scope, no name": {true, "", proved, "fenced held other"},
	} {
		t.Run(name, func(t *testing.T) {
			w := lostNode(t)
			if c.order {
				if err := w.order("n1"); err != nil {
					t.Fatal(err)
				}
			}
			w.begin("ipmi", c.scope)
			if got := w.held(); got != "fenced held other" {
				t.Errorf("before the proof n1 holds %q", got)
			}
			w.end(c.end)
			if got := w.held(); got != c.held {
				t.Errorf("n1 holds %q, want %q", got, c.held)
			}
		})
	}
}

func TestFenceEnd_ReleasesAsAForcedDetachDoes(t *testing.T) {
	w := lostNode(t)
	w.begin("ipmi", cluster.FencePower)
	w.end(cluster.FenceEndRequest{Proved: true, Action: "status", ExitCode: 2, Output: "OFF", NextTry: 1})

	tx := w.Store.Read()
	a := state.Alloc(tx, "db-fenced")
	if a.ClientStatus != structs.AllocLost || a.DesiredStatus != structs.AllocDesiredStop {
		t.Errorf("the holder is %s, wanted %s", a.ClientStatus, a.DesiredStatus)
	}
	forced := csi.Volume(tx, structs.DefaultNamespace, "fenced").Forced
	if forced == nil || forced.NodeID != "n1" || forced.By != "the servers" ||
		!strings.Contains(forced.What, `"ipmi"`) {
		t.Errorf("the volume records %+v", forced)
	}
	if got := w.Attachment("fenced", "n1"); got != structs.AttachmentDetaching {
		t.Errorf("the attachment is %q", got)
	}
	run := w.runs("n1")[0]
	if run.State != cluster.FenceProved || run.Released != 3 || run.Output != "OFF" || run.ExitCode != 2 {
		t.Errorf("the run is %+v", run)
	}
	w.Outcome("fenced", "n1", "detach", nil)
	w.WantClaims("fenced", map[string]string{"next-fenced": structs.ClaimGranted})
}

// A detach that succeeded is no proof: the claim stays.
func TestDetach_ReleasesNoClaimOfALostNode(t *testing.T) {
	w := lostNode(t)
	w.Outcome("fenced", "n1", "detach", nil)
	w.WantClaims("fenced", map[string]string{
		"db-fenced":   structs.ClaimGranted,
		"next-fenced": structs.ClaimWaiting,
	})
}

func TestFenceEnd_ProvesNothingAfterTheNodeCameBack(t *testing.T) {
	for name, back := range map[string]func(w *fixture){
		"by its registration": func(w *fixture) { w.Node("n1") },
		"by its heartbeat":    func(w *fixture) { w.Status(structs.NodeReady, "n1") },
		"and is down again":   func(w *fixture) { w.Node("n1"); w.Status(structs.NodeDown, "n1") },
	} {
		t.Run(name, func(t *testing.T) {
			w := lostNode(t)
			if err := w.order("n1"); err != nil {
				t.Fatal(err)
			}
			w.begin("ipmi", cluster.FencePower)
			back(w)
			w.end(cluster.FenceEndRequest{Proved: true, NextTry: 1})
			if got := w.held(); got != "fenced held other" {
				t.Errorf("n1 holds %q", got)
			}
			if run := w.runs("n1")[0]; run.State != cluster.FenceVoid || run.Released != 0 {
				t.Errorf("the run is %+v", run)
			}
			if state.FenceOrder(w.Store.Read(), "n1") != nil {
				t.Error("the order outlives the loss")
			}
		})
	}
}

// The time of a loss is known to the second only, so the epoch tells two losses apart.
func TestIsProvedOff_NeedsAProofOfThisLoss(t *testing.T) {
	w := newFixture(t)
	at := func(status string) {
		do(w, state.NodeStatus, &structs.NodeStatusUpdate{
			NodeIDs:      []string{"n1"},
			Status:       status,
			WriteOptions: structs.WriteOptions{Now: 7e9},
		})
	}
	isOff := func() bool { return state.IsProvedOff(w.Store.Read(), state.Node(w.Store.Read(), "n1")) }
	w.Node("n1")
	at(structs.NodeDown)
	word := &cluster.NodeFenceRequest{NodeID: "n1", By: "ann", Why: "it burns"}
	word.Now = 7.5e9
	do(w, state.ConfirmLost, word)
	if !isOff() {
		t.Error("the proof of this loss does not count")
	}
	at(structs.NodeReady)
	at(structs.NodeDown)
	if isOff() {
		t.Error("the proof of an earlier loss counts")
	}
}

// The clock of the leader that recorded the loss was ahead.
func TestIsProvedOff_CountsAProofOfALossAheadOfTheClock(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	do(w, state.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{"n1"},
		Status:       structs.NodeDown,
		WriteOptions: structs.WriteOptions{Now: int64(30 * time.Hour)},
	})
	word := &cluster.NodeFenceRequest{NodeID: "n1", By: "ann", Why: "it burns"}
	word.Now = int64(time.Hour)
	do(w, state.ConfirmLost, word)
	if !state.IsProvedOff(w.Store.Read(), state.Node(w.Store.Read(), "n1")) {
		t.Error("the proof does not count")
	}
}

func TestFenceBegin_IsTheOnlyRunOfALoss(t *testing.T) {
	w := lostNode(t)
	begin := func(change func(*cluster.FenceBeginRequest)) error {
		p := &cluster.FenceBeginRequest{NodeID: "n1", Epoch: w.Epoch("n1"), Number: 1, Attempt: 1, Device: "ipmi"}
		change(p)
		return try(w, state.FenceBegin, p)
	}
	for name, c := range map[string]struct {
		change func(*cluster.FenceBeginRequest)
		kind   structs.Kind
	}{
		"another number":    {func(p *cluster.FenceBeginRequest) { p.Number = 2 }, structs.KindConflict},
		"another epoch":     {func(p *cluster.FenceBeginRequest) { p.Epoch++ }, structs.KindConflict},
		"a node that is up": {func(p *cluster.FenceBeginRequest) { p.NodeID = "n2" }, structs.KindPrecondition},
		"no such node":      {func(p *cluster.FenceBeginRequest) { p.NodeID = "n3" }, structs.KindNotFound},
		"no attempt":        {func(p *cluster.FenceBeginRequest) { p.Attempt = 0 }, structs.KindInvalid},
	} {
		err := begin(c.change)
		if !structs.IsKind(err, c.kind) {
			t.Errorf("%s: %v, want %s", name, err, c.kind)
		}
	}
	w.begin("ipmi", cluster.FencePower)
	wantKind(t, begin(func(p *cluster.FenceBeginRequest) { p.Number = 2 }), structs.KindConflict)
}

// A node that is down may release its volumes, because its agent is there again, between the decision of the
// leader and the entry.
func TestFenceBegin_NeedsSomebodyThatWaits(t *testing.T) {
	begin := func(w *fixture) error {
		return try(w, state.FenceBegin, &cluster.FenceBeginRequest{
			NodeID: "n1", Epoch: w.Epoch("n1"), Number: 1, Attempt: 1, Device: "ipmi",
		})
	}
	release := func(w *fixture, volumes ...string) {
		for _, v := range volumes {
			do(w, state.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{
				{Namespace: structs.DefaultNamespace, VolumeID: v, AllocID: "db-" + v},
			}})
		}
	}
	w := lostNode(t)
	release(w, "fenced")
	if err := begin(w); err != nil {
		t.Errorf("a job waits for another volume with the policy: %v", err)
	}
	w = lostNode(t)
	release(w, "fenced", "other")
	wantKind(t, begin(w), structs.KindConflict)
	if err := w.order("n1"); err != nil {
		t.Fatal(err)
	}
	if err := begin(w); err != nil {
		t.Errorf("an operator ordered it: %v", err)
	}
}

func TestFenceRuns_TheNewestStay(t *testing.T) {
	w := lostNode(t)
	for range cluster.FenceRuns + 3 {
		w.begin("ipmi", cluster.FencePower)
		w.end(cluster.FenceEndRequest{Cause: cluster.FenceCauseAgent})
	}
	runs := w.runs("n1")
	if len(runs) != cluster.FenceRuns || runs[0].Number != 4 {
		t.Errorf("%d runs are left, from %d on", len(runs), runs[0].Number)
	}
}

func TestFenceRuns_GoWithTheNode(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Status(structs.NodeDown, "n1")
	if err := w.order("n1"); err != nil {
		t.Fatal(err)
	}
	w.begin("ipmi", cluster.FencePower)
	w.end(cluster.FenceEndRequest{Cause: cluster.FenceCauseAgent})
	do(w, state.NodeDeregister, &structs.NodeDeregisterRequest{NodeIDs: []string{"n1"}})
	if len(w.runs("n1")) > 0 || state.FenceOrder(w.Store.Read(), "n1") != nil {
		t.Error("rows of a deleted node are left")
	}
}

func TestFenceOrder_LastsForOneAttempt(t *testing.T) {
	w := lostNode(t)
	w.begin("ipmi", cluster.FencePower) // of the servers
	if err := w.order("n1"); err != nil {
		t.Fatal(err)
	}
	w.end(cluster.FenceEndRequest{Cause: cluster.FenceCauseAgent, NextTry: 1})
	if state.FenceOrder(w.Store.Read(), "n1") == nil {
		t.Fatal("the order is gone before its attempt")
	}
	w.begin("ipmi", cluster.FencePower)
	w.end(cluster.FenceEndRequest{Cause: cluster.FenceCauseAgent})
	if state.FenceOrder(w.Store.Read(), "n1") == nil {
		t.Fatal("the order is gone before the last device was tried")
	}
	w.begin("pdu", cluster.FencePower)
	if run := w.runs("n1")[2]; run.By != "ann" || run.Why != "the board is dead" {
		t.Errorf("the run does not name the operator: %+v", run)
	}
	w.end(cluster.FenceEndRequest{Cause: cluster.FenceCauseAgent, NextTry: 1})
	if state.FenceOrder(w.Store.Read(), "n1") != nil {
		t.Error("the order outlives its attempt")
	}
	wantKind(t, w.order("n2"), structs.KindPrecondition)
}

func TestConfirmLost_ReleasesAllClaims(t *testing.T) {
	w := lostNode(t)
	word := &cluster.NodeFenceRequest{
		NodeID:       "n1",
		Epoch:        w.Epoch("n1"),
		By:           "ann@desk",
		Why:          "I pulled the plug",
		WriteOptions: w.Now(),
	}
	for name, c := range map[string]struct {
		change func(p *cluster.NodeFenceRequest)
		kind   structs.Kind
	}{
		"a node that is up": {func(p *cluster.NodeFenceRequest) { p.NodeID = "n2" }, structs.KindPrecondition},
		"another loss":      {func(p *cluster.NodeFenceRequest) { p.Epoch++ }, structs.KindConflict},
		"nobody":            {func(p *cluster.NodeFenceRequest) { p.By = "" }, structs.KindInvalid},
		"no reason":         {func(p *cluster.NodeFenceRequest) { p.Why = "" }, structs.KindInvalid},
	} {
		changed := *word
		c.change(&changed)
		err := try(w, state.ConfirmLost, &changed)
		if !structs.IsKind(err, c.kind) || w.held() != "fenced held other" {
			t.Errorf("%s: %v, want %s; n1 holds %q", name, err, c.kind, w.held())
		}
	}

	if err := w.order("n1"); err != nil {
		t.Fatal(err)
	}
	do(w, state.ConfirmLost, word)
	if state.FenceOrder(w.Store.Read(), "n1") != nil {
		t.Error("the order outlives the word")
	}
	run := w.runs("n1")[0]
	if got := w.held(); got != "" || run.Released != 3 {
		t.Errorf("n1 holds %q after %d were released", got, run.Released)
	}
	if run.Kind != cluster.FenceByWord || run.By != "ann@desk" ||
		run.Why != "I pulled the plug" || run.Begun == 0 {
		t.Errorf("the word is recorded as %+v", run)
	}
	forced := csi.Volume(w.Store.Read(), structs.DefaultNamespace, "held").Forced
	if forced == nil || forced.By != "ann@desk" || forced.Reason != "I pulled the plug" {
		t.Errorf("the volume records %+v", forced)
	}
}

func TestLostClaims_NamesThoseThatAreWaitedFor(t *testing.T) {
	w := newFixture(t)
	w.Node("n1", anInstance("p", structs.CSIKindNode, true))
	for _, v := range []string{"idle", "queued", "blocked"} {
		w.Volume(v, "p")
		w.Alloc("a-"+v, "j", "n1")
		w.Claim(aClaim(v, "a-"+v, structs.ClaimWrite, structs.CSISingleNodeWriter))
	}
	w.Alloc("b", "j", "n1")
	w.Claim(aClaim("queued", "b", structs.ClaimWrite, structs.CSISingleNodeWriter))
	w.Blocked("next", structs.WakeVolume(structs.DefaultNamespace, "blocked"))
	waited := map[string]bool{}
	for _, l := range state.LostClaims(w.Store.Read(), "n1") {
		waited[l.VolumeID] = l.Waited
	}
	if got := fmt.Sprint(waited); got != "map[blocked:true idle:false queued:true]" {
		t.Errorf("waited for: %s", got)
	}
}

func TestFenceBrake_CountsTheNodesThatWereLostTogether(t *testing.T) {
	const minute = 60
	for name, c := range map[string]struct {
		up   int
		lost []int64 // seconds at which nodes were lost
		want int     // nodes lost together, 0: the brake is off
	}{
		"two of two":                  {0, []int64{1, 1}, 0},
		"three of three":              {0, []int64{1, 1, 1}, 3},
		"three of nine":               {6, []int64{1, 1, 1}, 0},
		"four of nine":                {5, []int64{1, 2, 3, 4}, 4},
		"within ten minutes":          {6, []int64{0, 3 * minute, 6 * minute, 10 * minute}, 4},
		"within eleven":               {6, []int64{0, 3 * minute, 6 * minute, 11 * minute}, 0},
		"those lost before are apart": {5, []int64{0, 0, 60 * minute, 61 * minute, 62 * minute}, 3},
		"a later loss goes on alone":  {5, []int64{0, 1, 2, 3, 60 * minute}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			for i := range c.up {
				w.Node(fmt.Sprint("up", i))
			}
			for i, at := range c.lost {
				id := fmt.Sprint("lost", i)
				w.Node(id)
				do(w, state.NodeStatus, &structs.NodeStatusUpdate{
					NodeIDs:      []string{id},
					Status:       structs.NodeDown,
					WriteOptions: structs.WriteOptions{Now: at * 1e9},
				})
			}
			brake := state.FenceBrake(w.Store.Read())
			if (brake == nil) != (c.want == 0) || brake != nil && brake.Lost != c.want {
				t.Errorf("the brake is %+v, want %d nodes", brake, c.want)
			}
			if brake == nil {
				return
			}
			for i := range c.lost {
				do(w, state.ConfirmLost, &cluster.NodeFenceRequest{
					NodeID: fmt.Sprint("lost", i), By: "ann", Why: "it burns",
				})
			}
			if brake := state.FenceBrake(w.Store.Read()); brake != nil {
				t.Errorf("the brake is %+v after an operator confirmed each loss", brake)
			}
			for i, at := range c.lost {
				for _, status := range []string{structs.NodeReady, structs.NodeDown} {
					do(w, state.NodeStatus, &structs.NodeStatusUpdate{
						NodeIDs:      []string{fmt.Sprint("lost", i)},
						Status:       status,
						WriteOptions: structs.WriteOptions{Now: at * 1e9},
					})
				}
			}
			if state.FenceBrake(w.Store.Read()) == nil {
				t.Error("the brake is off after another loss of each, of which nobody has confirmed any")
			}
		})
	}
}
