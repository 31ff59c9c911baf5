package csitrace

import (
	"slices"
	"strings"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
)

// rejection is a trace that breaks a rule, and words of the sentence about it.
type rejection struct {
	rule  string
	words string // separated by ";"
	tell  func(s *story)
}

func TestCheck_RejectsWhatBreaksARule(t *testing.T) {
	shown := map[string]bool{}
	for _, r := range slices.Concat(badOrders, badUsers, badArguments, badGroups) {
		shown[r.rule] = true
		t.Run(r.rule+"/"+r.words, func(t *testing.T) {
			s := newStory()
			r.tell(s)
			faults := Check(s.trace)
			at := slices.IndexFunc(faults, func(f Fault) bool { return f.Rule.Name == r.rule })
			if at < 0 {
				t.Fatalf("the rule is not broken; the faults: %v", faults)
			}
			for _, word := range strings.Split(r.words, ";") {
				if !strings.Contains(faults[at].String(), word) {
					t.Errorf("%q does not say %q", faults[at], word)
				}
			}
		})
	}
	for _, r := range Rules {
		if !shown[r.Name] {
			t.Errorf("no trace breaks the rule %q", r.Name)
		}
	}
}

var badOrders = []rejection{
	{"one call for a volume at a time", "volume v is in flight;ControllerPublishVolume", func(s *story) {
		s.create()
		s.attach("n1")
		s.grow()
		s.overlap()
	}},
	{"one call for a volume at a time", "volume of name data is in flight", func(s *story) {
		s.create()
		s.create()
		s.overlap()
	}},
	{"one call for a volume at a time", "volume v on node n1 is in flight", func(s *story) {
		s.stage("n1")
		s.publish("n1", "/t")
		s.overlap()
	}},
	{"one call for a volume at a time", "volume v is in flight;CreateSnapshot", func(s *story) {
		s.cut(true)
		s.remove()
		s.overlap()
	}},
	{"one call for a snapshot at a time", "snapshot of name s is in flight", func(s *story) {
		s.cut(true)
		s.cut(true)
		s.overlap()
	}},
	{"one call for a snapshot at a time", "snapshot snap is in flight", func(s *story) {
		s.removeSnapshot()
		s.removeSnapshot()
		s.overlap()
	}},
	{"a volume is staged where it is attached", "no Controller;volume v on node n1", func(s *story) {
		s.attach("n2")
		s.stage("n1")
	}},
	{"a volume is staged where it is attached", "has not succeeded;Unavailable", func(s *story) {
		s.attach("n1")
		s.fail("Unavailable")
		s.stage("n1")
	}},
	{"a volume is staged where it is attached", "is being released;ControllerUnpublishVolume", func(s *story) {
		s.attach("n1")
		s.detach("n1")
		s.fail("Unavailable")
		s.stage("n1")
	}},
	{"a volume is published where it is staged", "has not succeeded;Unavailable", func(s *story) {
		s.attach("n1")
		s.stage("n1")
		s.stage("n1")
		s.fail("Unavailable")
		s.publish("n1", "/t")
	}},
	{"a volume is published where it is attached", "no ControllerPublishVolume", func(s *story) {
		s.publish("n1", "/t")
	}},
	{"a volume is published where it is staged", "no NodeStageVolume", func(s *story) {
		s.attach("n1")
		s.publish("n1", "/t")
	}},
	{"a volume is published where it is staged", "has not succeeded;NodeStageVolume", func(s *story) {
		s.attach("n1")
		s.stage("n1")
		s.fail("Internal")
		s.publish("n1", "/t")
	}},
	{"a volume is unstaged after it is unpublished", "may still be published on node n1", func(s *story) {
		s.bring("n1")
		s.unpublish("n1", "/t")
		s.fail("Unavailable")
		s.unstage("n1")
	}},
	{"a volume is detached after it is unpublished and unstaged", "may still be published", func(s *story) {
		s.bring("n1")
		s.detach("n1")
	}},
	{"a volume is detached after it is unpublished and unstaged", "may still be staged", func(s *story) {
		s.bring("n1")
		s.unpublish("n1", "/t")
		s.detach("n1")
	}},
	{"a volume is deleted after all nodes have released it", "may still be attached on node n2", func(s *story) {
		s.create()
		s.attach("n2")
		s.fail("Internal")
		s.remove()
	}},
	{"a volume is deleted after all nodes have released it", "may still be staged", func(s *story) {
		s.stage("n1")
		s.remove()
	}},
	{"a volume is deleted after all nodes have released it", "may still be published", func(s *story) {
		s.publish("n1", "/t")
		s.remove()
	}},
	{"nothing follows a deletion", "was or may be deleted;DeleteVolume", func(s *story) {
		s.create()
		s.remove()
		s.fail("Unavailable")
		s.attach("n1")
	}},
	{"nothing follows a deletion", "was or may be deleted;CreateSnapshot", func(s *story) {
		s.create()
		s.remove()
		s.cut(true)
	}},
	{"a volume grows where it is staged or published", "neither staged nor", func(s *story) {
		s.bring("n1")
		s.growOn("n2")
	}},
	{"a volume grows where it is staged or published", "neither staged nor", func(s *story) {
		s.attach("n1")
		s.stage("n1")
		s.unstage("n1")
		s.fail("Unavailable")
		s.growOn("n1")
	}},
	{"a volume in use grows only if the plugin allows it", "in use on node n1", func(s *story) {
		s.offerExpansion("n1", spec.PluginCapability_VolumeExpansion_OFFLINE)
		s.attach("n1")
		s.grow()
	}},
	{"a volume is restored from a snapshot that is ready", "no call has created snapshot snap", func(s *story) {
		s.restore()
	}},
	{"a volume is restored from a snapshot that is ready", "is not ready to use", func(s *story) {
		s.cut(false)
		s.restore()
	}},
	{"a volume is restored from a snapshot that is ready", "was or may be deleted", func(s *story) {
		s.cut(true)
		s.removeSnapshot()
		s.restore()
	}},
	{"no snapshot is deleted during a restore from it", "volume copy is;DeadlineExceeded", func(s *story) {
		s.cut(true)
		s.restore()
		s.fail("DeadlineExceeded")
		s.removeSnapshot()
	}},
}

