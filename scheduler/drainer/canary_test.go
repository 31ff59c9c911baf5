package drainer

import (
	"strings"
	"testing"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/structs"
)

// canaries runs the group web with count allocations on n0, and as many canaries of the next version on n1.
func canaries(t *testing.T, count int) *fleet {
	f := newFleet(t, 1)
	f.register("web", structs.JobService, count)
	f.eligible("n0", structs.NodeIneligible)
	f.Node("n1")
	f.register("web", structs.JobService, count, func(g *structs.TaskGroup) {
		g.Update = new(structs.DefaultUpdateStrategy())
		g.Update.Canary = count
		g.Tasks[0].Env = map[string]string{"VERSION": "2"}
	})
	f.canariesAreHealthy()
	s := state.LatestDeployment(f.Store.Read(), "default", "web").Group("g")
	f.check("the canaries are not healthy", s.AwaitsPromotion() && s.HealthyAllocs == count)
	return f
}

func (f *fleet) canariesAreHealthy() {
	f.T.Helper()
	for _, a := range f.Allocs("web") {
		if a.DeploymentStatus.IsCanary() && a.ClientStatus == structs.AllocRunning {
			f.Report(a, &structs.AllocClientUpdate{
				ClientStatus:     structs.AllocRunning,
				DeploymentID:     a.DeploymentID,
				DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: new(true)},
			})
		}
	}
}

func (f *fleet) eligible(node, eligibility string) {
	f.T.Helper()
	schedtest.Do(f.Fleet, state.NodeEligibility, &structs.NodeEligibilityRequest{
		NodeID:       node,
		Eligibility:  eligibility,
		WriteOptions: f.Now(),
	})
}

// Canaries run beside the allocations of the group and take nobody's place before their promotion.
func TestDrain_CountsCanariesByThemselves(t *testing.T) {
	f := canaries(t, 3)
	f.drain("n0", structs.DrainSpec{})
	f.wantNext("of the old version", "web")
	f.drain("n1", structs.DrainSpec{})
	f.wantNext("of the old version and of the canaries", "web", "web")
	f.check("the reason is missing: "+f.reasons("n1"), strings.Contains(f.reasons("n1"),
		"web: at most 1 of the canaries of group g may be missing, and 3 of 3 are healthy"))
	f.Node("n2")
	f.until("the drains end", func() bool {
		f.canariesAreHealthy()
		old := 0
		for a := range state.LiveAllocsByJob(f.Store.Read(), "default", "web") {
			if !a.Migrate && !a.DeploymentStatus.IsCanary() && a.ClientStatus == structs.AllocRunning {
				old++
			}
		}
		f.check("more than one of the old version is missing", old >= 2)
		return !f.draining("n0") && !f.draining("n1")
	})
}

// The canaries of an earlier deployment do not come again: nobody waits for them.
func TestDrain_CountsTheCanariesOfOneDeployment(t *testing.T) {
	f := canaries(t, 3)
	f.register("web", structs.JobService, 3, func(g *structs.TaskGroup) {
		g.Update = new(structs.DefaultUpdateStrategy())
		g.Update.Canary = 1
		g.Tasks[0].Env = map[string]string{"VERSION": "3"}
	})
	f.canariesAreHealthy()
	f.check("the canaries of the second version are left", len(f.on("n1")) == 1)
	f.drain("n1", structs.DrainSpec{})
	f.wantNext("of the third version", "web")
}
