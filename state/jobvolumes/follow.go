package jobvolumes

import (
	"iter"
	"strings"

	"berth/internal/mvcc"
	"berth/state/csi"
	"berth/state/csi/lifecycle"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/class"
	"berth/structs/jobvolume"
	"berth/structs/reclaim"
)

// OfJob yields the volumes that a job has asked for.
func OfJob(tx mvcc.Reader, ns, jobID string) iter.Seq[*structs.CSIVolume] {
	return schema.VolumesByJob.Scan(tx, ns, jobID)
}

// Keep reports whether the row of a job that is stopped has to stay, because volumes of it are deleted only
// once somebody purges the job.
func Keep(tx mvcc.Reader, j *structs.Job) bool {
	if !j.Stop {
		return false
	}
	for v := range OfJob(tx, j.Namespace, j.ID) {
		if v.Reclaim == class.Delete && !v.Marked() {
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

// requestsOf returns the volume blocks of a job that name a class, by their Source.
func requestsOf(j *structs.Job) map[string]request {
	var all map[string]request
	for _, g := range j.TaskGroups {
		for _, r := range g.Volumes {
			if !jobvolume.IsAsked(r) {
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

// requestOf returns the request for a volume, nil if the job does not ask for it any more. perAlloc is
// whether the ID has an index.
func requestOf(requests map[string]request, v *structs.CSIVolume) (r *structs.VolumeRequest, perAlloc bool) {
	source, index, found := strings.Cut(v.ID, "[")
	perAlloc = found && strings.HasSuffix(index, "]")
	if perAlloc {
		return requests[source].VolumeRequest, true
	}
	return requests[v.ID].VolumeRequest, false
}

// Check returns an error if a job cannot have the volumes that it asks for: a class does not exist, a volume
// belongs to another job or has another class, or a size is smaller than that of a volume.
func Check(tx mvcc.Reader, j *structs.Job) error {
	requests := requestsOf(j)
	for _, r := range requests {
		for index := range r.count {
			_, _, err := Find(tx, j, r.VolumeRequest, index)
			if err != nil {
				return err
			}
		}
	}

	if requests == nil {
		return nil
	}
	for v := range OfJob(tx, j.Namespace, j.ID) {
		r, perAlloc := requestOf(requests, v)
		if r == nil {
			continue
		}
		err := checkAgain(v, j, r, perAlloc)
		if err != nil {
			return err
		}
	}
	return nil
}

// checkAgain checks a request against a volume that the job has from an earlier one.
func checkAgain(v *structs.CSIVolume, j *structs.Job, r *structs.VolumeRequest, perAlloc bool) error {
	switch {
	case neverMade(v):
		return nil
	case r.PerAlloc != perAlloc:
		return structs.Conflictf("volume %q was made with per_alloc = %t, which cannot change: give the block "+
			"another name, or delete the volume", v.ID, perAlloc)
	case r.Size < v.RequestedCapacityMin:
		return structs.Conflictf("volume %q has %s, and the job asks for %s; a volume can only grow: ask for as "+
			"much, or give the block another name", v.ID, structs.FormatBytes(v.RequestedCapacityMin),
			structs.FormatBytes(r.Size))
	}
	return checkOwner(v, j, r)
}

// Follow makes the volumes of a job follow its registration. Volumes whose deletion the purge of an earlier
// job with its ID has caused are kept, and smaller ones grow. A class with binding = "immediate" gets the
// volumes at once. The job has passed Check.
func Follow(tx *mvcc.WriteTx, j *structs.Job, now int64) error {
	requests := requestsOf(j)
	if requests == nil {
		return nil
	}

	for _, v := range collect(OfJob(tx, j.Namespace, j.ID)) {
		r, _ := requestOf(requests, v)
		if r == nil {
			continue
		}
		err := adopt(tx, v, r, now)
		if err != nil {
			return err
		}
	}

	for _, source := range sortedSources(requests) {
		err := makeImmediate(tx, j, requests[source], now)
		if err != nil {
			return err
		}
	}
	return nil
}

// adopt keeps a volume that the purge of a job has marked, and lets it grow.
func adopt(tx *mvcc.WriteTx, v *structs.CSIVolume, r *structs.VolumeRequest, now int64) error {
	if v.Marked() && v.DeleteCause == reclaim.ByPurge {
		undelete := &reclaim.VolumeUndeleteRequest{ID: v.ID}
		undelete.Namespace = v.Namespace
		undelete.Now = now
		err := lifecycle.VolumeUndelete(tx, undelete)
		if err != nil {
			return err
		}
		v = csi.Volume(tx, v.Namespace, v.ID)
	}

	if v.State == structs.VolumeDeleting || v.Marked() || neverMade(v) || r.Size <= v.RequestedCapacityMin {
		return nil
	}
	grown := v.Copy()
	grown.RequestedCapacityMin = r.Size
	return put(tx, grown, now)
}

func put(tx *mvcc.WriteTx, v *structs.CSIVolume, now int64) error {
	p := &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}}
	p.Namespace = v.Namespace
	p.Now = now
	return lifecycle.VolumePut(tx, p)
}

// Purge applies the reclaim rule of the volumes of a job whose row was deleted.
func Purge(tx *mvcc.WriteTx, j *structs.Job, now int64) {
	for _, v := range collect(OfJob(tx, j.Namespace, j.ID)) {
		lifecycle.GiveUp(tx, v, now)
	}
}