var badUsers = []rejection{
	{"a volume of one node is attached to one node", "may be attached to node n1", func(s *story) {
		s.attach("n1")
		s.attach("n2")
	}},
	{"a volume of one node is attached to one node", "may be attached to node n1;Internal", func(s *story) {
		s.attach("n1")
		s.fail("Internal")
		s.attach("n2")
	}},
	{"a volume of one node is attached to one node", "may be attached to node n1", func(s *story) {
		s.attach("n1")
		s.detach("n1")
		s.fail("Unavailable")
		s.attach("n2").VolumeCapability = use(anyWriters)
	}},
	{"a volume has as many users as its access mode allows", "on node n1;MULTI_WRITER", func(s *story) {
		s.publish("n1", "/t").VolumeCapability = use(singleMany)
		s.publish("n2", "/t").VolumeCapability = use(singleMany)
	}},
	{"a volume has as many users as its access mode allows", "on node n1;SINGLE_NODE_WRITER", func(s *story) {
		s.publish("n1", "/a")
		s.publish("n1", "/b")
	}},
	{"a volume has as many users as its access mode allows", "on node n1;NODE_SINGLE_WRITER", func(s *story) {
		s.publish("n1", "/a").VolumeCapability = use(oneOfMany)
		s.publish("n2", "/b").VolumeCapability = use(oneOfMany)
	}},
	{"a volume has as many users as its access mode allows", "for writing in the mode", func(s *story) {
		s.publish("n1", "/a").VolumeCapability = use(readers)
	}},
	{"the plugin offers the RPC", "plugin-n1 does not offer controller MODIFY_VOLUME", func(s *story) {
		s.call("n1", "ControllerModifyVolume", &spec.ControllerModifyVolumeRequest{VolumeId: "v"}, nil)
	}},
	{"the plugin offers the argument", "controller PUBLISH_READONLY", func(s *story) {
		s.attach("n1").Readonly = true
	}},
	{"the plugin offers the argument", "controller SINGLE_NODE_MULTI_WRITER", func(s *story) {
		s.attach("n1").VolumeCapability = use(singleMany)
	}},
	{"the plugin offers the argument", "node SINGLE_NODE_MULTI_WRITER", func(s *story) {
		s.stage("n1").VolumeCapability = use(singleMany)
	}},
	{"the plugin offers the argument", "node VOLUME_MOUNT_GROUP", func(s *story) {
		s.publish("n1", "/t").VolumeCapability.GetMount().VolumeMountGroup = "1000"
	}},
	{"the plugin offers the argument", "controller CREATE_DELETE_SNAPSHOT", func(s *story) {
		s.restore()
		s.trace[len(s.trace)-1].Instance = "other"
	}},
	{"the plugin offers the argument", "controller CLONE_VOLUME", func(s *story) {
		s.create().VolumeContentSource = &spec.VolumeContentSource{Type: &spec.VolumeContentSource_Volume{
			Volume: &spec.VolumeContentSource_VolumeSource{VolumeId: "v"}}}
	}},
	{"the plugin offers the argument", "controller MODIFY_VOLUME", func(s *story) {
		s.create().MutableParameters = map[string]string{"iops": "1"}
	}},
	{"the plugin offers the argument", "plugin VOLUME_ACCESSIBILITY_CONSTRAINTS", func(s *story) {
		s.create().AccessibilityRequirements = &spec.TopologyRequirement{}
	}},
}

const singleMany = spec.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER

