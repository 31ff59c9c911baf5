package volumes

import (
	"errors"
	"testing"

	"berth/client/csi/registry"
	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

// nodeCalls counts the calls for volumes.
func nodeCalls(p *csitest.Plugin) int {
	return len(p.Calls("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"))
}

func TestDuty_B10_VolumesAreNotBroughtByAnotherDriver(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", csitest.Config{
		Name:   "b.csi",
		Node:   true,
		Mounts: true,
	})
	u := use("v", "a1")
	u.Provider = "a.csi"
	_, err := r.v.Up(r.ctx(), u, nil)
	if !errors.Is(err, ErrOtherDriver) || !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("got %v", err)
	}
	if n := nodeCalls(p); n != 0 {
		t.Errorf("%d calls to the other driver", n)
	}
	u.Provider = "b.csi"
	r.up(u)
	r.down(u)
}

func TestDuty_B10_VolumesAreNotTakenDownByAnotherDriver(t *testing.T) {
	r := newFixture(t)
	a := csitest.Config{Name: "a.csi", Node: true, Mounts: true}
	first := r.plugin("ebs", "first", a)
	u := use("v", "a1")
	r.up(u)
	key := registry.Key{Kind: structs.CSIKindNode, ID: "ebs"}
	kit.Must(t, r.registry.Deregister(key, "first"))
	first.Stop()
	second := r.plugin("ebs", "second", csitest.Config{
		Name:   "b.csi",
		Node:   true,
		Mounts: true,
	})
	_, err := r.m.Client(r.ctx(), structs.CSIKindNode, "ebs")
	kit.Must(t, err)
	if err := r.v.Down(r.ctx(), u.VolumeKey, u.AllocID); !errors.Is(err, ErrOtherDriver) {
		t.Errorf("got %v", err)
	}
	if n := nodeCalls(second); n != 0 {
		t.Errorf("%d calls to the other driver", n)
	}
	kit.Must(t, r.registry.Deregister(key, "second"))
	kit.Must(t, first.Restart())
	r.register("ebs", "first", first, a)
	r.down(u)
	r.clean(first, u.ExternalID)
}
