package volumes

import (
	"testing"

	"go.uber.org/goleak"

	"berth/fsm"
	"berth/structs"
	"berth/test/oneserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a log of one server with nodes of the plugin "p". The plugin knows each node by its ID with "ext-"
// before it, and each volume by its ID with "x-" before it.
type world struct {
	t *testing.T
	*oneserver.Log
}

func newWorld(t *testing.T) world { return world{t, oneserver.NewLog()} }

// addNode adds a node with a controller, which is in a zone unless that is "".
func (w world) addNode(id, zone string, has *structs.CSIControllerInfo) {
	info := structs.CSIInfo{PluginID: "p", Provider: "p.csi", Healthy: true, RequiresControllerPlugin: true}
	half := &structs.CSIPluginInstance{Kind: structs.CSIKindNode, NodeID: id, CSIInfo: info}
	half.NodeInfo = &structs.CSINodeInfo{ID: "ext-" + id}
	if zone != "" {
		half.NodeInfo.AccessibleTopology = inZone(zone)
	}
	controller := &structs.CSIPluginInstance{Kind: structs.CSIKindController, NodeID: id, CSIInfo: info}
	controller.ControllerInfo = has
	put(w, fsm.NodeRegister, &structs.NodeRegisterRequest{
		Node: &structs.Node{ID: id, SecretID: "s", Name: id, Status: structs.NodeReady},
		CSI:  []*structs.CSIPluginInstance{controller, half},
	})
}

// addVolume registers a ready volume.
func (w world) addVolume(id string, zones ...string) {
	v := &structs.CSIVolume{
		ID: id,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			PluginID: "p", ExternalID: "x-" + id,
			RequestedCapabilities: []*structs.CSIVolumeCapability{{
				AccessMode: structs.CSIMultiNodeMultipleWriter, AttachmentMode: structs.CSIFileSystem,
			}},
		},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady},
	}
	for _, z := range zones {
		v.Topologies = append(v.Topologies, inZone(z))
	}
	put(w, fsm.VolumePut, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
}

func put[P any](w world, c fsm.Command[P], p *P) {
	w.t.Helper()
	oneserver.Put(w.t, w, c, p)
}

func inZone(zone string) *structs.CSITopology {
	return &structs.CSITopology{Segments: map[string]string{"zone": zone}}
}
