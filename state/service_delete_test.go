package state_test

import (
	"fmt"
	"slices"
	"testing"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// serviceFixture is a state with an allocation on each of three nodes: one that is ready, one that is down
// and one whose row is deleted. Each offers web and api.
type serviceFixture struct {
	*state.Store
	t     *testing.T
	index uint64
}

func newServiceFixture(t *testing.T) *serviceFixture {
	f := &serviceFixture{Store: state.New(), t: t}
	f.must(func(tx *mvcc.WriteTx) error {
		schema.Nodes.Put(tx, &structs.Node{ID: "ready", Status: structs.NodeReady})
		schema.Nodes.Put(tx, &structs.Node{ID: "down", Status: structs.NodeDown})
		for _, node := range []string{"ready", "down", "gone"} {
			a := &structs.Allocation{
				ID: "a-" + node, Namespace: structs.DefaultNamespace, JobID: "j", NodeID: node,
				DesiredStatus: structs.AllocDesiredRun, ClientStatus: structs.AllocRunning,
			}
			for _, name := range []string{"web", "api"} {
				a.Services = append(a.Services, &structs.ServiceInstance{ID: name + "-" + node, ServiceName: name})
			}
			schema.Allocs.Put(tx, a)
		}
		return nil
	})
	return f
}

func (f *serviceFixture) try(apply func(*mvcc.WriteTx) error) error {
	f.index++
	return f.Write(f.index, apply)
}

func (f *serviceFixture) must(apply func(*mvcc.WriteTx) error) {
	f.t.Helper()
	err := f.try(apply)
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *serviceFixture) delete(ns, service, id string) error {
	return f.try(func(tx *mvcc.WriteTx) error {
		return state.ServiceDelete(tx, &structs.ServiceDeleteRequest{
			ServiceName: service, ID: id, WriteOptions: structs.WriteOptions{Namespace: ns, Now: 77},
		})
	})
}

// offered lists the instances that others find.
func (f *serviceFixture) offered() (ids []string) {
	for a := range state.OfferingAllocs(f.Read(), structs.AllNamespaces) {
		for _, i := range a.Services {
			ids = append(ids, i.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func TestDelete_TakesAnInstanceOfALostNodeAlone(t *testing.T) {
	f := newServiceFixture(t)
	before := schema.Allocs.Get(f.Read(), "a-down")
	for _, node := range []string{"down", "gone"} {
		err := f.delete("", "web", "web-"+node)
		if err != nil {
			t.Errorf("%s: %v", node, err)
		}
	}
	if len(before.Services) != 2 {
		t.Error("the row of before has changed")
	}
	a := schema.Allocs.Get(f.Read(), "a-down")
	if a.ModifyTime != 77 || a.ModifyIndex <= before.ModifyIndex || a.ClientStatus != structs.AllocRunning {
		t.Errorf("the allocation is %+v", a)
	}
	if got := fmt.Sprint(f.offered()); got != "[api-down api-gone api-ready web-ready]" {
		t.Errorf("%s are left", got)
	}

	for _, c := range []struct {
		ns, service, id string
		kind            structs.Kind
	}{
		{"", "web", "web-ready", structs.KindPrecondition},
		{"", "web", "web-down", structs.KindNotFound},  // it is deleted
		{"", "web", "api-ready", structs.KindNotFound}, // of another service
		{"", "none", "web-ready", structs.KindNotFound},
		{"prod", "api", "api-down", structs.KindNotFound},
		{structs.AllNamespaces, "api", "api-down", structs.KindNotFound},
	} {
		err := f.delete(c.ns, c.service, c.id)
		if !structs.IsKind(err, c.kind) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
	if got := fmt.Sprint(f.offered()); got != "[api-down api-gone api-ready web-ready]" {
		t.Errorf("%s are left after rejections", got)
	}
}
