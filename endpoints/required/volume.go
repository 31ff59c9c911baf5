package required

import (
	"berth/acl"
	"berth/endpoints/rights"
	"berth/structs"
	"berth/structs/storage"
	"berth/structs/variable"
)

// The rights on volumes, their claims and variables.
var (
	VolumeRead = rights.Volume(acl.VolumeRead,
		func(r *structs.CSIVolumeGetRequest) []string { return []string{r.ID} })
	VolumeList = ofVolumes(acl.CSIListVolume)
	// VolumeExternal lists what a plugin knows, of all namespaces. The answer tells only of the rows that the
	// caller may read.
	VolumeExternal = rights.Both(ofVolumes(acl.CSIListVolume), rights.PluginRead)

	VolumeDeregister = rights.Where("volume: write, with force volume: force", func(q rights.Question) bool {
		req := q.Req.(*structs.CSIVolumeDeregisterRequest)
		ns := req.RequestNamespace()
		mayForce := !req.Force || q.ACL.Volume(ns, req.ID, acl.VolumeForce)
		return mayForce && q.ACL.Volume(ns, req.ID, acl.VolumeWrite)
	})
	VolumeDelete = rights.Volume(acl.VolumeWrite,
		func(r *structs.CSIVolumeDeleteRequest) []string { return []string{r.ID} })
	VolumeRetry = rights.Volume(acl.VolumeWrite,
		func(r *structs.CSIVolumeRetryRequest) []string { return []string{r.ID} })
	VolumeUndelete = rights.Volume(acl.VolumeWrite,
		func(r *storage.VolumeUndeleteRequest) []string { return []string{r.ID} })

	VolumeDetach = rights.Where("volume: detach, with force volume: force", func(q rights.Question) bool {
		req := q.Req.(*structs.CSIVolumeDetachRequest)
		return mayRelease(q, req.VolumeID, req.Force)
	})
	ClaimRelease = rights.Where("volume: detach, with force volume: force", func(q rights.Question) bool {
		req := q.Req.(*structs.VolumeClaimReleaseRequest)
		return mayRelease(q, req.VolumeID, req.Force)
	})
	ClaimList = ofVolumes(acl.CSIReadVolume)

	VariableList = rights.Seen("variables: list", func(q rights.Question, namespace, path string) bool {
		return q.ACL.Variable(namespace, path, acl.VariablesList)
	})
	VariableRead = rights.Variable(acl.VariablesRead,
		func(r *variable.VariableGetRequest) string { return r.Path })
	VariableApply = rights.Both(appliesVariable, readsVariable)
	VariableRenew = rights.Both(rights.Variable(acl.VariablesWrite,
		func(r *variable.VariableRenewRequest) string { return r.Path }), readsVariable)
)

var appliesVariable = rights.Where("variables: write, to delete variables: destroy",
	func(q rights.Question) bool {
		req := q.Req.(*variable.VariableApplyRequest)
		right := acl.VariablesWrite
		if req.Op == variable.VariableDelete {
			right = acl.VariablesDestroy
		}
		return q.ACL.Variable(req.RequestNamespace(), req.Path, right)
	})

// readsVariable lets the answer to a write show the items of the variable to those who may read it.
var readsVariable = rights.Seen("", func(q rights.Question, namespace, path string) bool {
	return q.ACL.Variable(namespace, path, acl.VariablesRead)
})

func mayRelease(q rights.Question, id string, force bool) bool {
	ns := q.Req.(interface{ RequestNamespace() string }).RequestNamespace()
	mayForce := !force || q.ACL.Volume(ns, id, acl.VolumeForce)
	return mayForce && q.ACL.Volume(ns, id, acl.VolumeDetach)
}

// ofVolumes is the right to list volumes, or rows with the ID of one. The list shows those that the namespace
// or their own rules let the caller read.
func ofVolumes(c acl.Capability) rights.Right {
	return rights.Both(rights.List(c), rights.Seen("", func(q rights.Question, namespace, id string) bool {
		return q.ACL.Volume(namespace, id, acl.VolumeRead)
	}))
}
