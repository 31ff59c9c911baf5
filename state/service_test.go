package state_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// offer reports that an allocation runs and offers the services with these names.
func (w *fixture) offer(node, alloc string, names ...string) {
	w.T.Helper()
	u := &structs.AllocClientUpdate{ID: alloc, ClientStatus: structs.AllocRunning}
	for _, name := range names {
		u.Services = append(u.Services, anOffer(alloc, name))
	}
	w.report(node, u)
}

func (w *fixture) report(node string, u *structs.AllocClientUpdate) {
	w.T.Helper()
	do(w, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		NodeID:       node,
		SecretID:     "secret-" + node,
		Allocs:       []*structs.AllocClientUpdate{u},
		WriteOptions: w.Now(),
	})
}

func anOffer(alloc, name string) *structs.ServiceInstance {
	return &structs.ServiceInstance{ID: alloc + "-" + name, ServiceName: name, Address: "10.0.0.1", Port: 80}
}

// offering returns the IDs of the allocations in the index of a service.
func (w *fixture) offering(service string) (ids []string) {
	for a := range state.AllocsByService(w.Store.Read(), structs.DefaultNamespace, service) {
		ids = append(ids, a.ID)
	}
	return ids
}

// wantOffers checks the instances of an allocation: each as ID@created/modified.
func (w *fixture) wantOffers(alloc string, want ...string) {
	w.T.Helper()
	var got []string
	for _, i := range state.Alloc(w.Store.Read(), alloc).Services {
		got = append(got, fmt.Sprintf("%s@%d/%d", i.ID, i.CreateIndex, i.ModifyIndex))
	}
	if !slices.Equal(got, want) {
		w.T.Errorf("%s offers %v, want %v", alloc, got, want)
	}
}

func at(id string, created, modified uint64) string {
	return fmt.Sprintf("%s@%d/%d", id, created, modified)
}

func TestServices_FollowTheReports(t *testing.T) {
	w := threeNodes(t, false)
	w.offer("n1", "a1", "web", "api")
	first := w.Index
	w.wantOffers("a1", at("a1-web", first, first), at("a1-api", first, first))

	changed := anOffer("a1", "api")
	changed.Status = structs.CheckFailing
	w.report("n1", &structs.AllocClientUpdate{
		ID: "a1",
		Services: []*structs.ServiceInstance{
			anOffer("a1", "web"), changed, anOffer("a1", "new"), nil, anOffer("a1", "web"),
		},
	})
	second := w.Index
	w.wantOffers("a1", at("a1-web", first, first), at("a1-api", first, second), at("a1-new", second, second))

	w.report("n1", &structs.AllocClientUpdate{
		ID:       "a1",
		Services: []*structs.ServiceInstance{anOffer("a1", "web"), changed, anOffer("a1", "new")},
	})
	if row := state.Alloc(w.Store.Read(), "a1"); row.ModifyIndex != second {
		t.Errorf("an unchanged report changes the row at %d", row.ModifyIndex)
	}
	w.offer("n2", "a2", "web")
	if got := w.offering("web"); !slices.Equal(got, []string{"a1", "a2"}) {
		t.Errorf("%v offer web", got)
	}
	w.offer("n1", "a1")
	w.wantOffers("a1")
	if got := w.offering("web"); !slices.Equal(got, []string{"a2"}) {
		t.Errorf("%v offer web", got)
	}
	// the node of another allocation cannot report it
	w.offer("n1", "a2", "stolen")
	w.wantOffers("a2", at("a2-web", second+2, second+2))
}

// The services of an allocation end with it, and nobody finds them once it is to stop.
func TestServices_GoWithTheAllocation(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*fixture)
		kept bool // the node has not reported the end
	}{
		"complete": {func(w *fixture) { w.Client("n1", "a1", structs.AllocComplete) }, false},
		"failed":   {func(w *fixture) { w.Client("n1", "a1", structs.AllocFailed) }, false},
		"to stop":  {func(w *fixture) { w.Stop("a1", "") }, true},
		"lost":     {func(w *fixture) { w.Stop("a1", structs.AllocLost) }, false},
		"stop on a node that is down": {func(w *fixture) {
			w.Stop("a1", "")
			w.Status(structs.NodeDown, "n1")
		}, false},
		"an end with services": {func(w *fixture) {
			w.report("n1", &structs.AllocClientUpdate{
				ID:           "a1",
				ClientStatus: structs.AllocFailed,
				Services:     []*structs.ServiceInstance{anOffer("a1", "web")},
			})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := threeNodes(t, false)
			w.offer("n1", "a1", "web")
			c.end(w)
			if got := w.offering("web"); len(got) > 0 {
				t.Errorf("%v offer web", got)
			}
			if n := len(state.Alloc(w.Store.Read(), "a1").Services); n > 0 != c.kept {
				t.Errorf("the row has %d services", n)
			}
			w.offer("n1", "a1", "web")
			if got := w.offering("web"); len(got) > 0 {
				t.Errorf("after a late report %v offer web", got)
			}
		})
	}
}

