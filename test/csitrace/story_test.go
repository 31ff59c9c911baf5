package csitrace

import (
	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
)

// story is a trace that a test tells call by call. Its calls succeed, one after another.
type story struct {
	trace    []*Call
	position int
}

// newStory begins with the capabilities of the instances on the nodes n1 and n2.
func newStory() *story {
	s := &story{}
	for _, node := range []string{"n1", "n2"} {
		s.offer(node)
	}
	return s
}

// offer has an instance answer all capabilities but those that tests add.
func (s *story) offer(node string) {
	service := func(t spec.PluginCapability_Service_Type) *spec.PluginCapability {
		return &spec.PluginCapability{Type: &spec.PluginCapability_Service_{
			Service: &spec.PluginCapability_Service{Type: t}}}
	}
	s.call(node, "GetPluginCapabilities", &spec.GetPluginCapabilitiesRequest{},
		&spec.GetPluginCapabilitiesResponse{Capabilities: []*spec.PluginCapability{
			service(spec.PluginCapability_Service_CONTROLLER_SERVICE)}})
	s.offerController(node,
		spec.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		spec.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		spec.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		spec.ControllerServiceCapability_RPC_EXPAND_VOLUME)
	s.offerNode(node,
		spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		spec.NodeServiceCapability_RPC_EXPAND_VOLUME)
}

func (s *story) offerController(node string, types ...spec.ControllerServiceCapability_RPC_Type) {
	answer := &spec.ControllerGetCapabilitiesResponse{}
	for _, t := range types {
		answer.Capabilities = append(answer.Capabilities, &spec.ControllerServiceCapability{
			Type: &spec.ControllerServiceCapability_Rpc{
				Rpc: &spec.ControllerServiceCapability_RPC{Type: t}}})
	}
	s.call(node, "ControllerGetCapabilities", &spec.ControllerGetCapabilitiesRequest{}, answer)
}

func (s *story) offerNode(node string, types ...spec.NodeServiceCapability_RPC_Type) {
	answer := &spec.NodeGetCapabilitiesResponse{}
	for _, t := range types {
		answer.Capabilities = append(answer.Capabilities, &spec.NodeServiceCapability{
			Type: &spec.NodeServiceCapability_Rpc{Rpc: &spec.NodeServiceCapability_RPC{Type: t}}})
	}
	s.call(node, "NodeGetCapabilities", &spec.NodeGetCapabilitiesRequest{}, answer)
}

// offerExpansion has an instance answer when the plugin expands volumes.
func (s *story) offerExpansion(node string, when spec.PluginCapability_VolumeExpansion_Type) {
	s.call(node, "GetPluginCapabilities", &spec.GetPluginCapabilitiesRequest{},
		&spec.GetPluginCapabilitiesResponse{Capabilities: []*spec.PluginCapability{{
			Type: &spec.PluginCapability_VolumeExpansion_{
				VolumeExpansion: &spec.PluginCapability_VolumeExpansion{Type: when}}}}})
}

// call adds a call that has succeeded.
func (s *story) call(node, rpc string, request, answer proto.Message) *Call {
	c := &Call{Instance: "plugin-" + node, Node: node, RPC: rpc, Request: request, Answer: answer, Code: OK}
	c.Start = s.position + 1
	c.End = s.position + 2
	s.position += 2
	s.trace = append(s.trace, c)
	return c
}

// fail makes the last call fail.
func (s *story) fail(code string) {
	c := s.trace[len(s.trace)-1]
	c.Code = code
	c.Answer = nil
}

// overlap makes the last call begin before the end of the one before it.
func (s *story) overlap() {
	a := s.trace[len(s.trace)-2]
	b := s.trace[len(s.trace)-1]
	a.End, b.Start = b.Start, a.End
}

const (
	writer     = spec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	anyWriters = spec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	oneOfMany  = spec.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER
	readers    = spec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
)

func use(mode spec.VolumeCapability_AccessMode_Mode) *spec.VolumeCapability {
	return &spec.VolumeCapability{
		AccessMode: &spec.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &spec.VolumeCapability_Mount{Mount: &spec.VolumeCapability_MountVolume{}},
	}
}

func (s *story) create() *spec.CreateVolumeRequest {
	r := &spec.CreateVolumeRequest{Name: "data", VolumeCapabilities: []*spec.VolumeCapability{use(writer)}}
	s.call("n1", "CreateVolume", r, &spec.CreateVolumeResponse{Volume: &spec.Volume{VolumeId: "v",
		VolumeContext: map[string]string{"pool": "a"}}})
	return r
}

