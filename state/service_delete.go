package state

import (
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// ServiceDelete deletes an instance of a service, which is a part of the row of its allocation, and whose
// node is down or gone: no report of its end comes. A plan would mark
// the allocation as lost, but while evaluations are paused there is none. If the node comes back it reports
// the instance again. The node of another one would report it again at once, so that is a failed
// precondition.
func ServiceDelete(tx *mvcc.WriteTx, p *structs.ServiceDeleteRequest) error {
	ns := p.RequestNamespace()
	has := func(i *structs.ServiceInstance) bool { return i.ServiceName == p.ServiceName && i.ID == p.ID }
	for a := range schema.AllocsByService.Scan(tx, ns, p.ServiceName) {
		if !slices.ContainsFunc(a.Services, has) {
			continue
		}
		if !schema.Nodes.Get(tx, a.NodeID).Lost() {
			return structs.Preconditionf("the instance %s runs on node %s, which would register it again: stop its "+
				"allocation with `berth alloc stop %s`, or register the job without the service",
				structs.Cut(p.ID, structs.MaxQuoted), a.NodeID, a.ID)
		}

		changed := a.Copy()
		changed.Services = slices.DeleteFunc(slices.Clone(a.Services), has)
		changed.ModifyTime = p.Now
		schema.Allocs.Put(tx, changed)
		return nil
	}
	return structs.NotFoundf("service %q in namespace %q has no instance %q: `berth service info -json` lists them",
		structs.Cut(p.ServiceName, structs.MaxQuoted), ns, structs.Cut(p.ID, structs.MaxQuoted))
}
