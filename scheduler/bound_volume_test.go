package scheduler

import (
	"strings"
	"testing"

	"berth/structs"
)

// onOneNode requests a volume of which several allocations are on one node.
func onOneNode(source string) func(*structs.Job) {
	return volume(source, structs.CSISingleNodeMultiWriter, false)
}

// nodesOf lists the nodes of a job's live allocations, each once.
func (w *fixture) nodesOf(job string) []string {
	var nodes []string
	for _, a := range w.allocs(job) {
		if !strings.Contains(strings.Join(nodes, " "), a.NodeID) {
			nodes = append(nodes, a.NodeID)
		}
	}
	return nodes
}

// TestBoundVolume_KeepsItsAllocationsOnOneNode: those of one plan, those that have not claimed yet, and those
// with granted claims.
func TestBoundVolume_KeepsItsAllocationsOnOneNode(t *testing.T) {
	for _, claimed := range []bool{false, true} {
		w := newFixture(t)
		w.storage("n1", "n2", "n3")
		w.volume("db", "hostpath")
		w.job(aJob("web", structs.JobService, onOneNode("db"), count(3)))
		w.run("web")
		if claimed {
			w.claimAll("web")
		}
		nodes := w.nodesOf("web")
		if len(w.allocs("web")) != 3 || len(nodes) != 1 {
			t.Fatalf("claimed %t: %d allocations on %v", claimed, len(w.allocs("web")), nodes)
		}

		for _, job := range []string{"b", "c", "d"} {
			w.job(aJob(job, structs.JobService, onOneNode("db")))
			w.run(job)
			w.wantPlaced(job, "0@"+nodes[0])
		}
	}
}

func TestBoundVolume_WaitsForItsNode(t *testing.T) {
	w := newFixture(t)
	w.storage("n1", "n2")
	w.volume("db", "hostpath")
	w.job(aJob("web", structs.JobService, onOneNode("db"), cpu(900)))
	w.run("web")
	w.claimAll("web")
	holder := w.allocs("web")[0]

	w.job(aJob("more", structs.JobService, onOneNode("db"), cpu(200)))
	p := w.run("more")
	w.wantPlaced("more", "")
	if got := rejections(p, "g"); !strings.Contains(got, "cpu exhausted (1)") {
		t.Errorf("on a full node: %s", got)
	}

	// The node is lost and may write: the volume stays bound to it, also when the scheduler has given up the
	// allocation there.
	w.status(holder.NodeID, structs.NodeDown)
	for _, job := range []string{"more", "web", "more"} {
		p = w.run(job)
		w.wantPlaced("more", "")
		if p.Blocked == nil && p.Eval.Status != structs.EvalBlocked && job == "more" {
			t.Errorf("nothing waits: %+v", p.Eval)
		}
	}
	w.wantPlaced("web", "")
}

// TestBoundVolume_WaitsForTheNodeOfAPlacedAllocation: it has not claimed the volume yet, and will claim it
// before the second job could.
func TestBoundVolume_WaitsForTheNodeOfAPlacedAllocation(t *testing.T) {
	w := newFixture(t)
	w.storage("n1", "n2")
	w.volume("db", "hostpath")
	w.job(aJob("web", structs.JobService, onOneNode("db"), onlyOn("n1"), cpu(900)))
	w.run("web")
	w.job(aJob("more", structs.JobService, onOneNode("db"), cpu(200)))
	p := w.run("more")
	w.wantPlaced("more", "")
	if got := rejections(p, "g"); !strings.Contains(got, "cpu exhausted (1)") {
		t.Errorf("on a full node: %s", got)
	}
}

// TestBoundVolume_MovesWithTheUpdateOfItsOnlyAllocation: the plan that stops it on one node places it on the
// other, whether it has claimed the volume or not.
func TestBoundVolume_MovesWithTheUpdateOfItsOnlyAllocation(t *testing.T) {
	for _, claimed := range []bool{false, true} {
		w := newFixture(t)
		w.storage("n1", "n2")
		w.volume("db", "hostpath")
		w.job(aJob("web", structs.JobService, onOneNode("db"), onlyOn("n1"), atOnce))
		w.run("web")
		w.wantPlaced("web", "0@n1")
		if claimed {
			w.claimAll("web")
		}
		w.job(aJob("web", structs.JobService, onOneNode("db"), onlyOn("n2"), atOnce))
		w.run("web")
		w.wantPlaced("web", "0@n2")
	}
}

