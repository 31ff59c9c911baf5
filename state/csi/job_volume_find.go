package csi

import (
	"slices"

	"berth/internal/mvcc"
	"berth/structs"
	"berth/structs/storage"
)

// JobVolume is a volume block of a job for one of its allocations, whose volume FindJobVolume looks up. An
// allocation that is not placed has no ID.
type JobVolume struct {
	*structs.VolumeRequest // it names a class
	Index                  int
	AllocID                string
}

// FindJobVolume returns the volume of an allocation. makes is true if it does not exist, or could not be
// made: the row is then the one to create, without a place and a name. The error is a conflict if another
// job, another allocation or a person has the volume, or it has another class or other modes.
func FindJobVolume(
	tx mvcc.Reader, j *structs.Job, r JobVolume,
) (v *structs.CSIVolume, makes bool, err error) {
	id := r.VolumeID(r.Index, r.AllocID)
	old := Volume(tx, j.Namespace, id)
	if r.Lifecycle == structs.LifecycleAlloc && r.AllocID == "" {
		old = nil // the ID stands for all of them
	}
	if old != nil {
		err = checkJobOwner(old, j, r)
		if err != nil || !NeverCreated(old) {
			return old, false, err
		}
	}

	v = &structs.CSIVolume{
		ID: id, Namespace: j.Namespace,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			Class:                r.Class,
			RequestedCapacityMin: r.Size,
			RequestedCapabilities: []*structs.CSIVolumeCapability{{
				AttachmentMode: r.AttachmentMode,
				AccessMode:     r.AccessMode,
			}},
		},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{
			JobID: j.ID,
			State: structs.VolumeCreating,
		},
	}
	if r.Lifecycle == structs.LifecycleAlloc {
		v.AllocID = r.AllocID
	}
	if old != nil {
		v.Name = old.Name
		v.ExternalName = old.NameAtPlugin() // the plugin may know it (CSI spec, CreateVolume)
	}
	err = CompleteVolume(tx, v, old, true)
	if err == nil && old != nil {
		err = checkRemake(v, old)
	}
	return v, true, err
}

func checkJobOwner(v *structs.CSIVolume, j *structs.Job, r JobVolume) error {
	switch {
	// An ID has the first letters of its allocation's. The next plan has an allocation with other ones.
	case r.Lifecycle == structs.LifecycleAlloc && v.AllocID != r.AllocID:
		return structs.Conflictf("volume %q exists, and is not of allocation %s", v.ID, r.AllocID)
	case v.JobID == "":
		return structs.Conflictf("volume %q exists, and no job has asked for it; group and volume block need "+
			"other names, or it has to be deleted", v.ID)
	case v.JobID != j.ID:
		return structs.Conflictf("volume %q belongs to job %q; group and volume block need other names",
			v.ID, v.JobID)
	case v.Class != r.Class && !NeverCreated(v):
		return structs.Conflictf("volume %q has the class %q, and the job asks for %q; the class of a volume "+
			"cannot change: give the block another name, or delete the volume", v.ID, v.Class, r.Class)
	case !NeverCreated(v) && !v.Capable(r.Claim("", 0, "").Class()):
		return structs.Conflictf("volume %q was not made for access_mode %s with attachment_mode %s, which the "+
			"job asks for; the modes of a volume cannot change: give the block another name, or delete the volume",
			v.ID, r.AccessMode, r.AttachmentMode)
	}
	return nil
}

// checkClassPlace returns a conflict if the class of a new volume does not allow the place of a node: the
// class may have changed since the plan.
func checkClassPlace(tx mvcc.Reader, v *structs.CSIVolume, nodeID string) error {
	place := nodePlaceOf(tx, v, nodeID)
	if place == nil || v.RequestedTopologies == nil {
		return nil
	}
	allows := func(t *structs.CSITopology) bool { return t.Matches(place) }
	if slices.ContainsFunc(v.RequestedTopologies.Required, allows) {
		return nil
	}
	return structs.Conflictf("class %q does not allow volume %q in %s",
		v.Class, v.ID, storage.TopologyText(place))
}

// nodePlaceOf returns the topology of a node for the plugin of a volume, nil for none.
func nodePlaceOf(tx mvcc.Reader, v *structs.CSIVolume, nodeID string) *structs.CSITopology {
	half := Instance(tx, v.PluginID, structs.CSIKindNode, nodeID)
	place := half.NodeReport().AccessibleTopology
	if place == nil || len(place.Segments) == 0 {
		return nil
	}
	return place
}

// placeOnNode requires that a new volume is reachable from a node (CSI spec, CreateVolumeRequest,
// accessibility_requirements). A plugin without topologies has volumes that are reachable from everywhere.
func placeOnNode(tx mvcc.Reader, v *structs.CSIVolume, nodeID string) {
	place := nodePlaceOf(tx, v, nodeID)
	if place == nil {
		return
	}
	v.RequestedTopologies = &structs.CSITopologyRequest{Required: []*structs.CSITopology{place}}
}