var badArguments = []rejection{
	{"volume_context is that of the creation", "volume v;pool:b;pool:a", func(s *story) {
		s.create()
		s.attach("n1").VolumeContext = map[string]string{"pool": "b"}
	}},
	{"publish_context is that of the attachment", "volume v on node n1;/dev/y;/dev/x", func(s *story) {
		s.attach("n1")
		s.stage("n1").PublishContext = map[string]string{"device": "/dev/y"}
	}},
	{"a repetition has the same arguments", "it repeats ControllerPublishVolume;another secrets", func(s *story) {
		s.attach("n1")
		s.fail("Unavailable")
		s.attach("n1").Secrets = map[string]string{"key": "2"}
	}},
	{"a repetition has the same arguments", "it repeats CreateVolume;another parameters:", func(s *story) {
		s.create()
		s.fail("Unavailable")
		s.create().Parameters = map[string]string{"pool": "b"}
	}},
	{"a repetition has the same arguments", "it repeats CreateSnapshot", func(s *story) {
		s.cut(false)
		s.cut(true).Parameters = map[string]string{"tier": "b"}
	}},
	{"a repetition has the same arguments", "it repeats NodeStageVolume", func(s *story) {
		s.stage("n1")
		s.fail("Internal")
		s.stage("n1").VolumeCapability = use(readers)
	}},
	{"a detach has the secrets of its attachment", "volume v was attached to node n1", func(s *story) {
		s.attach("n1")
		s.detach("n1").Secrets = nil
	}},
	{"a volume has one staging path on a node", "volume v may be staged on node n1", func(s *story) {
		s.stage("n1")
		s.stage("n1").StagingTargetPath = "/other"
	}},
	{"required fields are set", "node_id is empty", func(s *story) { s.detach("") }},
	{"required fields are set", "node_id is empty", func(s *story) { s.attach("") }},
	{"required fields are set", "name is empty", func(s *story) { s.create().Name = "" }},
	{"required fields are set", "volume_capabilities is empty", func(s *story) {
		s.create().VolumeCapabilities = nil
	}},
	{"required fields are set", "name is empty", func(s *story) { s.cut(true).Name = "" }},
	{"required fields are set", "source_volume_id is empty", func(s *story) {
		s.cut(true).SourceVolumeId = ""
	}},
	{"required fields are set", "snapshot_id is empty", func(s *story) {
		s.call("n1", "DeleteSnapshot", &spec.DeleteSnapshotRequest{}, nil)
	}},
	{"required fields are set", "capacity_range is empty", func(s *story) {
		s.call("n1", "ControllerExpandVolume", &spec.ControllerExpandVolumeRequest{VolumeId: "v"}, nil)
	}},
	{"required fields are set", "volume_capability is empty", func(s *story) {
		s.attach("n1").VolumeCapability = nil
	}},
	{"required fields are set", "volume_capability is empty", func(s *story) {
		s.stage("n1").VolumeCapability = nil
	}},
	{"required fields are set", "volume_capability is empty", func(s *story) {
		s.publish("n1", "/t").VolumeCapability = use(spec.VolumeCapability_AccessMode_UNKNOWN)
	}},
	{"required fields are set", "staging_target_path is not absolute", func(s *story) {
		s.publish("n1", "/t").StagingTargetPath = ""
	}},
	{"required fields are set", "volume_id is empty", func(s *story) { s.stage("n1").VolumeId = "" }},
	{"required fields are set", "the path is not absolute", func(s *story) { s.unpublish("n1", "t") }},
	{"fields are within their limits", "name has 129 bytes", func(s *story) {
		s.create().Name = strings.Repeat("x", 129)
	}},
	{"fields are within their limits", "node_id has 257 bytes", func(s *story) {
		s.attach(strings.Repeat("x", 257))
	}},
	{"fields are within their limits", "parameters has 4097 bytes", func(s *story) {
		s.create().Parameters = map[string]string{"": strings.Repeat("x", 4097)}
	}},
	{"fields are within their limits", "mutable_parameters has", func(s *story) {
		s.create().MutableParameters = map[string]string{"": strings.Repeat("x", 4097)}
	}},
	{"fields are within their limits", "volume_context has", func(s *story) {
		s.stage("n1").VolumeContext = map[string]string{"": strings.Repeat("x", 4097)}
	}},
	{"fields are within their limits", "publish_context has", func(s *story) {
		s.stage("n1").PublishContext = map[string]string{"": strings.Repeat("x", 4097)}
	}},
	{"fields are within their limits", "asks for 2 to 1 bytes", func(s *story) {
		s.create().CapacityRange = &spec.CapacityRange{RequiredBytes: 2, LimitBytes: 1}
	}},
	{"fields are within their limits", "asks for -1 to 0 bytes", func(s *story) {
		s.create().CapacityRange = &spec.CapacityRange{RequiredBytes: -1}
	}},
	{"fields are within their limits", "asks for 0 to 0 bytes", func(s *story) {
		s.create().CapacityRange = &spec.CapacityRange{}
	}},
}
