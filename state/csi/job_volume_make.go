package csi

import (
	"cmp"
	"slices"

	"berth/internal/mvcc"
	"berth/structs"
	"berth/structs/storage"
)

// JobVolumeRejection returns why an allocation of a job cannot have the volumes that it asks for, "" if it
// can.
func JobVolumeRejection(tx mvcc.Reader, j *structs.Job, a *structs.Allocation) string {
	for _, r := range askedByAlloc(j, a) {
		v, makes, err := FindJobVolume(tx, j, JobVolume{r, a.Index(), a.ID})
		if err == nil && makes {
			err = checkClassPlace(tx, v, a.NodeID)
		}
		if err != nil {
			return err.Error()
		}
	}
	return ""
}

// NewJobVolumes returns the volumes that are to be created for an allocation that has passed
// JobVolumeRejection.
func NewJobVolumes(tx mvcc.Reader, j *structs.Job, a *structs.Allocation) (volumes []*structs.CSIVolume) {
	for _, r := range askedByAlloc(j, a) {
		v, makes, err := FindJobVolume(tx, j, JobVolume{r, a.Index(), a.ID})
		if err == nil && makes {
			volumes = append(volumes, v)
		}
	}
	return volumes
}

// MakeJobVolumes records that the volumes of a new allocation are to be created, as far as they do not exist.
// The allocation has passed JobVolumeRejection. The error is one of the quota of the namespace.
func MakeJobVolumes(tx *mvcc.WriteTx, j *structs.Job, a *structs.Allocation, now int64) error {
	for _, r := range askedByAlloc(j, a) {
		v, makes, err := FindJobVolume(tx, j, JobVolume{r, a.Index(), a.ID})
		if err != nil {
			return err
		}
		if !makes {
			continue
		}

		placeOnNode(tx, v, a.NodeID)
		NameVolume(v, a.ID)
		err = putJobVolume(tx, v, now)
		if err != nil {
			return err
		}
	}
	return nil
}

// FirstJobVolumes returns, of each request of a job that names a class, the volume of the first allocation,
// as it would be created. It leaves out volumes that exist, and requests with a fault.
func FirstJobVolumes(tx mvcc.Reader, j *structs.Job) (volumes []*structs.CSIVolume) {
	for _, g := range j.TaskGroups {
		first := &structs.Allocation{Name: structs.AllocName(j.ID, g.Name, 0), TaskGroup: g.Name}
		volumes = append(volumes, NewJobVolumes(tx, j, first)...)
	}
	return volumes
}

// askedByAlloc returns the requests of the group of an allocation that name a class, in a fixed order.
func askedByAlloc(j *structs.Job, a *structs.Allocation) (asked []*structs.VolumeRequest) {
	for _, r := range j.Group(a.TaskGroup).Volumes {
		if storage.IsClassRequest(r) {
			asked = append(asked, r)
		}
	}
	slices.SortFunc(asked, func(a, b *structs.VolumeRequest) int { return cmp.Compare(a.Source, b.Source) })
	return asked
}

// makeImmediate creates the volumes of a request whose class has binding = "immediate". The plugin chooses
// their places, within the places that the class allows. A volume of one allocation is made with the
// allocation.
func makeImmediate(tx *mvcc.WriteTx, j *structs.Job, r jobRequest, now int64) error {
	c := Class(tx, r.Class)
	if j.StartsOthers() || c == nil || c.Binding != storage.BindImmediate ||
		r.Lifecycle == structs.LifecycleAlloc {
		return nil
	}
	for index := range r.count {
		v, makes, err := FindJobVolume(tx, j, JobVolume{r.VolumeRequest, index, ""})
		if err != nil {
			return err
		}
		if !makes {
			continue
		}
		NameVolume(v, structs.DeriveID(tx.Index, j.Namespace, v.ID))
		err = putJobVolume(tx, v, now)
		if err != nil {
			return err
		}
	}
	return nil
}
