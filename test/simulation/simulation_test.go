package simulation

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/invariant"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	usually   = 3 * time.Second // after which no run begins
	steps     = 80              // random operations of a run
	calmAfter = 40 * time.Minute
)

// TestServers_KeepTheInvariants makes random changes to clusters, and checks all rules. Usually the seeds of
// its runs are 1, 2 and so on, so that only a change of the code makes it fail; how many there are depends on
// the machine. BERTH_TEST_LONG is the time for runs with random seeds, and BERTH_TEST_SEED one seed.
func TestServers_KeepTheInvariants(t *testing.T) {
	if given := os.Getenv("BERTH_TEST_SEED"); given != "" {
		seed, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			t.Fatalf("BERTH_TEST_SEED: %v", err)
		}
		simulate(t, seed)
		return
	}
	seed := uint64(0)
	next := func() uint64 {
		seed++
		return seed
	}
	lasts := usually
	if text := os.Getenv("BERTH_TEST_LONG"); text != "" {
		var err error
		lasts, err = time.ParseDuration(text)
		if err != nil {
			t.Fatalf("BERTH_TEST_LONG: %v", err)
		}
		next = rand.Uint64
	}
	for end := time.Now().Add(lasts); time.Now().Before(end) && !t.Failed(); {
		simulate(t, next())
	}
}

// simulate is one run.
func simulate(t *testing.T, seed uint64) {
	t.Run(fmt.Sprint(seed), func(t *testing.T) {
		began := time.Now()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			defer w.report()
			defer w.close()
			w.begin()
			for range steps {
				w.step()
				w.checkSettled()
				if w.failed() {
					return
				}
			}
			w.calmDown()
		})
		t.Logf("BERTH_TEST_SEED=%d, %s", seed, time.Since(began).Round(time.Millisecond))
	})
}

// begin makes the nodes, the namespaces and the volumes.
func (w *world) begin() {
	for i := range 4 + w.IntN(3) {
		w.addNode(w.randomNode(i))
	}
	w.beginQuotas()
	w.registerVolumes()
	w.kept.begin()
	w.register(thePlugin(structs.JobDefaultPriority))
	for range 6 {
		w.registerJob()
	}
	time.Sleep(10 * time.Second)
}

// calmDown lets everything answer and checks that all ends: with the nodes that are there, with capacity for
// everything, and with all jobs stopped.
func (w *world) calmDown() {
	w.record("calm")
	w.friendly.Store(true)
	for _, n := range w.nodes {
		n.cut(false)
	}
	// Without it a node may have no capacity for its plugin, which is needed to unmount.
	w.setConfig(cluster.SchedulerConfiguration{
		PreemptionConfig: cluster.PreemptionConfig{SystemSchedulerEnabled: true},
	})
	w.register(thePlugin(90))
	w.stopPeriodic()
	w.checkCalm("with the same nodes")
	if w.failed() {
		return
	}
	w.record("more nodes")
	for _, dc := range []string{"dc1", "dc2"} {
		for _, pool := range []string{structs.DefaultNodePool, "special"} {
			for _, rack := range []string{"r1", "r2"} {
				w.addNode(w.largeNode(len(w.nodes), dc, pool, rack))
			}
		}
	}
	w.liftQuotas()
	w.checkCalm("with more nodes", invariant.Ample...)
	if w.failed() {
		return
	}
	w.record("stop all jobs")
	for j := range state.JobsFrom(w.store.Read(), structs.AllNamespaces, "", state.Page{}) {
		if j.ID != pluginJob {
			w.stop(j)
		}
	}
	w.checkCalm("without jobs")
	w.checkEmpty()
	w.checkOld()
	w.checkUsed()
}

// stopPeriodic ends the schedules, so that nothing begins any more.
func (w *world) stopPeriodic() {
	for j := range state.PeriodicJobs(w.store.Read()) {
		w.stop(j)
	}
}

func (w *world) stop(j *structs.Job) {
	_ = operate(w, structs.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        j.ID,
		WriteOptions: structs.WriteOptions{Namespace: j.Namespace},
	})
}

// checkCalm lets time pass while an operator resumes and promotes deployments, and checks all rules.
func (w *world) checkCalm(when string, more ...invariant.Rule) {
	rules := slices.Concat(invariant.Calm, more)
	for end := time.Now().Add(calmAfter); time.Now().Before(end); {
		time.Sleep(2 * time.Minute)
		w.checkSettled()
		if w.failed() {
			return
		}
		for _, n := range w.nodes {
			if row := state.Node(w.store.Read(), n.id); row != nil && !row.Drain && !row.Ready() {
				w.setEligibility(n, structs.NodeEligible) // what ended there needs its plugin
			}
		}
		for d := range state.ActiveDeployments(w.store.Read()) {
			switch {
			case d.Status == structs.DeploymentPaused:
				w.pause(d, false)
			case d.AwaitsPromotion():
				w.promote(d)
			}
		}
		tx := w.store.Read()
		if !invariant.Busy(tx) && len(invariant.Broken(tx, invariant.Settled, rules)) == 0 {
			return
		}
	}
	w.check(when, invariant.Settled, rules)
}

// checkEmpty checks that nothing runs, and that nothing is mounted or attached.
func (w *world) checkEmpty() {
	for _, left := range w.storage.left() {
		w.fail("without jobs: volume %s", left)
	}
	v := invariant.NewView(w.store.Read())
	for _, all := range v.OnNode {
		for _, a := range all {
			if a.JobID != pluginJob {
				w.fail("without jobs: allocation %s has not ended", a.Name)
			}
		}
	}
	for _, c := range v.Claims {
		w.fail("without jobs: volume %s is claimed", c.VolumeID)
	}
}
