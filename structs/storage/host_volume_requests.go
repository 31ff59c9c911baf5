package storage

import "berth/structs"

// HostVolumeCreate makes a volume, and waits until its plugin has made it. The error is a precondition if no
// node can have it. A volume that its node has already grows to a larger size, and otherwise stays as it is.
var HostVolumeCreate = structs.Write[HostVolumeCreateRequest, HostVolumeCreateResponse]("HostVolume.Create")

// HostVolumeCreateRequest has the volume. With Detach the answer comes once the volume is recorded.
type HostVolumeCreateRequest struct {
	Volume *DynamicHostVolume
	Detach bool
	structs.WriteOptions
}

// HostVolumeCreateResponse has the volume as it is now. Warnings are findings for an operator, "" for none.
type HostVolumeCreateResponse struct {
	Volume   *DynamicHostVolume
	Warnings string
	structs.WriteMeta
}

// HostVolumeRegister is there for clients of the dialect. The error is a precondition: a directory that
// exists on a node is one of its configuration.
var HostVolumeRegister = structs.Write[HostVolumeRegisterRequest, structs.Empty]("HostVolume.Register")

// HostVolumeRegisterRequest has the volume.
type HostVolumeRegisterRequest struct {
	Volume *DynamicHostVolume
	structs.WriteOptions
}

// HostVolumeGet reads a volume. The error is not-found, also for a volume of a CSI plugin that is no host
// volume.
var HostVolumeGet = structs.Read[HostVolumeGetRequest, HostVolumeGetResponse]("HostVolume.Get")

// HostVolumeGetRequest names the volume.
type HostVolumeGetRequest struct {
	ID string
	structs.QueryOptions
}

// HostVolumeGetResponse has the volume.
type HostVolumeGetResponse struct {
	Volume *DynamicHostVolumeDetail
	structs.QueryMeta
}

// HostVolumeList lists volumes by namespace and ID.
var HostVolumeList = structs.Read[HostVolumeListRequest, HostVolumeListResponse]("HostVolume.List")

// HostVolumeListRequest selects the volumes of a node and of a node pool, "" for all.
type HostVolumeListRequest struct {
	NodeID   string
	NodePool string
	structs.QueryOptions
}

// HostVolumeListResponse has the volumes that match.
type HostVolumeListResponse struct {
	Volumes []*DynamicHostVolumeStub
	structs.QueryMeta
}

// HostVolumeDelete deletes a volume with its data. The error is a precondition while an allocation has a
// claim on it, and also if the node of the volume is gone, unless the request has Force.
var HostVolumeDelete = structs.Write[HostVolumeDeleteRequest, structs.Empty]("HostVolume.Delete")

// HostVolumeDeleteRequest names the volume. Force deletes the row alone of a volume whose node has no row.
type HostVolumeDeleteRequest struct {
	ID    string
	Force bool
	structs.WriteOptions
}
