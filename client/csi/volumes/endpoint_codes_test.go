package volumes

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/kit"
)

// kindsBut returns codes with other kinds for some.
func kindsBut(other map[string]structs.Kind) map[string]structs.Kind {
	all := maps.Clone(csitest.CodeKinds)
	maps.Copy(all, other)
	return all
}

// asked are the codes of a call that another controller, or the same node at once, may repeat: two calls do
// no harm.
var asked = kindsBut(map[string]structs.Kind{
	"Unavailable":       structs.KindUnavailable,
	"Aborted":           structs.KindUnavailable,
	"ResourceExhausted": structs.KindUnavailable,
})

// full are the codes of a call that reports to the servers, as an answer, that the storage has no space.
var full = kindsBut(map[string]structs.Kind{"ResourceExhausted": ""})

var grown = nodecalls.CSICapacityRange{RequiredBytes: 8 << 20}

// codeCase is a call of a node that has the plugin called once for the volume id.
type codeCase struct {
	rpc  string
	want map[string]structs.Kind
	call func(r *served, id string) error
}

func codeCases() []codeCase {
	return []codeCase{
		{"CreateVolume", full, func(r *served, id string) error {
			_, err := call(r, nodecalls.ClientCSIControllerCreate, &nodecalls.ClientCSICreateRequest{
				PluginID:     "ebs",
				Name:         id,
				Capabilities: writer,
			})
			return err
		}},
		{"DeleteVolume", csitest.CodeKinds, func(r *served, id string) error {
			_, err := call(r, nodecalls.ClientCSIControllerDelete, &nodecalls.ClientCSIDeleteRequest{
				PluginID:   "ebs",
				ExternalID: id,
			})
			return err
		}},
		{"ControllerPublishVolume", csitest.CodeKinds, func(r *served, id string) error {
			_, err := call(r, nodecalls.ClientCSIControllerAttach, &nodecalls.ClientCSIAttachRequest{
				PluginID:       "ebs",
				ExternalID:     id,
				ExternalNodeID: "n",
				AccessMode:     writer[0].AccessMode,
				AttachmentMode: writer[0].AttachmentMode,
			})
			return err
		}},
		{"ControllerUnpublishVolume", csitest.CodeKinds, func(r *served, id string) error {
			_, err := call(r, nodecalls.ClientCSIControllerDetach, &nodecalls.ClientCSIDetachRequest{
				PluginID:       "ebs",
				ExternalID:     id,
				ExternalNodeID: "n",
			})
			return err
		}},
		{"ControllerExpandVolume", full, func(r *served, id string) error {
			_, err := call(r, nodecalls.ClientCSIControllerExpand, &nodecalls.ClientCSIExpandRequest{
				PluginID:   "ebs",
				ExternalID: id,
				Capacity:   grown,
			})
			return err
		}},
		{"ValidateVolumeCapabilities", asked, func(r *served, id string) error {
			_, err := call(r, nodecalls.ClientCSIControllerValidate, &nodecalls.ClientCSIValidateRequest{
				PluginID:     "ebs",
				ExternalID:   id,
				Capabilities: writer,
			})
			return err
		}},
		{"ListVolumes", asked, func(r *served, _ string) error {
			_, err := call(r, nodecalls.ClientCSIControllerList, &nodecalls.ClientCSIListRequest{PluginID: "ebs"})
			return err
		}},
		{"ControllerListVolumeHealth", asked, func(r *served, _ string) error {
			_, err := call(r, nodecalls.ClientCSIListHealth, &nodecalls.ClientCSIListHealthRequest{PluginID: "ebs"})
			return err
		}},
		{"ControllerGetVolumeHealth", asked, func(r *served, id string) error {
			_, err := call(r, nodecalls.ClientCSIGetHealth, &nodecalls.ClientCSIGetHealthRequest{
				PluginID:   "ebs",
				ExternalID: id,
			})
			return err
		}},
		{"NodeExpandVolume", asked, func(r *served, id string) error {
			_, err := call(r, nodecalls.ClientCSINodeExpand, &nodecalls.ClientCSINodeExpandRequest{
				VolumeID:       id,
				AllocID:        "a",
				PluginID:       "ebs",
				ExternalID:     id,
				RequiredBytes:  grown.RequiredBytes,
				AccessMode:     writer[0].AccessMode,
				AttachmentMode: writer[0].AttachmentMode,
			})
			return err
		}},
		{"NodeUnpublishVolume", asked, nodeDetach},
		{"NodeUnstageVolume", asked, nodeDetach},
	}
}