// TestBoundVolume_LeavesOtherModesToTheirNodes: a volume of several nodes is used on several, and needs no
// capability of the plugin for several writers of one node.
func TestBoundVolume_LeavesOtherModesToTheirNodes(t *testing.T) {
	for _, claimed := range []bool{false, true} {
		w := newFixture(t)
		w.storage("n1", "n2", "n3")
		coarse := half("hostpath", structs.CSIKindNode)
		coarse.NodeInfo.MultiWriter = false
		w.csi("n3", coarse)
		w.volume("db", "hostpath")
		for _, node := range []string{"n1", "n2", "n3"} {
			shared := volume("db", structs.CSIMultiNodeMultipleWriter, false)
			w.job(aJob("on-"+node, structs.JobService, shared, onlyOn(node)))
			w.run("on-" + node)
			w.wantPlaced("on-"+node, "0@"+node)
			if claimed {
				w.claimAll("on-" + node)
			}
		}
	}
}

func TestBoundVolume_FollowsItsLastAllocation(t *testing.T) {
	w := newFixture(t)
	w.storage("n1", "n2")
	w.volume("db", "hostpath")
	w.job(aJob("web", structs.JobService, onOneNode("db"), cpu(900)))
	w.run("web")
	w.claimAll("web")
	holder := w.allocs("web")[0]
	w.stopJob("web")

	// Its allocation ends without further action. The claim waits until then.
	w.job(aJob("more", structs.JobService, onOneNode("db"), cpu(200)))
	w.run("more")
	moved := w.allocs("more")
	if len(moved) != 1 || moved[0].NodeID == holder.NodeID {
		t.Errorf("got %s, beside a full %s", w.placed("more"), holder.NodeID)
	}
}

func TestBoundVolume_NamesTheAllocationOnTheOtherNode(t *testing.T) {
	w := newFixture(t)
	w.storage("n1", "n2")
	w.volume("db", "hostpath")
	w.job(aJob("web", structs.JobService, onOneNode("db"), onlyOn("n1")))
	w.run("web")
	w.claimAll("web")
	w.job(aJob("more", structs.JobService, onOneNode("db"), onlyOn("n2")))
	p := w.run("more")
	got := rejections(p, "g")
	if !strings.Contains(got, "constraint") {
		t.Errorf("got %s", got)
	}
	w.job(aJob("system", structs.JobSystem, onOneNode("db")))
	p = w.run("system")
	want := "csi-volume: CSI volume db: allocation " + structs.ShortID(w.allocs("web")[0].ID) +
		" (job web) on node name-n1 uses it, and access_mode single-node-multi-writer allows one node (1)"
	if got := rejections(p, "g"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	w.wantPlaced("system", "0@n1")
}

func TestBoundVolume_NeedsThePluginsCapabilityOnTheNode(t *testing.T) {
	w := newFixture(t)
	w.storage("n1", "n2")
	coarse := half("hostpath", structs.CSIKindNode)
	coarse.NodeInfo.MultiWriter = false
	w.csi("n1", coarse)
	w.volume("db", "hostpath")
	w.job(aJob("web", structs.JobService, onOneNode("db")))
	w.run("web")
	w.wantPlaced("web", "0@n2")
	w.csi("n2", coarse)
	w.job(aJob("more", structs.JobService, onOneNode("db")))
	p := w.run("more")
	if got := rejections(p, "g"); !strings.Contains(got, structs.NoMultiWriter) {
		t.Errorf("got %s", got)
	}
}

// onlyOn constrains a job to a node.
func onlyOn(node string) func(*structs.Job) {
	return func(j *structs.Job) {
		j.Constraints = append(j.Constraints, &structs.Constraint{
			LTarget: "${node.unique.id}",
			RTarget: node,
			Operand: "=",
		})
	}
}
