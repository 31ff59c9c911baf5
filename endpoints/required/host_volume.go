package required

import (
	"cmp"

	"berth/acl"
	"berth/endpoints/rights"
	"berth/structs"
	"berth/structs/storage"
)

// The rights on dynamic host volumes are those of the dialect, in their namespaces.
var (
	HostVolumeRead   = rights.Namespace(acl.HostVolumeRead)
	HostVolumeList   = rights.List(acl.HostVolumeRead)
	HostVolumeDelete = rights.Namespace(acl.HostVolumeDelete)

	HostVolumeRegister = rights.Where("namespace: host-volume-register", func(q rights.Question) bool {
		return q.ACL.Namespace(hostNamespace(q.Req), acl.HostVolumeRegister)
	})

	// HostVolumeCreate asks for the namespace of the volume, which its form names. A server asks again with
	// the row that it makes.
	HostVolumeCreate = rights.Where("namespace: host-volume-create", func(q rights.Question) bool {
		return q.ACL.Namespace(hostNamespace(q.Req), acl.HostVolumeCreate)
	})
)

// hostNamespace returns the namespace of the volume of a request.
func hostNamespace(req any) string {
	switch r := req.(type) {
	case *storage.HostVolumeCreateRequest:
		return namespaceOfHost(r.Volume, r.RequestNamespace())
	case *storage.HostVolumeRegisterRequest:
		return namespaceOfHost(r.Volume, r.RequestNamespace())
	case *structs.CSIVolumeRegisterRequest:
		return namespaceOf(r.Volumes[0], r)
	}
	return ""
}

func namespaceOfHost(v *storage.DynamicHostVolume, requested string) string {
	if v == nil {
		return requested
	}
	return cmp.Or(v.Namespace, requested)
}
