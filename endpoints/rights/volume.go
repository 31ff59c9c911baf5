package rights

import (
	"berth/acl"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/storage"
)

// The rights on volumes, their claims and variables.
var (
	VolumeRead = Volume(acl.VolumeRead,
		func(r *structs.CSIVolumeGetRequest) []string { return []string{r.ID} })
	VolumeList = ofVolumes(acl.CSIListVolume)
	// VolumeExternal lists what a plugin knows, of all namespaces. The answer tells only of the rows that the
	// caller may read.
	VolumeExternal = Both(ofVolumes(acl.CSIListVolume), PluginRead)

	VolumeDeregister = Where("volume: write, with force volume: force", func(q Question) bool {
		req := q.Req.(*structs.CSIVolumeDeregisterRequest)
		ns := req.RequestNamespace()
		mayForce := !req.Force || q.ACL.Volume(ns, req.ID, acl.VolumeForce)
		return mayForce && q.ACL.Volume(ns, req.ID, acl.VolumeWrite)
	})
	VolumeDelete = Volume(acl.VolumeWrite,
		func(r *structs.CSIVolumeDeleteRequest) []string { return []string{r.ID} })
	VolumeLabel = Volume(acl.VolumeWrite,
		func(r *structs.CSIVolumeLabelRequest) []string { return []string{r.ID} })
	VolumeRetry = Volume(acl.VolumeWrite,
		func(r *structs.CSIVolumeRetryRequest) []string { return []string{r.ID} })
	VolumeUndelete = Volume(acl.VolumeWrite,
		func(r *storage.VolumeUndeleteRequest) []string { return []string{r.ID} })

	VolumeDetach = Where("volume: detach, with force volume: force", func(q Question) bool {
		req := q.Req.(*structs.CSIVolumeDetachRequest)
		return mayRelease(q, req.VolumeID, req.Force)
	})
	ClaimRelease = Where("volume: detach, with force volume: force", func(q Question) bool {
		req := q.Req.(*structs.VolumeClaimReleaseRequest)
		return mayRelease(q, req.VolumeID, req.Force)
	})
	ClaimList = ofVolumes(acl.CSIReadVolume)

	VariableList = Seen("variables: list", func(q Question, namespace, path string) bool {
		return q.ACL.Variable(namespace, path, acl.VariablesList)
	})
	VariableRead = Variable(acl.VariablesRead,
		func(r *access.VariableGetRequest) string { return r.Path })
	VariableApply = Both(appliesVariable, readsVariable)
	VariableRenew = Both(Variable(acl.VariablesWrite,
		func(r *access.VariableRenewRequest) string { return r.Path }), readsVariable)
)

var appliesVariable = Where("variables: write, to delete variables: destroy",
	func(q Question) bool {
		req := q.Req.(*access.VariableApplyRequest)
		right := acl.VariablesWrite
		if req.Op == access.VariableDelete {
			right = acl.VariablesDestroy
		}
		return q.ACL.Variable(req.RequestNamespace(), req.Path, right)
	})

// readsVariable lets the answer to a write show the items of the variable to those who may read it.
var readsVariable = Seen("", func(q Question, namespace, path string) bool {
	return q.ACL.Variable(namespace, path, acl.VariablesRead)
})

func mayRelease(q Question, id string, force bool) bool {
	ns := q.Req.(interface{ RequestNamespace() string }).RequestNamespace()
	mayForce := !force || q.ACL.Volume(ns, id, acl.VolumeForce)
	return mayForce && q.ACL.Volume(ns, id, acl.VolumeDetach)
}

// ofVolumes is the right to list volumes, or rows with the ID of one. The list shows the ones that the
// namespace or their own rules let the caller read.
func ofVolumes(c acl.Capability) Right {
	return Both(List(c), Seen("", func(q Question, namespace, id string) bool {
		return q.ACL.Volume(namespace, id, acl.VolumeRead)
	}))
}
