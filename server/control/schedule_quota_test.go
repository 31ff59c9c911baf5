package control

import (
	"slices"
	"testing"
	"testing/synctest"

	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/quota"
)

// bounded gives the default namespace the quota team, or changes its bounds.
func (w *testEnv) bounded(b quota.Bounds) {
	w.t.Helper()
	put(w, fsm.QuotaPut, &quota.SpecPutRequest{Quota: &quota.Spec{
		Name:   "team",
		Limits: []*quota.Limit{{Region: "global", RegionLimit: &b}},
	}})
	w.nameQuota("team")
}

func (w *testEnv) nameQuota(name string) {
	w.t.Helper()
	put(w, fsm.NamespaceApply, &cluster.NamespaceApplyRequest{
		Definition: &cluster.Namespace{Name: structs.DefaultNamespace, Quota: name},
	})
}

// A job that only the quota blocks names the quota with its figures, and runs as soon as the quota has place:
// no other event makes its evaluation pending.
func TestSchedule_PlacesAJobWhenItsQuotaHasPlace(t *testing.T) {
	for name, free := range map[string]func(w *testEnv){
		"an allocation of the namespace ends": func(w *testEnv) {
			put(w, fsm.JobDeregister, &structs.JobDeregisterRequest{
				JobID: "first",
				Eval:  &structs.Evaluation{ID: structs.NewID()},
			})
		},
		"the bound is raised":               func(w *testEnv) { w.bounded(quota.Bounds{CPU: 400}) },
		"the bound is taken away":           func(w *testEnv) { w.bounded(quota.Bounds{}) },
		"the namespace leaves the quota":    func(w *testEnv) { w.nameQuota("") },
		"a node comes, and the bound stays": nil,
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				defer w.runLoop("schedule")()
				w.bounded(quota.Bounds{CPU: 300})
				w.addSizedNode("n0", 10, nil)
				w.addJob("first", 1, 200)
				synctest.Wait()
				w.addJob("second", 1, 200)
				synctest.Wait()
				const reason = "quota team: cpu: 200 MHz used, 200 MHz asked, 300 MHz allowed"
				w.wantBlockedByQuota("second", reason)
				if free == nil {
					w.addSizedNode("n1", 10, nil)
					synctest.Wait()
					w.wantBlockedByQuota("second", reason)
					return
				}
				free(w)
				synctest.Wait()
				ofSecond := func(a *structs.Allocation) bool { return a.JobID == "second" }
				if !slices.ContainsFunc(w.runningAllocs(), ofSecond) {
					t.Error("the job has no allocation")
				}
				if w.checkIdle("after") != 0 {
					t.Error("an evaluation still waits")
				}
			})
		})
	}
}

// wantBlockedByQuota checks that a job has no allocation, and that its blocked evaluation names the quota.
func (w *testEnv) wantBlockedByQuota(job, reason string) {
	w.t.Helper()
	for range state.AllocsByJob(w.Store.Read(), structs.DefaultNamespace, job) {
		w.t.Error("the quota has no place, and the job has an allocation")
	}
	e := state.BlockedEval(w.Store.Read(), structs.DefaultNamespace, job)
	if e == nil || e.QuotaLimitReached != "team" || e.StatusDescription != "waiting for quota team" {
		w.t.Fatalf("the evaluation of the job is %+v", e)
	}
	m := e.FailedTGAllocs["g"]
	if m == nil || len(m.Rejections) != 1 || m.Rejections[0].Filter != "quota" ||
		m.Rejections[0].Reason != reason || !slices.Equal(m.QuotaExhausted, []string{reason}) {
		w.t.Errorf("the group is rejected by %+v", m)
	}
}
