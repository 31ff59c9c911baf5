package drainer

import (
	"testing"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/structs"
)

// heldVersion registers the next version of web, on distinct hosts and with a number of canaries.
func (f *fleet) heldVersion(version string, canary int) {
	f.T.Helper()
	f.register("web", structs.JobService, 2, func(g *structs.TaskGroup) {
		g.Constraints = []*structs.Constraint{{Operand: "distinct_hosts"}}
		g.Update = new(structs.DefaultUpdateStrategy())
		g.Update.Canary = canary
		g.Tasks[0].Env = map[string]string{"VERSION": version}
	})
}

func (f *fleet) deployment(status string) {
	f.T.Helper()
	p := &structs.DeploymentStatusRequest{WriteOptions: f.Now()}
	p.DeploymentID = state.LatestDeployment(f.Store.Read(), "default", "web").ID
	p.Status = status
	schedtest.Do(f.Fleet, state.DeploymentStatus, p)
	f.tick()
}

// The allocation of the first version is lost. The scheduler places successors only in the second version
// while canaries of the third await their promotion, so a drain does not wait for one of the first.
func TestDrain_DoesNotWaitForAForgottenVersion(t *testing.T) {
	f := newFleet(t, 2)
	f.heldVersion("1", 0)
	f.heldVersion("2", 0)
	lost := ""
	for _, a := range f.Allocs("web") {
		if a.JobVersion == 0 {
			lost = a.NodeID
		}
	}
	f.check("both have the second version", lost != "")
	schedtest.Do(f.Fleet, state.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{lost},
		Status:       structs.NodeDown,
		WriteOptions: f.Now(),
	})
	f.tick()
	f.heldVersion("3", 1)
	f.check("more than one is left", len(f.Allocs("web")) == 1)
	left := f.Allocs("web")[0].NodeID
	f.Node("n2")
	f.Node("n3")
	f.tick()
	f.drain(left, structs.DrainSpec{})
	f.until("the drain ends", func() bool { return !f.draining(left) })
	f.check("the second version has left, or there is no canary", len(f.Allocs("web")) == 2)
}

// While a deployment is paused no canary comes, so a drain does not wait for one.
func TestDrain_DoesNotWaitForCanariesOfAPausedDeployment(t *testing.T) {
	f := canaries(t, 2)
	f.eligible("n1", structs.NodeIneligible)
	for _, a := range f.Allocs("web") {
		if a.NodeID == "n1" && a.Index() == 0 {
			schedtest.Do(f.Fleet, state.AllocsMigrate, &structs.AllocsMigrateRequest{
				AllocIDs:     []string{a.ID},
				WriteOptions: f.Now(),
			})
		}
	}
	f.tick()
	f.deployment(structs.DeploymentPaused)
	f.Node("n2")
	f.tick()
	f.check("both canaries run", len(f.on("n1")) == 1 && len(f.on("n2")) == 0)
	f.drain("n1", structs.DrainSpec{})
	f.until("the drain ends", func() bool { return !f.draining("n1") })
	f.check("the canary is lost", len(f.on("n2")) == 1)
}
