package jobvolumes

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/internal/mvcc"
	"berth/state/blocked"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// ofJob yields the volumes of a job itself: those without an allocation of their own.
func ofJob(tx mvcc.Reader, ns, jobID string) iter.Seq[*structs.CSIVolume] {
	return schema.Filter(OfJob(tx, ns, jobID), func(v *structs.CSIVolume) bool { return v.AllocID == "" })
}

// OfJob yields the volumes that a job has asked for, also those of its allocations.
func OfJob(tx mvcc.Reader, ns, jobID string) iter.Seq[*structs.CSIVolume] {
	return schema.VolumesByJob.Scan(tx, ns, jobID)
}

// Keep reports whether the row of a job that is stopped has to stay, because volumes of it are deleted only
// once somebody purges the job, or because it has claims on sticky host volumes.
func Keep(tx mvcc.Reader, j *structs.Job) bool {
	if !j.Stop {
		return false
	}
	if csi.HasHostClaims(tx, j.Namespace, j.ID) {
		return true
	}
	for v := range ofJob(tx, j.Namespace, j.ID) {
		if v.Reclaim == storage.ReclaimDelete && !v.Marked() {
			return true
		}
	}
	return false
}

// request is a volume block that names a class.
type request struct {
	*structs.VolumeRequest
	count int // of its volumes
}

// requestsOf returns the volume blocks of a job that name a class, by their Source. The job may be nil.
func requestsOf(j *structs.Job) map[string]request {
	var all map[string]request
	if j == nil {
		return nil
	}
	for _, g := range j.TaskGroups {
		for _, r := range g.Volumes {
			if !storage.IsClassRequest(r) {
				continue
			}
			if all == nil {
				all = map[string]request{}
			}
			count := 1
			if r.PerAlloc {
				count = g.Count
			}
			all[r.Source] = request{r, count}
		}
	}
	return all
}

// requestOf returns the request for a volume of the job, without a VolumeRequest if the job does not ask for
// it any more, or asks for one of each allocation now. index is that of the ID, -1 for none.
func requestOf(requests map[string]request, v *structs.CSIVolume) (r request, index int) {
	// A Source has no brackets.
	source, text, _ := strings.Cut(strings.TrimSuffix(v.ID, "]"), "[")
	index, err := strconv.Atoi(text)
	if err != nil {
		index = -1
	}
	r = requests[source]
	if v.AllocID != "" || r.VolumeRequest != nil && r.Lifecycle == structs.LifecycleAlloc {
		return request{}, index
	}
	return r, index
}

// Check returns an error if a job cannot have the volumes that it asks for: a class does not exist, a volume
// belongs to another job or has another class, or a size is smaller than that of a volume.
func Check(tx mvcc.Reader, j *structs.Job) error {
	return checkAgainst(tx, j, schema.Jobs.Get(tx, j.Namespace, j.ID))
}

// CheckReturn is Check for a version to which the job goes back by itself. A size below that of a volume is
// no fault then: the volume keeps its size, as one that has grown by itself.
func CheckReturn(tx mvcc.Reader, j *structs.Job) error { return checkAgainst(tx, j, j) }

// checkAgainst is Check. The size of a volume is not checked if former asks for the same size.
func checkAgainst(tx mvcc.Reader, j, former *structs.Job) error {
	requests := requestsOf(j)
	if requests == nil {
		return nil
	}

	err := checkBlocks(j)
	if err != nil {
		return err
	}
	for _, source := range slices.Sorted(maps.Keys(requests)) {
		r := requests[source]
		for index := range r.count {
			_, _, err := Find(tx, j, Of{r.VolumeRequest, index, ""})
			if err != nil {
				return err
			}
		}
	}

	stored := requestsOf(former)
	for v := range ofJob(tx, j.Namespace, j.ID) {
		r, index := requestOf(requests, v)
		if r.VolumeRequest == nil {
			continue
		}
		former, _ := requestOf(stored, v)
		err := checkAgain(v, j, again{r.VolumeRequest, former.VolumeRequest, index >= 0})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkBlocks returns an error if two blocks of different groups name one volume.
func checkBlocks(j *structs.Job) error {
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

// again is a request for a volume that the job has from an earlier one.
type again struct {
	*structs.VolumeRequest
	former   *structs.VolumeRequest // of the stored job, nil if it does not ask for the volume
	perAlloc bool                   // of the volume
}

func checkAgain(v *structs.CSIVolume, j *structs.Job, r again) error {
	switch {
	case csi.NeverCreated(v):
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
	return checkOwner(v, j, Of{VolumeRequest: r.VolumeRequest})
}

// Follow makes the volumes of a job follow its registration. Volumes whose deletion the purge of an earlier
// job with its ID has caused are kept, and smaller ones grow. A class with binding = "immediate" gets the
// volumes at once. The job has passed Check.
func Follow(tx *mvcc.WriteTx, j *structs.Job, now int64) error {
	requests := requestsOf(j)
	if requests == nil {
		return nil
	}

	for _, v := range slices.Collect(ofJob(tx, j.Namespace, j.ID)) {
		r, _ := requestOf(requests, v)
		if r.VolumeRequest == nil {
			continue
		}
		err := adopt(tx, v, r.VolumeRequest, now)
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

// adopt keeps a volume that the purge of a job has marked, and lets it grow.
func adopt(tx *mvcc.WriteTx, v *structs.CSIVolume, r *structs.VolumeRequest, now int64) error {
	if v.Marked() && v.DeleteCause == storage.DeletedByPurge {
		undelete := &storage.VolumeUndeleteRequest{ID: v.ID}
		undelete.Namespace = v.Namespace
		undelete.Now = now
		err := csi.VolumeUndelete(tx, undelete)
		if err != nil {
			return err
		}
		v = csi.Volume(tx, v.Namespace, v.ID)
	}

	// A plugin that gets another size while it creates a volume of the name rejects it (CSI spec, CreateVolume,
	// ALREADY_EXISTS): see Grow.
	if v.State != structs.VolumeReady || v.Marked() || r.Size <= v.RequestedCapacityMin {
		return nil
	}
	grown := v.Copy()
	grown.RequestedCapacityMin = r.Size
	return put(tx, grown, now)
}

// Grow expands a volume that was created while its job began to ask for a larger one. An error of the quota
// is that of the volume, which stays as it is: its creation is a fact.
func Grow(tx *mvcc.WriteTx, v *structs.CSIVolume, now int64) {
	r, _ := requestOf(requestsOf(schema.Jobs.Get(tx, v.Namespace, v.JobID)), v)
	if r.VolumeRequest == nil {
		return
	}
	grown := v.Copy()
	grown.RequestedCapacityMin = max(r.Size, v.RequestedCapacityMin)
	err := namespace.CheckVolumeQuota(tx, v, grown) // before adopt, whose part would stay
	if err == nil {
		err = adopt(tx, v, r.VolumeRequest, now)
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
	blocked.PutWithoutUnblock(tx, v)
}

func put(tx *mvcc.WriteTx, v *structs.CSIVolume, now int64) error {
	p := &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}}
	p.Namespace = v.Namespace
	p.Now = now
	return csi.VolumePut(tx, p)
}

// Purge applies the reclaim rule of the volumes of a job whose row was deleted.
func Purge(tx *mvcc.WriteTx, j *structs.Job, now int64) {
	for _, v := range slices.Collect(ofJob(tx, j.Namespace, j.ID)) {
		csi.GiveUp(tx, v, now)
	}
}
