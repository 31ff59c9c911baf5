package scheduler

import (
	"strings"
	"testing"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// csiJob is a system job that runs the plugin p.
func csiJob(edits ...func(*structs.Job)) *structs.Job {
	j := aJob("csi", structs.JobSystem, edits...)
	j.TaskGroups[0].Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{ID: "p", Type: structs.CSIPluginNode}
	return j
}

// heldWithoutPlugin is a node that was down, and is back. It has a volume of the plugin p, which does not run
// there. An edit changes what an operator did meanwhile.
func heldWithoutPlugin(t *testing.T, edit func(*fixture)) (*fixture, *structs.Allocation) {
	t.Helper()
	w := newFixture(t)
	w.node(aNode("n1"), half("p", structs.CSIKindNode))
	w.volume("v", "p")
	w.job(csiJob())
	w.run("csi")
	w.job(aJob("log", structs.JobSystem))
	w.run("log")
	w.job(aJob("db", structs.JobBatch, volume("v", structs.CSISingleNodeWriter, false)))
	w.run("db")
	a := w.allocs("db")[0]
	w.claim(a)
	w.client(a, structs.AllocComplete)
	edit(w)
	w.status("n1", structs.NodeDown)
	w.run("csi")
	w.run("log")
	w.wantPlaced("csi", "")
	w.status("n1", structs.NodeReady)
	return w, a
}

func drains(spec structs.DrainSpec) func(*fixture) {
	return func(w *fixture) {
		do(w, state.NodeDrain, &structs.NodeDrainRequest{
			NodeID:       "n1",
			DrainSpec:    &spec,
			WriteOptions: w.now(),
		})
	}
}

func ineligible(w *fixture) {
	do(w, state.NodeEligibility, &structs.NodeEligibilityRequest{
		NodeID:       "n1",
		Eligibility:  structs.NodeIneligible,
		WriteOptions: w.now(),
	})
}

// Without its plugin a node could never let go of a volume. So the plugin returns, and nothing else does.
func TestSystemJob_ReturnsThePluginOfANodeWithVolumes(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fixture)
		want string
	}{
		"draining":             {drains(structs.DrainSpec{}), "0@n1"},
		"with a deadline":      {drains(structs.DrainSpec{Deadline: time.Hour}), "0@n1"},
		"force, no deadline":   {drains(structs.DrainSpec{Force: true}), "0@n1"},
		"force, with deadline": {drains(structs.DrainSpec{Force: true, Deadline: time.Hour}), ""},
		"at once":              {drains(structs.DrainSpec{Deadline: -1}), ""},
		"ineligible":           {ineligible, "0@n1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := heldWithoutPlugin(t, c.edit)
			w.run("csi")
			w.wantPlaced("csi", c.want)
			w.run("log")
			w.wantPlaced("log", "")
		})
	}
}

// drained ends the drain of n1.
func drained(w *fixture, pluginsOff bool) {
	n := state.Node(w.s.Read(), "n1")
	do(w, state.NodeDrained, &structs.NodeDrainedUpdate{
		Nodes: []structs.DrainedNode{{
			NodeID:     "n1",
			StartedAt:  n.DrainStrategy.StartedAt,
			PluginsOff: pluginsOff,
		}},
		WriteOptions: w.now(),
	})
}

// After a drain by force the plugin stays off until the node is eligible or drains again.
func TestSystemJob_ReturnsNoPluginAfterAForcedDrain(t *testing.T) {
	eligible := func(w *fixture) {
		do(w, state.NodeEligibility, &structs.NodeEligibilityRequest{
			NodeID:       "n1",
			Eligibility:  structs.NodeEligible,
			WriteOptions: w.now(),
		})
	}
	force := func(w *fixture) {
		drains(structs.DrainSpec{Force: true, Deadline: time.Hour})(w)
		drained(w, true)
	}
	plain := func(w *fixture) { drained(w, false) }
	for name, c := range map[string]struct {
		edits []func(*fixture)
		want  string
	}{
		"after force":         {[]func(*fixture){force}, ""},
		"without the mark":    {[]func(*fixture){drains(structs.DrainSpec{}), plain}, "0@n1"},
		"drains again":        {[]func(*fixture){force, drains(structs.DrainSpec{})}, "0@n1"},
		"was eligible again":  {[]func(*fixture){force, eligible, ineligible}, "0@n1"},
		"a drain was revoked": {[]func(*fixture){force, revoke, ineligible}, "0@n1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := heldWithoutPlugin(t, func(w *fixture) {
				for _, edit := range c.edits {
					edit(w)
				}
			})
			w.run("csi")
			w.wantPlaced("csi", c.want)
		})
	}
}

// revoke makes a node eligible by the request that ends a drain.
func revoke(w *fixture) {
	do(w, state.NodeDrain, &structs.NodeDrainRequest{
		NodeID:       "n1",
		MarkEligible: true,
		WriteOptions: w.now(),
	})
}

func TestSystemJob_ReturnsNoPluginThatItsNodeDoesNotNeed(t *testing.T) {
	w, a := heldWithoutPlugin(t, ineligible)
	w.job(csiJob(func(j *structs.Job) {
		j.Type = structs.JobService
		j.ID = "elsewhere" // it need not run on this node
	}))
	w.run("elsewhere")
	w.wantPlaced("elsewhere", "")
	other := csiJob(func(j *structs.Job) { j.ID = "other" })
	other.TaskGroups[0].Tasks[0].CSIPluginConfig.ID = "q"
	w.job(other)
	w.run("other")
	w.wantPlaced("other", "")
	w.release(a)
	w.run("csi")
	w.wantPlaced("csi", "")
}

// A node whose claim waits has no volume yet.
func TestSystemJob_BringsNoPluginForAClaimThatWaits(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1", "n2")
	w.csi("n2", half("p", structs.CSIKindNode))
	w.volume("v", "p")
	w.job(aJob("log", structs.JobSystem))
	w.run("log")
	logs := w.allocs("log")
	for _, i := range []int{1, 0} {
		claims := []*structs.CSIClaim{{
			Namespace:      structs.DefaultNamespace,
			VolumeID:       "v",
			AllocID:        logs[i].ID,
			Mode:           structs.ClaimWrite,
			AccessMode:     structs.CSISingleNodeWriter,
			AttachmentMode: structs.CSIFileSystem,
		}}
		do(w, csi.VolumeClaim, &structs.CSIVolumeClaimRequest{WriteOptions: w.now(), Claims: claims})
	}
	for c := range csi.ClaimsByAlloc(w.s.Read(), logs[0].ID) {
		if c.State != structs.ClaimWaiting {
			t.Fatalf("the claim is %s", c.State)
		}
	}
	ineligible(w)
	w.job(csiJob())
	w.run("csi")
	w.wantPlaced("csi", "0@n2")
}

// The entry rejects the plugin if its node has let go of the volumes meanwhile.
func TestSystemJob_ReturnedPluginIsCheckedAgain(t *testing.T) {
	w, a := heldWithoutPlugin(t, ineligible)
	p := w.process(w.eval("csi"))
	if len(p.Place) != 1 {
		t.Fatal(describe(p))
	}
	w.release(a)
	p.WriteOptions = w.now()
	do(w, state.PlanApply, p)
	w.wantPlaced("csi", "")
	if why := state.Eval(w.s.Read(), p.Eval.ID).StatusDescription; !strings.Contains(why, "ineligible") {
		t.Errorf("the evaluation: %s", why)
	}
}
