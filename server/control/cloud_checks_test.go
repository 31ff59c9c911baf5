package control

import (
	"slices"
	"strings"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
)

// checkAllEvery is the number of steps between two checks of all rows.
const checkAllEvery = 500

// check checks what holds after each step.
func (w *cloudWorld) check() {
	tx := w.Store.Read()
	if w.steps%checkAllEvery == 0 {
		for _, fault := range state.Check(tx) {
			w.fail("%s", fault)
		}
	}
	w.checkOrphans(tx)
}

// checkOrphans checks that a row knows each volume of the cloud, by its ID or by the name of its creation,
// and that no volume has two.
func (w *cloudWorld) checkOrphans(tx *state.ReadTx) {
	known := map[string]bool{}
	for v := range schema.Volumes.Scan(tx) {
		made := w.cloud.volumes[v.ExternalID]
		if v.ExternalID == "" {
			made = w.cloud.named[v.Name]
		}
		switch {
		case made != nil && known[made.id]:
			w.fail("two rows have %s, one of them is %s", made.name, v.ID)
		case made != nil:
			known[made.id] = true
			w.checkPlace(v, made)
		case v.State == structs.VolumeReady:
			w.fail("volume %s is %s, and the cloud does not have %q", v.ID, v.State, v.ExternalID)
		}
	}
	if len(known) == len(w.cloud.volumes) {
		return
	}
	for _, v := range w.cloud.byID() {
		if !known[v.id] {
			w.fail("nothing knows of %s, %s of the cloud", v.name, v.id)
		}
	}
}

// checkPlace checks that a volume is where its row says, and where its class allows.
func (w *cloudWorld) checkPlace(v *structs.CSIVolume, made *cloudVolume) {
	zone := made.pool.zone
	if v.State == structs.VolumeReady && !v.ReachableFrom(inZone(zone)) {
		w.fail("volume %s is in zone %s, and its row says %+v", v.ID, zone, v.Topologies)
	}
	if v.Class == "near" && zone == "c" {
		w.fail("volume %s is in zone %s, which its class does not allow", v.ID, zone)
	}
	for id := range made.writers {
		if v.AllocID != "" && id != v.AllocID {
			w.fail("volume %s of allocation %s was mounted for %s", v.ID, v.AllocID, id)
		}
	}
}

func (w *cloudWorld) volumesOf(job string) []*structs.CSIVolume {
	return slices.Collect(csi.VolumesOfJob(w.Store.Read(), structs.DefaultNamespace, job))
}

// The calm after the faults is longer than the time after which a full place is tried again.
const (
	calmRounds = 15
	calmRound  = time.Minute
)

// calmDown ends the faults, and lets everything happen that is due.
func (w *cloudWorld) calmDown() {
	w.calm = true
	for _, n := range w.sortedAgents() {
		if n.down {
			n.setDown(false)
		}
	}
	for range calmRounds {
		w.pass(calmRound)
		w.settle()
	}
}

// settle does all that can be done without more time.
func (w *cloudWorld) settle() {
	for range 1000 {
		w.steps++
		did := w.schedule()
		did = w.control(100) || did
		for _, n := range w.sortedAgents() {
			did = n.step() || did
		}
		w.check()
		if !did {
			return
		}
	}
	w.fail("the servers do not come to rest")
}

// checkEnd checks that every job runs or says why.
func (w *cloudWorld) checkEnd() {
	tx := w.Store.Read()
	for _, fault := range state.Check(tx) {
		w.fail("%s", fault)
	}
	w.checkAllocVolumes(tx)
	for _, id := range w.jobs {
		j := state.Job(tx, structs.DefaultNamespace, id)
		if j != nil && !j.Stop {
			w.checkJob(tx, j)
		}
	}
}

// checkAllocVolumes checks that no volume has outlived its allocation, and that some have lived.
func (w *cloudWorld) checkAllocVolumes(tx *state.ReadTx) {
	live := 0
	for v := range schema.Volumes.Scan(tx) {
		if v.AllocID == "" {
			continue
		}
		live++
		a := state.Alloc(tx, v.AllocID)
		if a == nil || a.ClientTerminal() {
			w.fail("volume %s is %s, and its allocation has ended", v.ID, v.State)
		}
	}
	if live == 0 {
		w.fail("no allocation has a volume of its own")
	}
}

func (w *cloudWorld) checkJob(tx *state.ReadTx, j *structs.Job) {
	g := j.TaskGroups[0]
	runs := 0
	for a := range state.LiveAllocsByJob(tx, j.Namespace, j.ID) {
		if a.ClientStatus == structs.AllocRunning {
			runs++
			continue
		}
		for _, v := range w.volumesOf(j.ID) {
			w.note("%s has %s: %s %+v", j.ID, v.ID, v.State, v.LastError)
		}
		w.fail("allocation %s on %s does not run", a.Name, a.NodeID)
	}
	if runs == g.Count {
		return
	}

	r := g.Volumes["data"]
	why := w.reasons(tx, j)
	switch {
	case why == "":
		w.fail("%s runs %d of %d allocations and does not say why", j.ID, runs, g.Count)
	case strings.Contains(why, "had no space"), r.Class == "now" && strings.Contains(why, "no space"):
		w.checkFull(j, r)
	default:
		w.note("%s waits: %s", j.ID, why)
	}
}

// reasons returns why a job waits.
func (w *cloudWorld) reasons(tx *state.ReadTx, j *structs.Job) string {
	e := state.BlockedEval(tx, j.Namespace, j.ID)
	if e == nil || e.FailedTGAllocs["g"] == nil {
		return ""
	}
	var all []string
	for _, r := range e.FailedTGAllocs["g"].Rejections {
		all = append(all, r.Reason)
	}
	return strings.Join(all, "; ")
}

// checkFull checks that a job that waits for space could have none.
func (w *cloudWorld) checkFull(j *structs.Job, r *structs.VolumeRequest) {
	kind := map[string]string{"fast": "ssd", "near": "ssd", "slow": "hdd", "now": "hdd"}[r.Class]
	for _, zone := range cloudZones {
		allowed := r.Class != "near" || zone != "c"
		p := w.cloud.pools[poolKey(kind, zone)]
		if allowed && p.free() >= r.Size {
			w.fail("%s waits for %d bytes, and zone %s has %d", j.ID, r.Size, zone, p.free())
		}
	}
}
