package simulate

import (
	"context"
	"fmt"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// calmDown ends all faults and checks that nothing stays stuck. Operators confirm the machines that are gone.
func (w *world) calmDown(ctx context.Context) {
	w.note("quiet")
	w.quiet = true
	w.device.mode = deviceWorks
	for _, n := range w.nodes {
		n.cutOut = false
		n.cutIn = false
		n.slow = 0
		if c := n.copy; c != nil {
			c.until = min(c.until, w.now+time.Minute)
		}
		n.resume()
		n.powerOn()
		if n.on && n.agent == 0 {
			n.inKernel(time.Second, n.startAgent)
		}
	}
	var stuck []string
	for end := w.now + quietFor; w.now < end; {
		w.pass(ctx, time.Minute)
		for _, n := range w.nodes {
			if n.dead && w.holdsClaims(n) {
				w.confirmLost(n)
			}
		}
		stuck = w.stuck()
		if len(stuck) == 0 {
			break
		}
	}
	for _, text := range stuck {
		w.violate(nothingStuck, "%s", text)
	}
	w.checkRows()
}

func (w *world) holdsClaims(n *node) bool {
	for range csi.ClaimsByNode(w.store.Read(), n.id) {
		return true
	}
	return false
}

// stuck describes all that is not as it should be in the end.
func (w *world) stuck() (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	tx := w.store.Read()
	wanted, run := map[string]int{}, map[string]int{} // tasks, by volume: it has one task at a time
	for _, id := range w.jobs {
		row := state.Job(tx, structs.DefaultNamespace, id)
		if row != nil && !row.Stop {
			wanted[volumeOf(id)] = 1
		}
		run[volumeOf(id)] += w.running(id)
	}
	for _, id := range w.jobs {
		v := volumeOf(id)
		if id == v && run[v] != wanted[v] {
			add("the jobs of %s have %d tasks that run, want %d", v, run[v], wanted[v])
		}
	}
	for _, n := range w.nodes {
		row := state.Node(tx, n.id)
		switch {
		case n.dead && w.holdsClaims(n):
			add("%s is gone and has a claim", n.id)
		case !n.dead && (row == nil || row.Status != structs.NodeReady):
			add("%s is not ready", n.id)
		}
	}
	for e := range state.ReadyEvals(tx) {
		add("evaluation %s of job %s waits", structs.ShortID(e.ID), e.JobID)
	}
	for a := range csi.UnsettledAttachments(tx) {
		add("volume %s is %s at %s", a.VolumeID, a.State, a.NodeID)
	}
	return all
}

// running counts the tasks of a job that run, with their volume.
func (w *world) running(job string) (count int) {
	for _, n := range w.nodes {
		for _, r := range n.sortedRuns() {
			if n.on && r.job == job && r.stage == running {
				count++
			}
		}
	}
	return count
}
