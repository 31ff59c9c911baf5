package csitrace

import (
	"fmt"
	"maps"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
)

// offer has the capabilities that an instance has answered, each with the service that it is of:
// "controller EXPAND_VOLUME".
type offer map[string]bool

// needs are the capabilities without which an RPC is not called.
var needs = map[string]string{
	"CreateVolume":               "controller CREATE_DELETE_VOLUME",
	"DeleteVolume":               "controller CREATE_DELETE_VOLUME",
	"ControllerPublishVolume":    "controller PUBLISH_UNPUBLISH_VOLUME",
	"ControllerUnpublishVolume":  "controller PUBLISH_UNPUBLISH_VOLUME",
	"ListVolumes":                "controller LIST_VOLUMES",
	"ControllerGetVolume":        "controller GET_VOLUME",
	"ControllerListVolumeHealth": "controller LIST_VOLUME_HEALTH",
	"ControllerGetVolumeHealth":  "controller GET_VOLUME_HEALTH",
	"ControllerModifyVolume":     "controller MODIFY_VOLUME",
	"GetCapacity":                "controller GET_CAPACITY",
	"CreateSnapshot":             "controller CREATE_DELETE_SNAPSHOT",
	"DeleteSnapshot":             "controller CREATE_DELETE_SNAPSHOT",
	"ListSnapshots":              "controller LIST_SNAPSHOTS",
	"GetSnapshot":                "controller GET_SNAPSHOT",
	"ControllerExpandVolume":     "controller EXPAND_VOLUME",
	"NodeStageVolume":            "node STAGE_UNSTAGE_VOLUME",
	"NodeUnstageVolume":          "node STAGE_UNSTAGE_VOLUME",
	"NodeGetVolumeStats":         "node GET_VOLUME_STATS",
	"NodeExpandVolume":           "node EXPAND_VOLUME",
	"NodeGetVolumeHealth":        "node GET_VOLUME_HEALTH",
	"NodeGetStorageHealth":       "node GET_STORAGE_HEALTH",
	"CreateVolumeGroupSnapshot":  "group CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT",
	"DeleteVolumeGroupSnapshot":  "group CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT",

	"GroupControllerGetCapabilities": "plugin GROUP_CONTROLLER_SERVICE",
	// Each controller has these two.
	"ControllerGetCapabilities":  "plugin CONTROLLER_SERVICE",
	"ValidateVolumeCapabilities": "plugin CONTROLLER_SERVICE",
}

// notOffered: an RPC is called only after the instance has answered its capability.
func notOffered(l *ledger, c *Call) string {
	need := needs[c.RPC]
	if need == "" || l.offers[c.Instance][need] {
		return ""
	}
	return fmt.Sprintf("instance %s does not offer %s", c.Instance, need)
}

// argumentNotOffered: an argument that needs a capability is set only with it.
func argumentNotOffered(l *ledger, c *Call) string {
	for need, set := range argumentNeeds(c) {
		if set && !l.offers[c.Instance][need] {
			return fmt.Sprintf("an argument needs %s, which instance %s does not offer", need, c.Instance)
		}
	}
	return ""
}

// argumentNeeds returns the capabilities that arguments of a request need, and whether they are set.
func argumentNeeds(c *Call) map[string]bool {
	switch r := c.Request.(type) {
	case *spec.CreateVolumeRequest:
		from := r.GetVolumeContentSource()
		return map[string]bool{
			"controller CREATE_DELETE_SNAPSHOT":       from.GetSnapshot() != nil,
			"controller CLONE_VOLUME":                 from.GetVolume() != nil,
			"controller MODIFY_VOLUME":                len(r.GetMutableParameters()) > 0,
			"plugin VOLUME_ACCESSIBILITY_CONSTRAINTS": r.GetAccessibilityRequirements() != nil,
		}
	case *spec.ControllerPublishVolumeRequest:
		return map[string]bool{
			"controller PUBLISH_READONLY":         r.GetReadonly(),
			"controller SINGLE_NODE_MULTI_WRITER": hasNewMode(r),
		}
	case *spec.NodeStageVolumeRequest:
		return nodeArguments(r.GetVolumeCapability())
	case *spec.NodePublishVolumeRequest:
		return nodeArguments(r.GetVolumeCapability())
	}
	return nil
}

func nodeArguments(v *spec.VolumeCapability) map[string]bool {
	return map[string]bool{
		"node VOLUME_MOUNT_GROUP":       v.GetMount().GetVolumeMountGroup() != "",
		"node SINGLE_NODE_MULTI_WRITER": isNewMode(v.GetAccessMode().GetMode()),
	}
}

func hasNewMode(r *spec.ControllerPublishVolumeRequest) bool {
	return isNewMode(r.GetVolumeCapability().GetAccessMode().GetMode())
}

// isNewMode reports whether a mode is known only to plugins with SINGLE_NODE_MULTI_WRITER.
func isNewMode(m spec.VolumeCapability_AccessMode_Mode) bool {
	return m == spec.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER ||
		m == spec.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
}

// learnOffer records the capabilities that an instance answers.
func (l *ledger) learnOffer(c *Call) {
	now := offer{}
	switch a := c.Answer.(type) {
	case *spec.GetPluginCapabilitiesResponse:
		for _, p := range a.GetCapabilities() {
			if s := p.GetService(); s != nil {
				now["plugin "+s.GetType().String()] = true
			}
			if e := p.GetVolumeExpansion(); e != nil {
				now["plugin "+e.GetType().String()] = true
			}
		}
	case *spec.ControllerGetCapabilitiesResponse:
		for _, p := range a.GetCapabilities() {
			now["controller "+p.GetRpc().GetType().String()] = true
		}
	case *spec.GroupControllerGetCapabilitiesResponse:
		for _, p := range a.GetCapabilities() {
			now["group "+p.GetRpc().GetType().String()] = true
		}
	case *spec.NodeGetCapabilitiesResponse:
		for _, p := range a.GetCapabilities() {
			now["node "+p.GetRpc().GetType().String()] = true
		}
	}
	if l.offers[c.Instance] == nil {
		l.offers[c.Instance] = offer{}
	}
	maps.Copy(l.offers[c.Instance], now)
	maps.Copy(l.any, now)
}
