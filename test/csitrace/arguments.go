package csitrace

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
)

// The limits of fields without one of their own (CSI spec, "Size Limits"), in bytes.
const (
	maxString = 128
	maxMap    = 4 << 10
	maxNodeID = 256
)

// changedVolumeContext: the volume_context of a volume is that of the answer which created it.
func changedVolumeContext(l *ledger, c *Call) string {
	r, ok := c.Request.(interface{ GetVolumeContext() map[string]string })
	v := l.volumes[volumeOf(c)]
	if !ok || v == nil || maps.Equal(r.GetVolumeContext(), v.context) {
		return ""
	}
	return fmt.Sprintf("volume_context of volume %s is %v, and the plugin answered %v",
		volumeOf(c), r.GetVolumeContext(), v.context)
}

// changedPublishContext: the publish_context is that of the last ControllerPublishVolume for the node.
func changedPublishContext(l *ledger, c *Call) string {
	r, ok := c.Request.(interface{ GetPublishContext() map[string]string })
	if !ok {
		return ""
	}
	var want map[string]string
	e := l.attached[place{volume: volumeOf(c), node: c.Node}]
	if e != nil && e.made != nil {
		want = e.made.Answer.(*spec.ControllerPublishVolumeResponse).GetPublishContext()
	}
	if maps.Equal(r.GetPublishContext(), want) {
		return ""
	}
	return fmt.Sprintf("publish_context of volume %s on node %s is %v, and ControllerPublishVolume answered %v",
		volumeOf(c), c.Node, r.GetPublishContext(), want)
}

// corrected are the codes after which the caller has to change the arguments (CSI spec, "Error Scheme").
var corrected = map[string]bool{
	"InvalidArgument": true, "AlreadyExists": true, "OutOfRange": true, "NotFound": true,
	"PermissionDenied": true, "Unauthenticated": true, "FailedPrecondition": true, "Unimplemented": true,
}

// changedRepetition: a call that repeats another one, for an effect or a name, has the same arguments.
func changedRepetition(l *ledger, c *Call) string {
	last := l.lastLike(c)
	if last == nil || isRejected(last) {
		return ""
	}
	var changed []string
	now := c.Request.ProtoReflect()
	then := last.Request.ProtoReflect()
	fields := now.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		// The secrets of a creation do not make a volume incompatible (CSI spec, CreateVolume errors).
		renewed := f.Name() == "secrets" && nameOf(c) != ""
		if !renewed && !now.Get(f).Equal(then.Get(f)) {
			changed = append(changed, string(f.Name()))
		}
	}
	if len(changed) == 0 {
		return ""
	}
	return fmt.Sprintf("it repeats %s with another %s: now %v, then %v",
		last, strings.Join(changed, ", "), c.Request, last.Request)
}

// isRejected reports whether a call has ended with a code after which the caller changes the arguments. The
// plugin has no space for a volume: then another size or place may have some.
func isRejected(c *Call) bool {
	return corrected[c.Code] || c.RPC == "CreateVolume" && c.Code == "ResourceExhausted"
}

// lastLike returns the last call of which a call is a repetition, nil if it is none.
func (l *ledger) lastLike(c *Call) *Call {
	var made *creation
	switch c.RPC {
	case "CreateVolume":
		made = l.creations[nameOf(c)]
	case "CreateSnapshot":
		made = l.cuts[nameOf(c)]
	}
	if made != nil {
		return made.last
	}
	effects, at, undoes := l.effectOf(c)
	e := effects[at]
	if e == nil || undoes || e.undo != nil {
		return nil
	}
	return e.last
}

// secretive is a request with secrets.
type secretive interface{ GetSecrets() map[string]string }

// changedSecrets: ControllerUnpublishVolume SHOULD have the secrets of ControllerPublishVolume.
func changedSecrets(l *ledger, c *Call) string {
	if c.RPC != "ControllerUnpublishVolume" {
		return ""
	}
	e := l.attached[place{volume: volumeOf(c), node: nodeOf(c)}]
	if e == nil {
		return ""
	}
	if maps.Equal(c.Request.(secretive).GetSecrets(), e.last.Request.(secretive).GetSecrets()) {
		return ""
	}
	return fmt.Sprintf("volume %s was attached to node %s with other secrets: %s",
		volumeOf(c), nodeOf(c), e.last)
}

// secondStagingPath: a volume has exactly one staging path on a node.
func secondStagingPath(l *ledger, c *Call) string {
	if c.RPC != "NodeStageVolume" {
		return ""
	}
	for at, e := range l.staged {
		if at.volume == volumeOf(c) && at.node == c.Node && at.path != pathOf(c) {
			return fmt.Sprintf("volume %s may be staged on node %s at another path: %s", at.volume, at.node, e.last)
		}
	}
	return ""
}