// restore creates the volume from the snapshot "snap".
func (s *story) restore() {
	r := &spec.CreateVolumeRequest{Name: "copy", VolumeCapabilities: []*spec.VolumeCapability{use(writer)}}
	s.call("n1", "CreateVolume", r, &spec.CreateVolumeResponse{Volume: &spec.Volume{VolumeId: "w"}})
	r.VolumeContentSource = &spec.VolumeContentSource{Type: &spec.VolumeContentSource_Snapshot{
		Snapshot: &spec.VolumeContentSource_SnapshotSource{SnapshotId: "snap"}}}
}

func (s *story) remove() {
	s.call("n1", "DeleteVolume", &spec.DeleteVolumeRequest{VolumeId: "v"}, &spec.DeleteVolumeResponse{})
}

func (s *story) cut(ready bool) *spec.CreateSnapshotRequest {
	r := &spec.CreateSnapshotRequest{Name: "s", SourceVolumeId: "v"}
	s.call("n1", "CreateSnapshot", r, &spec.CreateSnapshotResponse{Snapshot: &spec.Snapshot{
		SnapshotId: "snap", SourceVolumeId: "v", ReadyToUse: ready}})
	return r
}

func (s *story) removeSnapshot() {
	r := &spec.DeleteSnapshotRequest{SnapshotId: "snap"}
	s.call("n1", "DeleteSnapshot", r, &spec.DeleteSnapshotResponse{})
}

func (s *story) attach(node string) *spec.ControllerPublishVolumeRequest {
	r := &spec.ControllerPublishVolumeRequest{VolumeId: "v", NodeId: node, VolumeCapability: use(writer),
		VolumeContext: map[string]string{"pool": "a"}, Secrets: map[string]string{"key": "1"}}
	s.call("n1", "ControllerPublishVolume", r, &spec.ControllerPublishVolumeResponse{
		PublishContext: map[string]string{"device": "/dev/x"}})
	return r
}

func (s *story) detach(node string) *spec.ControllerUnpublishVolumeRequest {
	r := &spec.ControllerUnpublishVolumeRequest{VolumeId: "v", NodeId: node,
		Secrets: map[string]string{"key": "1"}}
	s.call("n1", "ControllerUnpublishVolume", r, &spec.ControllerUnpublishVolumeResponse{})
	return r
}

func (s *story) stage(node string) *spec.NodeStageVolumeRequest {
	r := &spec.NodeStageVolumeRequest{VolumeId: "v", StagingTargetPath: "/s", VolumeCapability: use(writer),
		VolumeContext: map[string]string{"pool": "a"}, PublishContext: map[string]string{"device": "/dev/x"}}
	s.call(node, "NodeStageVolume", r, &spec.NodeStageVolumeResponse{})
	return r
}

func (s *story) unstage(node string) {
	s.call(node, "NodeUnstageVolume", &spec.NodeUnstageVolumeRequest{VolumeId: "v", StagingTargetPath: "/s"},
		&spec.NodeUnstageVolumeResponse{})
}

func (s *story) publish(node, target string) *spec.NodePublishVolumeRequest {
	r := &spec.NodePublishVolumeRequest{VolumeId: "v", StagingTargetPath: "/s", TargetPath: target,
		VolumeCapability: use(writer), VolumeContext: map[string]string{"pool": "a"},
		PublishContext: map[string]string{"device": "/dev/x"}}
	s.call(node, "NodePublishVolume", r, &spec.NodePublishVolumeResponse{})
	return r
}

func (s *story) unpublish(node, target string) {
	s.call(node, "NodeUnpublishVolume", &spec.NodeUnpublishVolumeRequest{VolumeId: "v", TargetPath: target},
		&spec.NodeUnpublishVolumeResponse{})
}

func (s *story) grow() {
	s.call("n1", "ControllerExpandVolume", &spec.ControllerExpandVolumeRequest{VolumeId: "v",
		CapacityRange: &spec.CapacityRange{RequiredBytes: 2}}, &spec.ControllerExpandVolumeResponse{})
}

func (s *story) growOn(node string) {
	s.call(node, "NodeExpandVolume", &spec.NodeExpandVolumeRequest{VolumeId: "v", VolumePath: "/s"},
		&spec.NodeExpandVolumeResponse{})
}

// bring brings the volume to a node.
func (s *story) bring(node string) {
	s.attach(node)
	s.stage(node)
	s.publish(node, "/t")
}

// release takes the volume from a node.
func (s *story) release(node string) {
	s.unpublish(node, "/t")
	s.unstage(node)
	s.detach(node)
}
