package volumes

import (
	"context"
	"testing"

	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

// listed is the inventory: for each list, allocation and the plugin's ID of the node.
func (r *fixture) listed() (held, left string) {
	r.t.Helper()
	i, err := r.v.Inventory()
	kit.Must(r.t, err)
	for _, h := range i.Held {
		held += h.AllocID + "@" + h.ExternalNodeID + " "
	}
	for _, h := range i.Left {
		left += h.AllocID + "@" + h.ExternalNodeID + " "
	}
	return held, left
}

func (r *fixture) wantListed(when, held, left string) {
	r.t.Helper()
	if h, l := r.listed(); h != held || l != left {
		r.t.Errorf("%s: held %q, left %q; want %q and %q", when, h, l, held, left)
	}
}

// The inventory has a volume from before its claim until the servers know of the release.
func TestInventory_HasAVolumeFromClaimToRelease(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	u.ExternalNodeID = "i-1"
	kit.Must(t, r.v.Claim(u.VolumeKey, "a1"))
	r.wantListed("claimed", "", "a1@ ")
	r.up(u)
	r.wantListed("published", "a1@i-1 ", "")
	kit.Must(t, r.v.Down(r.ctx(), u.VolumeKey, "a1"))
	r.wantListed("released", "", "a1@i-1 ")
	i, err := r.v.Inventory()
	kit.Must(t, err)
	want := structs.CSIHeldClaim{
		CSIClaimKey: structs.CSIClaimKey{
			Namespace: u.Namespace, VolumeID: "data", AllocID: "a1",
		},
		GrantIndex:       u.Grant,
		PluginID:         u.PluginID,
		ExternalVolumeID: u.ExternalID,
		ExternalNodeID:   "i-1",
		AccessMode:       u.AccessMode,
		AttachmentMode:   u.AttachmentMode,
	}
	if i.Left[0] != want {
		t.Errorf("%+v, want %+v", i.Left[0], want)
	}
	kit.Must(t, r.v.Forget(u.VolumeKey, "a1"))
	r.wantListed("released", "", "")
	r.clean(p, "ext-data")
}

// A volume that is staged and published without a user is held.
func TestInventory_AStagedVolumeIsHeld(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u, waits := use("data", "a1"), use("data", "a2")
	kit.Must(t, r.v.Claim(waits.VolumeKey, "a2"))
	p.FailAlways("NodePublishVolume", csitest.Error("Internal", "no"))
	if _, err := r.v.Up(r.ctx(), u, nil); err == nil {
		t.Fatal("it is published")
	}
	kit.Must(t,
		r.v.store.putPublish(&publishRecord{
			Namespace:  u.Namespace,
			VolumeID:   u.ID,
			AllocID:    "a1",
			PluginID:   u.PluginID,
			ExternalID: u.ExternalID,
			Dir:        volumeDir(u.VolumeKey),
			State:      claimed,
		}))
	r.wantListed("staged", "a1@ ", "a2@ ")
	kit.Must(t, r.v.store.deletePublish(u.VolumeKey, "a1"))
	r.wantListed("staged, without a record of its user", "@ ", "a2@ ")
	kit.Must(t, r.detach(context.Background(), u.VolumeKey, "a2", func(string) bool {
		return false
	}))
	r.wantListed("released", "", "")
	_, staged, published, _ := p.Volume("ext-data")
	if len(staged)+len(published) != 0 {
		t.Errorf("staged %q, published %q", staged, published)
	}
}
