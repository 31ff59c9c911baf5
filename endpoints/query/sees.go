package query

import (
	"slices"

	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/structs/quota"
	"berth/structs/storage"
)

// seen returns a keep that also leaves out the rows that the caller must not see. A row whose place is
// unknown is left out: a list of a new kind of rows has to name it here.
func seen(q *structs.QueryOptions, keep func(row any) bool) func(row any) bool {
	if q.Sees == nil {
		return keep
	}
	return func(row any) bool {
		return sees(q, row) && (keep == nil || keep(row))
	}
}

// sees reports whether the caller may see a row. A group snapshot names each of its volumes.
func sees(q *structs.QueryOptions, row any) bool {
	g, ok := row.(*storage.GroupSnapshot)
	if ok {
		return !slices.ContainsFunc(g.VolumeIDs, func(id string) bool { return !q.Sees(g.Namespace, id) })
	}
	namespace, id, known := place(row)
	return known && q.Sees(namespace, id)
}

// SeenStubs returns the allocations of an answer that the caller may see, in their order. It may change the
// array of the list.
func SeenStubs(q *structs.QueryOptions, all []*structs.AllocListStub) []*structs.AllocListStub {
	if q.Sees == nil {
		return all
	}
	return slices.DeleteFunc(all, func(a *structs.AllocListStub) bool { return !q.Sees(a.Namespace, a.ID) })
}

// place returns the namespace and the ID by which rights name a row: a claim, a snapshot and its
// schedule have the ID of their volume.
func place(row any) (namespace, id string, known bool) {
	switch r := row.(type) {
	case *structs.Allocation:
		return r.Namespace, r.ID, true
	case *structs.CSIClaim:
		return r.Namespace, r.VolumeID, true
	case *structs.CSIVolume:
		return r.Namespace, r.ID, true
	case *storage.VolumeDrift:
		return r.Namespace, r.VolumeID, true
	case *storage.VolumeSnapshot:
		return r.Namespace, r.VolumeID, true
	case *storage.TaskGroupHostVolumeClaim:
		return r.Namespace, r.VolumeID, true
	case *storage.SnapshotSchedule:
		return r.Namespace, r.VolumeID, true
	case *structs.Deployment:
		return r.Namespace, r.ID, true
	case *structs.Evaluation:
		return r.Namespace, r.ID, true
	case *structs.Job:
		return r.Namespace, r.ID, true
	case *structs.ScalingPolicy:
		return r.Target["Namespace"], r.ID, true
	case *structs.ServiceRegistration:
		return r.Namespace, r.ID, true
	case *access.Variable:
		return r.Namespace, r.Path, true
	case *structs.ServiceListStub:
		return r.Namespace, "", true
	case *cluster.Namespace:
		return "", r.Name, true
	case *cluster.NodePool:
		return "", r.Name, true
	case *structs.Node:
		return "", r.ID, true
	case *storage.ClassStub:
		return "", r.Name, true
	case *structs.CSIPluginRow:
		return "", r.ID, true
	case *quota.Spec:
		return "", r.Name, true
	case *quota.Usage:
		return "", r.Name, true
	}
	return "", "", false
}
