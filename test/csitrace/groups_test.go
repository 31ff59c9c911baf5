package csitrace

import (
	spec "github.com/container-storage-interface/spec/lib/go/csi"
)

// offerGroups has the instance of node n1 answer that the plugin takes groups.
func (s *story) offerGroups() {
	s.call("n1", "GetPluginCapabilities", &spec.GetPluginCapabilitiesRequest{},
		&spec.GetPluginCapabilitiesResponse{Capabilities: []*spec.PluginCapability{{
			Type: &spec.PluginCapability_Service_{Service: &spec.PluginCapability_Service{
				Type: spec.PluginCapability_Service_GROUP_CONTROLLER_SERVICE}}}}})
	s.call("n1", "GroupControllerGetCapabilities", &spec.GroupControllerGetCapabilitiesRequest{},
		&spec.GroupControllerGetCapabilitiesResponse{Capabilities: []*spec.GroupControllerServiceCapability{{
			Type: &spec.GroupControllerServiceCapability_Rpc{Rpc: &spec.GroupControllerServiceCapability_RPC{
				Type: spec.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT}}}}})
}

// cutGroup takes the group "group" of the volumes "x" and "v", with the snapshots "other" and "snap".
func (s *story) cutGroup() {
	r := &spec.CreateVolumeGroupSnapshotRequest{Name: "g", SourceVolumeIds: []string{"x", "v"}}
	member := func(id, volume string) *spec.Snapshot {
		return &spec.Snapshot{SnapshotId: id, SourceVolumeId: volume, GroupSnapshotId: "group", ReadyToUse: true}
	}
	s.call("n1", "CreateVolumeGroupSnapshot", r, &spec.CreateVolumeGroupSnapshotResponse{
		GroupSnapshot: &spec.VolumeGroupSnapshot{
			GroupSnapshotId: "group",
			Snapshots:       []*spec.Snapshot{member("snap", "v"), member("other", "x")},
		},
	})
}

func (s *story) removeGroup(snapshots ...string) {
	r := &spec.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: "group", SnapshotIds: snapshots}
	s.call("n1", "DeleteVolumeGroupSnapshot", r, &spec.DeleteVolumeGroupSnapshotResponse{})
}

var badGroups = []rejection{
	{"one call for each volume of a group at a time", "volume v is in flight;ControllerPublishVolume", func(s *story) {
		s.create()
		s.offerGroups()
		s.attach("n1")
		s.cutGroup()
		s.overlap()
	}},
	{"one call for a volume at a time", "volume v is in flight;CreateVolumeGroupSnapshot", func(s *story) {
		s.create()
		s.offerGroups()
		s.cutGroup()
		s.attach("n1")
		s.overlap()
	}},
	{"one call for each volume of a group at a time", "group snapshot of name g is in flight", func(s *story) {
		s.offerGroups()
		s.cutGroup()
		s.cutGroup()
		s.overlap()
	}},
	{"one call for each volume of a group at a time", "group snapshot group is in flight", func(s *story) {
		s.offerGroups()
		s.removeGroup("snap")
		s.removeGroup("other")
		s.overlap()
	}},
	{"the plugin offers the RPC", "does not offer group CREATE_DELETE_GET", func(s *story) { s.cutGroup() }},
	{"a member of a group is not deleted alone", "is a member of group snapshot group", func(s *story) {
		s.offerGroups()
		s.cutGroup()
		s.removeSnapshot()
	}},
	{"a group is deleted with the list of its snapshots", `group has ["other" "snap"]`, func(s *story) {
		s.offerGroups()
		s.cutGroup()
		s.removeGroup("snap")
	}},
}
