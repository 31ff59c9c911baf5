package csi

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/internal/mvcc"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/storage"
)

// ownVolumesOfJob yields the volumes of a job itself: those without an allocation of their own.
func ownVolumesOfJob(tx mvcc.Reader, ns, jobID string) iter.Seq[*structs.CSIVolume] {
	return schema.Filter(VolumesOfJob(tx, ns, jobID), func(v *structs.CSIVolume) bool { return v.AllocID == "" })
}

// VolumesOfJob yields the volumes that a job has asked for, also for its allocations.
func VolumesOfJob(tx mvcc.Reader, ns, jobID string) iter.Seq[*structs.CSIVolume] {
	return schema.VolumesByJob.Scan(tx, ns, jobID)
}

// KeepsJob reports whether the row of a job that is stopped has to stay, because volumes of it are deleted
// only once somebody purges the job, or because it has claims on sticky host volumes.
func KeepsJob(tx mvcc.Reader, j *structs.Job) bool {
	if !j.Stop {
		return false
	}
	if hasHostClaims(tx, j.Namespace, j.ID) {
		return true
	}
	for v := range ownVolumesOfJob(tx, j.Namespace, j.ID) {
		if v.Reclaim == storage.ReclaimDelete && !v.Marked() {
			return true
		}
	}
	return false
}

// jobRequest is a volume block that names a class.
type jobRequest struct {
	*structs.VolumeRequest
	count int // of its volumes
}

// jobRequestsOf returns the volume blocks of a job that name a class, by their Source. The job may be nil.
func jobRequestsOf(j *structs.Job) map[string]jobRequest {
	var all map[string]jobRequest
	if j == nil {
		return nil
	}
	for _, g := range j.TaskGroups {
		for _, r := range g.Volumes {
			if !storage.IsClassRequest(r) {
				continue
			}
			if all == nil {
				all = map[string]jobRequest{}
			}
			count := 1
			if r.PerAlloc {
				count = g.Count
			}
			all[r.Source] = jobRequest{r, count}
		}
	}
	return all
}

// jobRequestOf returns the request for a volume of the job, without a VolumeRequest if the job does not ask
// for it any more, or asks for one of each allocation now. index is the ID's, -1 for none.
func jobRequestOf(requests map[string]jobRequest, v *structs.CSIVolume) (r jobRequest, index int) {
	// A Source has no brackets.
	source, text, _ := strings.Cut(strings.TrimSuffix(v.ID, "]"), "[")
	index, err := strconv.Atoi(text)
	if err != nil {
		index = -1
	}
	r = requests[source]
	if v.AllocID != "" || r.VolumeRequest != nil && r.Lifecycle == structs.LifecycleAlloc {
		return jobRequest{}, index
	}
	return r, index
}

// CheckJobVolumes returns an error if a job cannot have the volumes that it asks for: a class does not exist,
// a volume belongs to another job or has another class, or a size is smaller than a volume's.
func CheckJobVolumes(tx mvcc.Reader, j *structs.Job) error {
	return checkJobVolumesAgainst(tx, j, schema.Jobs.Get(tx, j.Namespace, j.ID))
}

// CheckJobVolumesReturn is CheckJobVolumes for a version to which the job goes back by itself. A size below a
// volume's is no fault then: the volume keeps its size, as one that has grown by itself.
func CheckJobVolumesReturn(tx mvcc.Reader, j *structs.Job) error {
	return checkJobVolumesAgainst(tx, j, j)
}

