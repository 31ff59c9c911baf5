package csitrace

import (
	"strings"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
)

// accepted are traces of an orchestrator without faults.
var accepted = map[string]func(s *story){
	"a volume is created, used on one node after another and deleted": func(s *story) {
		s.create()
		s.bring("n1")
		s.release("n1")
		s.bring("n2")
		s.release("n2")
		s.remove()
	},
	"each call is repeated after a failure": func(s *story) {
		s.create()
		s.fail("Unavailable")
		s.create()
		s.attach("n1")
		s.fail("DeadlineExceeded")
		s.attach("n1")
		s.stage("n1")
		s.fail("Internal")
		s.stage("n1")
		s.publish("n1", "/t")
		s.fail("Aborted")
		s.publish("n1", "/t")
		s.unpublish("n1", "/t")
		s.fail("Unavailable")
		s.unpublish("n1", "/t")
		s.unstage("n1")
		s.fail("Unavailable")
		s.unstage("n1")
		s.detach("n1")
		s.fail("Unavailable")
		s.detach("n1")
		s.remove()
		s.fail("Unavailable")
		s.remove()
	},
	"each call is undone after a failure": func(s *story) {
		s.create()
		s.attach("n1")
		s.stage("n1")
		s.publish("n1", "/t")
		s.fail("Unavailable")
		s.release("n1")
		s.attach("n2")
		s.fail("Unavailable")
		s.detach("n2")
		s.attach("n1")
		s.stage("n1")
		s.fail("Unavailable")
		s.unstage("n1")
		s.detach("n1")
	},
	"an attach follows a detach of unknown outcome": func(s *story) {
		s.create()
		s.attach("n1")
		s.detach("n1")
		s.fail("Unavailable")
		s.attach("n1")
		s.stage("n1")
	},
	"arguments are corrected after a rejection": func(s *story) {
		s.create()
		s.fail("InvalidArgument")
		s.create().Parameters = map[string]string{"pool": "b"}
		s.attach("n1").Secrets = map[string]string{"key": "0"}
		s.fail("Unauthenticated")
		s.attach("n1")
	},
	"a creation without space is made smaller": func(s *story) {
		s.create().CapacityRange = &spec.CapacityRange{RequiredBytes: 2}
		s.fail("ResourceExhausted")
		s.create().CapacityRange = &spec.CapacityRange{RequiredBytes: 1}
	},
	"a creation is repeated with renewed secrets": func(s *story) {
		s.create().Secrets = map[string]string{"key": "0"}
		s.fail("Unavailable")
		s.create().Secrets = map[string]string{"key": "1"}
	},
	"a name is used again after the deletion of its volume": func(s *story) {
		s.create()
		s.remove()
		s.create().Parameters = map[string]string{"pool": "b"}
	},
	"a rejected deletion leaves the volume": func(s *story) {
		s.create()
		s.remove()
		s.fail("FailedPrecondition")
		s.bring("n1")
	},
	"a power loss ends the mounts": func(s *story) {
		s.create()
		s.bring("n1")
		s.call("n1", PowerLoss, nil, nil)
		s.detach("n1")
		s.bring("n2")
	},
	"two nodes have a volume of several nodes": func(s *story) {
		s.create()
		for i, node := range []string{"n1", "n2"} {
			s.attach(node).VolumeCapability = use(oneOfMany)
			s.stage(node).VolumeCapability = use(oneOfMany)
			p := s.publish(node, "/t")
			p.VolumeCapability = use(oneOfMany)
			p.Readonly = i > 0
		}
	},
	"two nodes stage at the same time": func(s *story) {
		s.create()
		for _, node := range []string{"n1", "n2"} {
			s.attach(node).VolumeCapability = use(anyWriters)
		}
		s.stage("n1")
		s.stage("n2")
		s.overlap()
	},
	"a group is taken, restored and deleted": func(s *story) {
		s.create()
		s.offerGroups()
		s.cutGroup()
		s.cutGroup()
		s.restore()
		s.removeGroup("other", "snap")
	},
	"a volume is looked at during a call": func(s *story) {
		s.create()
		s.offerController("n1", spec.ControllerServiceCapability_RPC_GET_VOLUME)
		s.offerController("n1", spec.ControllerServiceCapability_RPC_GET_VOLUME_HEALTH)
		s.attach("n1")
		s.call("n1", "ControllerGetVolume", &spec.ControllerGetVolumeRequest{VolumeId: "v"}, nil)
		s.call("n1", "ControllerGetVolumeHealth", &spec.ControllerGetVolumeHealthRequest{VolumeId: "v"}, nil)
		s.overlap()
	},
	"a volume grows while it is staged": func(s *story) {
		s.create()
		s.bring("n1")
		s.grow()
		s.growOn("n1")
	},
	"a volume grows offline": func(s *story) {
		s.offerExpansion("n1", spec.PluginCapability_VolumeExpansion_OFFLINE)
		s.create()
		s.attach("n1")
		s.detach("n1")
		s.grow()
	},
	"a plugin attaches nothing": func(s *story) {
		s.trace = nil
		s.offerNode("n1", spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
		s.stage("n1").PublishContext = nil
		s.publish("n1", "/t").PublishContext = nil
	},
	"a snapshot that may exist is learned after its volume": func(s *story) {
		s.create()
		s.cut(false)
		s.fail("ResourceExhausted")
		s.remove()
		s.cut(true)
		s.removeSnapshot()
	},
	"a volume is restored": func(s *story) {
		s.create()
		s.cut(false)
		s.cut(true)
		s.restore()
		s.removeSnapshot()
	},
}

func TestCheck_AcceptsWhatTheSpecificationAllows(t *testing.T) {
	for name, tell := range accepted {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			tell(s)
			for _, f := range Check(s.trace) {
				t.Error(f)
			}
		})
	}
}

func TestLeft_NamesWhatIsNotUndone(t *testing.T) {
	s := newStory()
	s.bring("n1")
	s.release("n1")
	if left := Left(s.trace); len(left) > 0 {
		t.Errorf("left after the release: %q", left)
	}
	s.attach("n2")
	s.fail("Internal")
	left := Left(s.trace)
	if len(left) != 1 || !strings.HasPrefix(left[0], "ControllerPublishVolume(volume v, node n2)") {
		t.Errorf("left after an attach that failed: %q", left)
	}
}
