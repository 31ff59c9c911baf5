package rights

import (
	"cmp"

	"berth/acl"
	"berth/structs"
	"berth/structs/storage"
)

// The rights on dynamic host volumes are the dialect's, in their namespaces.
var (
	HostVolumeRead   = Namespace(acl.HostVolumeRead)
	HostVolumeList   = List(acl.HostVolumeRead)
	HostVolumeDelete = Namespace(acl.HostVolumeDelete)

	HostVolumeRegister = Where("namespace: host-volume-register", func(q Question) bool {
		return q.ACL.Namespace(hostNamespace(q.Req), acl.HostVolumeRegister)
	})

	// HostVolumeCreate asks for the namespace of the volume, which its form names. A server asks again with
	// the row that it makes.
	HostVolumeCreate = Where("namespace: host-volume-create", func(q Question) bool {
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