// missingField: the REQUIRED fields of a request are set, and paths are absolute.
func missingField(l *ledger, c *Call) string {
	missing := map[string]bool{
		"node_id is empty": c.RPC == "ControllerUnpublishVolume" && nodeOf(c) == "",
	}
	switch r := c.Request.(type) {
	case *spec.CreateVolumeRequest:
		missing["name is empty"] = r.GetName() == ""
		missing["volume_capabilities is empty"] = len(r.GetVolumeCapabilities()) == 0
	case *spec.CreateSnapshotRequest:
		missing["name is empty"] = r.GetName() == ""
		missing["source_volume_id is empty"] = r.GetSourceVolumeId() == ""
	case *spec.DeleteSnapshotRequest:
		missing["snapshot_id is empty"] = r.GetSnapshotId() == ""
	case *spec.ControllerPublishVolumeRequest:
		missing["node_id is empty"] = r.GetNodeId() == ""
		missing["volume_capability is empty"] = isBlank(r.GetVolumeCapability())
	case *spec.ControllerExpandVolumeRequest:
		missing["capacity_range is empty"] = r.GetCapacityRange() == nil
	case *spec.NodeStageVolumeRequest:
		missing["volume_capability is empty"] = isBlank(r.GetVolumeCapability())
	case *spec.NodePublishVolumeRequest:
		missing["volume_capability is empty"] = isBlank(r.GetVolumeCapability())
		stages := l.offers[c.Instance]["node STAGE_UNSTAGE_VOLUME"]
		missing["staging_target_path is not absolute"] = stages && !filepath.IsAbs(r.GetStagingTargetPath())
	}
	missing["volume_id is empty"] = lacksVolumeID(c)
	missing["the path is not absolute"] = lacksPath(c)
	for fault, is := range missing {
		if is {
			return fault
		}
	}
	return ""
}

func isBlank(v *spec.VolumeCapability) bool {
	return v.GetAccessType() == nil ||
		v.GetAccessMode().GetMode() == spec.VolumeCapability_AccessMode_UNKNOWN
}

func lacksVolumeID(c *Call) bool {
	r, ok := c.Request.(interface{ GetVolumeId() string })
	return ok && r.GetVolumeId() == ""
}

func lacksPath(c *Call) bool {
	switch c.RPC {
	case "NodeStageVolume", "NodeUnstageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeExpandVolume":
		return !filepath.IsAbs(pathOf(c))
	}
	return false
}

// exceededLimit: no identifier, map or size exceeds its limit.
func exceededLimit(_ *ledger, c *Call) string {
	for field, value := range map[string]string{
		"name": nameOf(c), "volume_id": volumeOf(c), "snapshot_id": snapshotOf(c),
	} {
		if len(value) > maxString {
			return fmt.Sprintf("%s has %d bytes, more than %d", field, len(value), maxString)
		}
	}
	if n := len(nodeOf(c)); n > maxNodeID {
		return fmt.Sprintf("node_id has %d bytes, more than %d", n, maxNodeID)
	}
	for field, value := range mapsOf(c) {
		if n := sizeOf(value); n > maxMap {
			return fmt.Sprintf("%s has %d bytes, more than %d", field, n, maxMap)
		}
	}
	return badRange(c)
}

// mapsOf returns the maps of a request by their fields.
func mapsOf(c *Call) map[string]map[string]string {
	all := map[string]map[string]string{}
	if r, ok := c.Request.(interface{ GetVolumeContext() map[string]string }); ok {
		all["volume_context"] = r.GetVolumeContext()
	}
	if r, ok := c.Request.(interface{ GetPublishContext() map[string]string }); ok {
		all["publish_context"] = r.GetPublishContext()
	}
	if r, ok := c.Request.(interface{ GetParameters() map[string]string }); ok {
		all["parameters"] = r.GetParameters()
	}
	if r, ok := c.Request.(interface{ GetMutableParameters() map[string]string }); ok {
		all["mutable_parameters"] = r.GetMutableParameters()
	}
	return all
}

func sizeOf(m map[string]string) (bytes int) {
	for key, value := range m {
		bytes += len(key) + len(value)
	}
	return bytes
}

func badRange(c *Call) string {
	r, ok := c.Request.(interface{ GetCapacityRange() *spec.CapacityRange })
	if !ok || r.GetCapacityRange() == nil {
		return ""
	}
	least := r.GetCapacityRange().GetRequiredBytes()
	most := r.GetCapacityRange().GetLimitBytes()
	if least < 0 || most < 0 || least == 0 && most == 0 || most > 0 && least > most {
		return fmt.Sprintf("capacity_range asks for %d to %d bytes", least, most)
	}
	return ""
}
