package volumes

import (
	"testing"

	"berth/structs"
	"berth/test/kit"
)

// The transaction that drops the record of the call marks the volume published, unless it has to grow first.
func TestPublish_IsMarkedWithTheEndOfItsCall(t *testing.T) {
	for expand, want := range map[int64]string{0: published, 1 << 30: publishing} {
		r := newFixture(t)
		r.plugin("ebs", "plug", nodeOnly)
		u := use("data", "a1")
		u.ExpandBytes = expand
		conn, err := r.v.m.Client(r.ctx(), structs.CSIKindNode, u.PluginID)
		kit.Must(t, err)
		w, err := r.v.loadForUp(r.ctx(), conn, u)
		kit.Must(t, err)
		kit.Must(t, w.recordUse(u))
		kit.Must(t, w.stageVolume(u))
		w.publish.State = publishing
		w.writeLater(publishChange(w.publish))
		kit.Must(t, w.callPublish(u))
		p, err := r.v.store.getPublish(u.VolumeKey, u.AllocID)
		kit.Must(t, err)
		if p.State != want {
			t.Errorf("growing by %d bytes, without a flush: got the state %q, want %q", expand, p.State, want)
		}
		kit.Must(t, w.publishVolume(u))
		r.down(u)
	}
}