func nodeDetach(r *served, id string) error {
	_, err := call(r, nodecalls.ClientCSINodeDetach, &nodecalls.ClientCSINodeDetachRequest{
		VolumeID: id,
		AllocID:  "a",
	})
	return err
}

// A node makes each call of the servers once, and passes on the kind, the code and the message of the plugin.
func TestDuty_C8_C14_C15_C17_EachCodeReachesTheServers(t *testing.T) {
	for _, c := range codeCases() {
		t.Run(c.rpc, func(t *testing.T) {
			r := newServed(t)
			for code, kind := range c.want {
				id := "v-" + code
				r.plugin.AddVolume(id, 1)
				if strings.HasPrefix(c.rpc, "Node") {
					r.up(t, id)
				}
				before := r.plugin.Count(c.rpc)
				r.plugin.Fail(c.rpc, csitest.Error(code, "out of order"))
				err := c.call(r, id)
				if kind == "" {
					kit.Must(t, err) // see TestController_ExhaustedIsAnAnswer
					continue
				}
				said := `plugin "ebs": ` + c.rpc + ": " + code + ": out of order"
				words, _, _ := strings.Cut(fmt.Sprint(err), ";")
				if structs.KindOf(err) != kind || structs.CodeOf(err) != code ||
					!strings.HasSuffix(words, said) {
					t.Errorf("%s: %v of kind %s and code %q, want %s", code, err, structs.KindOf(err),
						structs.CodeOf(err), kind)
				}
				if n := r.plugin.Count(c.rpc) - before; n != 1 {
					t.Errorf("%s: %d calls", code, n)
				}
			}
		})
	}
}

// up brings a volume to the allocation "a".
func (r *served) up(t *testing.T, id string) {
	t.Helper()
	_, err := r.m.Volumes().Up(t.Context(), &Use{
		VolumeKey:      VolumeKey{Namespace: "default", ID: id},
		AllocID:        "a",
		PluginID:       "ebs",
		ExternalID:     id,
		AccessMode:     writer[0].AccessMode,
		AttachmentMode: writer[0].AttachmentMode,
	}, nil)
	kit.Must(t, err)
}

// A request of the servers themselves repeats no call that the plugin has rejected for good. A request of an
// operator does.
func TestDuty_C9_C13_OnlyAnOperatorsWordMakesARejectedCallAgain(t *testing.T) {
	r := newServed(t)
	r.plugin.AddVolume("v", 1)
	r.up(t, "v")
	r.plugin.FailAlways("NodeUnstageVolume", csitest.Error("Unimplemented", "no"))
	for range 5 {
		err := nodeDetach(r, "v")
		if n := r.plugin.Count("NodeUnstageVolume"); structs.CodeOf(err) != "Unimplemented" || n != 1 {
			t.Fatalf("%v after %d calls", err, n)
		}
	}
	r.plugin.Script("NodeUnstageVolume", nil)
	byOperator := &nodecalls.ClientCSINodeDetachRequest{VolumeID: "v", AllocID: "a", ByOperator: true}
	_, err := call(r, nodecalls.ClientCSINodeDetach, byOperator)
	kit.Must(t, err)
	if n := r.plugin.Count("NodeUnstageVolume"); n != 2 {
		t.Errorf("%d calls", n)
	}
}
