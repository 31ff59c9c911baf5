package state

import (
	"iter"

	"berth/state/schema"
	"berth/structs"
)

// offeredServices returns the services of an allocation after a report of its node. An instance that has not
// changed keeps its row. An allocation that has ended offers none.
func offeredServices(
	tx *WriteTx, a *structs.Allocation, u *structs.AllocClientUpdate,
) []*structs.ServiceInstance {
	if a.ClientTerminal() {
		return nil
	}
	if structs.SameInstances(a.Services, u.Services) {
		return a.Services
	}
	var all []*structs.ServiceInstance

	// A node that names an instance twice means the first one: checkServices allows each once.
	for _, reported := range u.Services {
		if reported != nil && instanceOf(all, reported.ID) == nil {
			all = append(all, offeredService(tx, a, reported))
		}
	}
	return all
}

func offeredService(
	tx *WriteTx, a *structs.Allocation, reported *structs.ServiceInstance,
) *structs.ServiceInstance {
	i := *reported
	i.Indexes = structs.Indexes{CreateIndex: tx.Index, ModifyIndex: tx.Index}
	old := instanceOf(a.Services, i.ID)
	if old == nil {
		return &i
	}
	if old.SameAs(&i) {
		return old
	}
	i.CreateIndex = old.CreateIndex
	return &i
}

// instanceOf returns the instance with an ID, or nil.
func instanceOf(list []*structs.ServiceInstance, id string) *structs.ServiceInstance {
	for _, i := range list {
		if i.ID == id {
			return i
		}
	}
	return nil
}

// AllocsByService yields the allocations of a namespace that offer a service. With structs.AllNamespaces it
// yields the allocations of all namespaces that offer any service.
func AllocsByService(tx Reader, ns, service string) iter.Seq[*structs.Allocation] {
	if ns == structs.AllNamespaces {
		return OfferingAllocs(tx, ns)
	}
	return schema.AllocsByService.Scan(tx, ns, service)
}

// OfferingAllocs yields the allocations of a namespace, or of all with structs.AllNamespaces, that offer any
// service.
func OfferingAllocs(tx Reader, ns string) iter.Seq[*structs.Allocation] {
	rows := schema.AllocsByService.Scan(tx)
	if ns != structs.AllNamespaces {
		rows = schema.AllocsByService.Scan(tx, ns)
	}
	return func(yield func(*structs.Allocation) bool) {
		seen := map[string]bool{} // the index has a row once for each name that it offers
		for a := range rows {
			if !seen[a.ID] && !yield(a) {
				return
			}
			seen[a.ID] = true
		}
	}
}