// checkJobVolumesAgainst is CheckJobVolumes. The size of a volume is not checked if former asks for the same
// size.
func checkJobVolumesAgainst(tx mvcc.Reader, j, former *structs.Job) error {
	requests := jobRequestsOf(j)
	if requests == nil {
		return nil
	}

	err := checkJobBlocks(j)
	if err != nil {
		return err
	}
	for _, source := range slices.Sorted(maps.Keys(requests)) {
		r := requests[source]
		for index := range r.count {
			_, _, err := FindJobVolume(tx, j, JobVolume{r.VolumeRequest, index, ""})
			if err != nil {
				return err
			}
		}
	}

	stored := jobRequestsOf(former)
	for v := range ownVolumesOfJob(tx, j.Namespace, j.ID) {
		r, index := jobRequestOf(requests, v)
		if r.VolumeRequest == nil {
			continue
		}
		former, _ := jobRequestOf(stored, v)
		err := checkAgain(v, j, jobRequestAgain{r.VolumeRequest, former.VolumeRequest, index >= 0})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkJobBlocks returns an error if two blocks of different groups name one volume.
func checkJobBlocks(j *structs.Job) error {
	of := map[string]string{} // group by Source
	for _, g := range j.TaskGroups {
		for _, r := range g.Volumes {
			if !storage.IsClassRequest(r) {
				continue
			}
			if other, found := of[r.Source]; found && other != g.Name {
				return structs.Conflictf("volume blocks of the groups %q and %q both ask for the volume %q; they need other names", other, g.Name, r.Source)
			}
			of[r.Source] = g.Name
		}
	}
	return nil
}

// jobRequestAgain is a request for a volume that the job has from an earlier one.
type jobRequestAgain struct {
	*structs.VolumeRequest
	former   *structs.VolumeRequest // of the stored job, nil if it does not ask for the volume
	perAlloc bool                   // of the volume
}

func checkAgain(v *structs.CSIVolume, j *structs.Job, r jobRequestAgain) error {
	switch {
	case NeverCreated(v):
		return nil
	case r.PerAlloc != r.perAlloc:
		return structs.Conflictf("volume %q was made with per_alloc = %t, which cannot change: give the block "+
			"another name, or delete the volume", v.ID, r.perAlloc)

	// The volume may have grown without its job, which is not to be rejected for that.
	case r.former != nil && r.Size == r.former.Size:
	case r.Size < v.RequestedCapacityMin:
		return structs.Conflictf("volume %q has %s, and the job asks for %s; a volume can only grow: ask for as "+
			"much, or give the block another name", v.ID, structs.FormatBytes(v.RequestedCapacityMin),
			structs.FormatBytes(r.Size))
	}
	return checkJobOwner(v, j, JobVolume{VolumeRequest: r.VolumeRequest})
}

// FollowJob makes the volumes of a job follow its registration. Volumes whose deletion the purge of an
// earlier job with its ID has caused are kept, and smaller ones grow. A class with binding = "immediate" gets
// the volumes at once. The job has passed CheckJobVolumes.
func FollowJob(tx *mvcc.WriteTx, j *structs.Job, now int64) error {
	requests := jobRequestsOf(j)
	if requests == nil {
		return nil
	}

	for _, v := range slices.Collect(ownVolumesOfJob(tx, j.Namespace, j.ID)) {
		r, _ := jobRequestOf(requests, v)
		if r.VolumeRequest == nil {
			continue
		}
		err := adoptJobVolume(tx, v, r.VolumeRequest, now)
		if err != nil {
			return err
		}
	}

	for _, source := range slices.Sorted(maps.Keys(requests)) {
		err := makeImmediate(tx, j, requests[source], now)
		if err != nil {
			return err
		}
	}
	return nil
}

// adoptJobVolume keeps a volume that the purge of a job has marked, and lets it grow.
func adoptJobVolume(tx *mvcc.WriteTx, v *structs.CSIVolume, r *structs.VolumeRequest, now int64) error {
	if v.Marked() && v.DeleteCause == storage.DeletedByPurge {
		undelete := &storage.VolumeUndeleteRequest{ID: v.ID}
		undelete.Namespace = v.Namespace
		undelete.Now = now
		err := VolumeUndelete(tx, undelete)
		if err != nil {
			return err
		}
		v = Volume(tx, v.Namespace, v.ID)
	}

	// A plugin that gets another size while it creates a volume of the name rejects it (CSI spec, CreateVolume,
	// ALREADY_EXISTS): see GrowJobVolume.
	if v.State != structs.VolumeReady || v.Marked() || r.Size <= v.RequestedCapacityMin {
		return nil
	}
	grown := v.Copy()
	grown.RequestedCapacityMin = r.Size
	return putJobVolume(tx, grown, now)
}

// GrowJobVolume expands a volume that was created while its job began to ask for a larger one. An error of
// the quota becomes the volume's, which stays as it is: its creation is a fact.
func GrowJobVolume(tx *mvcc.WriteTx, v *structs.CSIVolume, now int64) {
	r, _ := jobRequestOf(jobRequestsOf(schema.Jobs.Get(tx, v.Namespace, v.JobID)), v)
	if r.VolumeRequest == nil {
		return
	}
	grown := v.Copy()
	grown.RequestedCapacityMin = max(r.Size, v.RequestedCapacityMin)
	err := namespace.CheckVolumeQuota(tx, v, grown) // before adopt, whose part would stay
	if err == nil {
		err = adoptJobVolume(tx, v, r.VolumeRequest, now)
	}
	if err == nil {
		return
	}

	v = v.Copy()
	v.LastError = &structs.OperationError{
		Message:  err.Error(),
		Kind:     structs.KindOf(err),
		Attempts: 1,
		Time:     now,
	}
	unblock.PutVolumeWithout(tx, v)
}

func putJobVolume(tx *mvcc.WriteTx, v *structs.CSIVolume, now int64) error {
	p := &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}}
	p.Namespace = v.Namespace
	p.Now = now
	return VolumePut(tx, p)
}

// PurgeJobVolumes applies the reclaim rule of the volumes of a job whose row was deleted.
func PurgeJobVolumes(tx *mvcc.WriteTx, j *structs.Job, now int64) {
	for _, v := range slices.Collect(ownVolumesOfJob(tx, j.Namespace, j.ID)) {
		giveUp(tx, v, now)
	}
}
