package csi_test

import (
	"maps"
	"testing"
	"time"

	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

var (
	zoneA = &structs.CSITopology{Segments: map[string]string{"zone": "a"}}
	zoneB = &structs.CSITopology{Segments: map[string]string{"zone": "b"}}
	rackA = &structs.CSITopology{Segments: map[string]string{"zone": "a", "rack": "1"}}
)

// askedVolume is a request for a volume after edits.
func askedVolume(edits ...func(*structs.CSIVolume)) *structs.CSIVolume {
	v := &structs.CSIVolume{
		ID: "v", Namespace: "prod",
		CSIVolumeSpec: structs.CSIVolumeSpec{
			RequestedCapabilities: []*structs.CSIVolumeCapability{{
				AccessMode:     structs.CSISingleNodeWriter,
				AttachmentMode: structs.CSIFileSystem,
			}},
		},
	}
	for _, edit := range edits {
		edit(v)
	}
	return v
}

func ofFastClass(v *structs.CSIVolume) { v.Class = "fast" }

// richClass gives the class "fast" a value in each field that volumes copy.
func richClass(c *storage.VolumeClass) {
	c.SecretsFrom = "nomad/volumes/{namespace}/{id}"
	c.MountOptions = &structs.CSIMountOptions{FSType: "xfs", MountFlags: []string{"noatime"}}
	c.AllowedTopologies = []*structs.CSITopology{zoneA}
	c.OnNodeLoss = structs.LossFence
	c.Reclaim = storage.ReclaimDelete
	c.DeleteAfter = new(time.Hour)
	c.Trim = new(24 * time.Hour)
}

func TestCompleteVolume_CopiesTheValuesOfTheClass(t *testing.T) {
	s := newClassStore(t)
	wantFault(t, s.put(richClass), "", "")
	v := askedVolume(ofFastClass, func(v *structs.CSIVolume) {
		v.Parameters = map[string]string{"more": "x", "type": "image"}
	})
	wantFault(t, csi.CompleteVolume(s.Read(), v, nil, true), "", "")
	switch {
	case v.PluginID != "p":
		t.Errorf("the plugin is %q", v.PluginID)
	case !maps.Equal(v.Parameters, map[string]string{"type": "image", "more": "x"}):
		t.Errorf("the parameters are %v", v.Parameters)
	case v.SecretsFrom != "nomad/volumes/prod/v":
		t.Errorf("the secrets are from %q", v.SecretsFrom)
	case v.MountOptions.FSType != "xfs" || len(v.MountOptions.MountFlags) != 1:
		t.Errorf("the mount options are %v", v.MountOptions)
	case v.OnNodeLoss != structs.LossFence:
		t.Errorf("on_node_loss is %q", v.OnNodeLoss)
	case v.Reclaim != storage.ReclaimDelete || *v.DeleteAfter != time.Hour:
		t.Errorf("it is reclaimed by %q after %v", v.Reclaim, v.DeleteAfter)
	case v.Trim == nil || *v.Trim != 24*time.Hour:
		t.Errorf("it is trimmed every %v", v.Trim)
	case len(v.RequestedTopologies.Required) != 1 || v.RequestedTopologies.Required[0] != zoneA:
		t.Errorf("the topologies are %v", v.RequestedTopologies)
	}
	c := csi.Class(s.Read(), "fast")
	if len(c.Parameters) != 1 {
		t.Errorf("the class got the parameters %v", c.Parameters)
	}

	v = askedVolume(ofFastClass)
	wantFault(t, csi.CompleteVolume(s.Read(), v, nil, false), "", "")
	if v.RequestedTopologies != nil {
		t.Errorf("a volume that exists is to be moved to %v", v.RequestedTopologies)
	}
}

func TestCompleteVolume_KeepsTheValuesOfTheRequest(t *testing.T) {
	s := newClassStore(t)
	wantFault(t, s.put(richClass), "", "")
	v := askedVolume(ofFastClass, func(v *structs.CSIVolume) {
		v.PluginID = "p"
		v.SecretsFrom = "nomad/volumes/prod/own"
		v.MountOptions = &structs.CSIMountOptions{FSType: "ext4"}
		v.OnNodeLoss = structs.LossHold
		v.Trim = new(time.Duration(0))
		v.RequestedTopologies = &structs.CSITopologyRequest{Required: []*structs.CSITopology{rackA}}
	})
	wantFault(t, csi.CompleteVolume(s.Read(), v, nil, true), "", "")
	if v.SecretsFrom != "nomad/volumes/prod/own" || v.MountOptions.FSType != "ext4" ||
		len(v.MountOptions.MountFlags) != 1 || v.OnNodeLoss != structs.LossHold ||
		*v.Trim != 0 || v.RequestedTopologies.Required[0] != rackA {
		t.Errorf("got %+v with %v", v, v.MountOptions)
	}

	v = askedVolume(ofFastClass, func(v *structs.CSIVolume) {
		v.DeleteAfter, v.Reclaim = new(time.Minute), storage.ReclaimDelete
	})
	wantFault(t, csi.CompleteVolume(s.Read(), v, nil, true), "", "")
	if *v.DeleteAfter != time.Minute {
		t.Errorf("it is reclaimed after %v", v.DeleteAfter)
	}
	v = askedVolume(ofFastClass, func(v *structs.CSIVolume) { v.Reclaim = storage.ReclaimRetain })
	wantFault(t, csi.CompleteVolume(s.Read(), v, nil, true), "", "")
	if v.Reclaim != storage.ReclaimRetain || v.DeleteAfter != nil {
		t.Errorf("it is reclaimed by %q after %v", v.Reclaim, v.DeleteAfter)
	}

	v = askedVolume(ofFastClass, func(v *structs.CSIVolume) { v.Secrets = structs.Secrets{"k": "v"} })
	wantFault(t, csi.CompleteVolume(s.Read(), v, nil, true), "", "")
	if v.SecretsFrom != "" {
		t.Errorf("a volume with secrets of its own reads %q", v.SecretsFrom)
	}

	v = askedVolume(ofFastClass, func(v *structs.CSIVolume) {
		v.RequestedCapabilities[0].AttachmentMode = structs.CSIBlockDevice
	})
	wantFault(t, csi.CompleteVolume(s.Read(), v, nil, true), "", "")
	if v.MountOptions != nil {
		t.Errorf("a block device has the mount options %v", v.MountOptions)
	}
}

func TestCompleteVolume_RejectsWhatContradictsTheClass(t *testing.T) {
	s := newClassStore(t)
	wantFault(t, s.put(richClass), "", "")
	for _, c := range []struct {
		kind structs.Kind
		text string
		edit func(*structs.CSIVolume)
	}{
		{structs.KindInvalid, `class "fast" has the plugin "p"`, func(v *structs.CSIVolume) { v.PluginID = "q" }},
		{structs.KindInvalid, `class "fast" has another value for "type"`,
			func(v *structs.CSIVolume) { v.Parameters = map[string]string{"type": "directory"} }},
		{structs.KindInvalid, "topology 2: class \"fast\" does not allow it", func(v *structs.CSIVolume) {
			v.RequestedTopologies = &structs.CSITopologyRequest{Required: []*structs.CSITopology{rackA, zoneB}}
		}},
		{structs.KindPrecondition, `there is no volume class "none"`,
			func(v *structs.CSIVolume) { v.Class = "none" }},
	} {
		wantFault(t, csi.CompleteVolume(s.Read(), askedVolume(ofFastClass, c.edit), nil, true), c.kind, c.text)
	}
}

func TestCompleteVolume_TakesTheDefaultClass(t *testing.T) {
	s := newClassStore(t)
	wantFault(t, csi.CompleteVolume(s.Read(), askedVolume(), nil, true), structs.KindInvalid, "no default class")
	wantFault(t, s.put(func(c *storage.VolumeClass) { c.Default = true }), "", "")
	v := askedVolume()
	wantFault(t, csi.CompleteVolume(s.Read(), v, nil, true), "", "")
	if v.Class != "fast" || v.PluginID != "p" || csi.PluginOf(s.Read(), askedVolume()) != "p" {
		t.Errorf("got the class %q and the plugin %q", v.Class, v.PluginID)
	}
	// A volume that exists already was not made by the default class.
	err := csi.CompleteVolume(s.Read(), askedVolume(), nil, false)
	wantFault(t, err, structs.KindInvalid, "plugin_id is required")
	v = askedVolume(func(v *structs.CSIVolume) { v.PluginID = "q" })
	wantFault(t, csi.CompleteVolume(s.Read(), v, nil, true), "", "")
	if v.Class != "" || csi.PluginOf(s.Read(), v) != "q" {
		t.Errorf("a volume with a plugin got the class %q", v.Class)
	}
}

// The file that made a volume still describes it, whatever the class has become.
func TestCompleteVolume_KeepsAVolumeThatWasMade(t *testing.T) {
	s := newClassStore(t)
	wantFault(t, s.put(richClass), "", "")
	file := func() *structs.CSIVolume {
		return askedVolume(ofFastClass, func(v *structs.CSIVolume) {
			v.Parameters = map[string]string{"more": "x"}
			v.MountOptions = &structs.CSIMountOptions{FSType: "ext4"}
		})
	}
	old := file()
	wantFault(t, csi.CompleteVolume(s.Read(), old, nil, true), "", "")
	old.State = structs.VolumeReady
	wantFault(t, s.put(), "", "")

	v := file()
	wantFault(t, csi.CompleteVolume(s.Read(), v, old, true), "", "")
	if v.PluginID != "p" || !maps.Equal(v.Parameters, old.Parameters) || v.MountOptions.FSType != "ext4" ||
		len(v.MountOptions.MountFlags) != 1 {
		t.Errorf("got %+v with %v", v, v.MountOptions)
	}

	// Other parameters stay as they are, and the state function rejects them.
	v = askedVolume(ofFastClass, func(v *structs.CSIVolume) { v.Parameters = map[string]string{"more": "y"} })
	wantFault(t, csi.CompleteVolume(s.Read(), v, old, true), "", "")
	if maps.Equal(v.Parameters, old.Parameters) {
		t.Error("a change of the parameters is lost")
	}
}

func TestVolumePut_AgreesWithItsClass(t *testing.T) {
	s := newClassStore(t)
	wantFault(t, s.put(), "", "")
	for text, edit := range map[string]func(*structs.CSIVolume){
		`volume class "fast" has the plugin "p"`: func(v *structs.CSIVolume) { v.PluginID = "q" },
		`the parameter "type" differs`:           func(v *structs.CSIVolume) { v.Parameters = nil },
	} {
		v := askedVolume(ofFastClass, func(v *structs.CSIVolume) {
			v.Namespace = ""
			v.PluginID = "p"
			v.Parameters = map[string]string{"type": "image"}
		}, edit)
		wantFault(t, s.putVolume(v), structs.KindConflict, text)
	}
	v := askedVolume(func(v *structs.CSIVolume) {
		v.Namespace = ""
		v.PluginID = "p"
		v.Class = "none"
	})
	wantFault(t, s.putVolume(v), structs.KindPrecondition, `there is no volume class "none"`)

	s.use("v")
	wantFault(t, s.put(func(c *storage.VolumeClass) { c.Name = "slow" }), "", "")
	v = askedVolume(func(v *structs.CSIVolume) {
		v.Namespace = ""
		v.PluginID = "p"
		v.Class = "slow"
	})
	wantFault(t, s.putVolume(v), structs.KindConflict, `Class of volume "v" cannot change`)
}