func TestServices_SurviveAnUpdateInPlace(t *testing.T) {
	w := threeNodes(t, false)
	w.offer("n1", "a1", "web")
	offered := w.Index
	j := aJob("j", structs.JobService)
	j.Priority = 77
	j = w.Job(j)
	p := w.Plan(j)
	p.Update = []*structs.PlanUpdate{{AllocID: "a1", SetJobVersion: true, JobVersion: j.Version}}
	do(w, state.PlanApply, p)
	if a := state.Alloc(w.Store.Read(), "a1"); a.JobVersion != j.Version || j.Version == 0 {
		t.Fatalf("version %d of the job, %d of the allocation", j.Version, a.JobVersion)
	}
	w.wantOffers("a1", at("a1-web", offered, offered))
	if got := w.offering("web"); len(got) != 1 {
		t.Errorf("%v offer web", got)
	}
}

// Only its node says what an allocation offers.
func TestServices_OfAPlanAreDropped(t *testing.T) {
	w := threeNodes(t, false)
	j := state.Job(w.Store.Read(), structs.DefaultNamespace, "j")
	p := w.PlanOf(j, "c1")
	p.Place[0].NodeID = "n1"
	p.Place[0].Services = []*structs.ServiceInstance{anOffer("c1", "web")}
	do(w, state.PlanApply, p)
	w.wantOffers("c1")
}

func TestOfferingAllocs_YieldsEachOnce(t *testing.T) {
	w := threeNodes(t, false)
	w.offer("n1", "a1", "web", "api", "web-2")
	w.offer("n2", "a2", "api")
	for _, ns := range []string{structs.DefaultNamespace, structs.AllNamespaces} {
		var ids []string
		for a := range state.OfferingAllocs(w.Store.Read(), ns) {
			ids = append(ids, a.ID)
		}
		slices.Sort(ids)
		if !slices.Equal(ids, []string{"a1", "a2"}) {
			t.Errorf("in %s: %v", ns, ids)
		}
		for range state.AllocsByService(w.Store.Read(), ns, "api") {
			break // an early end is no fault
		}
	}
	for a := range state.OfferingAllocs(w.Store.Read(), "other") {
		t.Errorf("in another namespace: %s", a.ID)
	}
}

// A reader of a service wakes when an instance comes, and when one goes.
func TestAllocsByService_WakesItsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for service, want := range map[string]bool{"web": true, "api": true} {
			w := threeNodes(t, false)
			w.offer("n1", "a1", "web")
			read := func(tx *state.ReadTx) {
				for range state.AllocsByService(tx, structs.DefaultNamespace, service) {
				}
			}
			change := func(tx *state.WriteTx) error {
				return state.AllocsClientUpdate(tx, &structs.AllocsClientUpdateRequest{
					Allocs: []*structs.AllocClientUpdate{{
						ID:       "a1",
						Services: []*structs.ServiceInstance{anOffer("a1", "api")},
					}},
				})
			}
			if got := wakesReader(w.Store, w.Store.Read(), read, change); got != want {
				t.Errorf("the reader of %s wakes: %v", service, got)
			}
		}
	})
}

func TestCheck_FindsServicesThatAreNotThoseOfTheReport(t *testing.T) {
	for name, edit := range map[string]func(*structs.Allocation){
		"ended":            func(a *structs.Allocation) { a.ClientStatus = structs.AllocComplete },
		"twice":            func(a *structs.Allocation) { a.Services = append(a.Services, a.Services[0]) },
		"newer":            func(a *structs.Allocation) { a.Services[0].ModifyIndex = 1000 },
		"without an index": func(a *structs.Allocation) { a.Services[0].CreateIndex = 0 },
	} {
		w := threeNodes(t, false)
		w.offer("n1", "a1", "web")
		w.Index++
		err := w.Store.Write(w.Index, func(tx *state.WriteTx) error {
			a := state.Alloc(tx.ReadTx, "a1").Copy()
			a.Services = []*structs.ServiceInstance{new(*a.Services[0])}
			edit(a)
			schema.Allocs.Put(tx, a)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(state.Check(w.Store.Read())) == 0 {
			t.Errorf("%s: no fault", name)
		}
	}
}

// The node of a promoted canary learns of the promotion, because it changes the tags of the services.
func TestDeployment_TellsTheNodeOfAPromotedService(t *testing.T) {
	for name, services := range map[string][]*structs.Service{"some": {{Name: "web"}}, "none": nil} {
		w := newFixture(t)
		w.Node("n1")
		j := aJob("j", structs.JobService)
		j.TaskGroups[0].Services = services
		w.Job(j)
		w.deployment("d", "j", &structs.DeploymentState{DesiredTotal: 2, DesiredCanaries: 1})
		w.deployed("canary", "j", "d", true)
		w.reportHealth("canary", "d", true)
		before := state.Alloc(w.Store.Read(), "canary").AllocModifyIndex
		do(w, state.DeploymentPromote, &structs.DeploymentPromoteRequest{
			DeploymentID: "d",
			All:          true,
			WriteOptions: w.Now(),
		})
		a := state.Alloc(w.Store.Read(), "canary")
		if a.DeploymentStatus.IsCanary() || a.AllocModifyIndex > before != (len(services) > 0) {
			t.Errorf("%s: canary %v, changed at %d, before at %d",
				name, a.DeploymentStatus.IsCanary(), a.AllocModifyIndex, before)
		}
	}
}
