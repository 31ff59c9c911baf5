package jobvolumes

import (
	"cmp"
	"slices"

	"berth/internal/mvcc"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// Rejection returns why an allocation of a job cannot have the volumes that it asks for, "" if it can.
func Rejection(tx mvcc.Reader, j *structs.Job, a *structs.Allocation) string {
	for _, r := range askedBy(j, a) {
		v, makes, err := Find(tx, j, Of{r, a.Index(), a.ID})
		if err == nil && makes {
			err = checkPlace(tx, v, a.NodeID)
		}
		if err != nil {
			return err.Error()
		}
	}
	return ""
}

// New returns the volumes that are to be created for an allocation that has passed Rejection.
func New(tx mvcc.Reader, j *structs.Job, a *structs.Allocation) (volumes []*structs.CSIVolume) {
	for _, r := range askedBy(j, a) {
		v, makes, err := Find(tx, j, Of{r, a.Index(), a.ID})
		if err == nil && makes {
			volumes = append(volumes, v)
		}
	}
	return volumes
}

// Make records that the volumes of a new allocation are to be created, as far as they do not exist. The
// allocation has passed Rejection. The error is one of the quota of the namespace.
func Make(tx *mvcc.WriteTx, j *structs.Job, a *structs.Allocation, now int64) error {
	for _, r := range askedBy(j, a) {
		v, makes, err := Find(tx, j, Of{r, a.Index(), a.ID})
		if err != nil {
			return err
		}
		if !makes {
			continue
		}

		placeOn(tx, v, a.NodeID)
		csi.NameVolume(v, a.ID)
		err = put(tx, v, now)
		if err != nil {
			return err
		}
	}
	return nil
}

// Firsts returns, of each request of a job that names a class, the volume of the first allocation, as it
// would be created. It leaves out volumes that exist, and requests with a fault.
func Firsts(tx mvcc.Reader, j *structs.Job) (volumes []*structs.CSIVolume) {
	for _, g := range j.TaskGroups {
		first := &structs.Allocation{Name: structs.AllocName(j.ID, g.Name, 0), TaskGroup: g.Name}
		volumes = append(volumes, New(tx, j, first)...)
	}
	return volumes
}

// askedBy returns the requests of the group of an allocation that name a class, in a fixed order.
func askedBy(j *structs.Job, a *structs.Allocation) (asked []*structs.VolumeRequest) {
	for _, r := range j.Group(a.TaskGroup).Volumes {
		if storage.IsClassRequest(r) {
			asked = append(asked, r)
		}
	}
	slices.SortFunc(asked, func(a, b *structs.VolumeRequest) int { return cmp.Compare(a.Source, b.Source) })
	return asked
}

// makeImmediate creates the volumes of a request whose class has binding = "immediate". The plugin chooses
// their places, within those that the class allows. A volume of one allocation is made with the allocation.
func makeImmediate(tx *mvcc.WriteTx, j *structs.Job, r request, now int64) error {
	c := csi.Class(tx, r.Class)
	if j.StartsOthers() || c == nil || c.Binding != storage.BindImmediate ||
		r.Lifecycle == structs.LifecycleAlloc {
		return nil
	}
	for index := range r.count {
		v, makes, err := Find(tx, j, Of{r.VolumeRequest, index, ""})
		if err != nil {
			return err
		}
		if !makes {
			continue
		}
		csi.NameVolume(v, structs.DeriveID(tx.Index, j.Namespace, v.ID))
		err = put(tx, v, now)
		if err != nil {
			return err
		}
	}
	return nil
}
