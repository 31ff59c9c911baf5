package volumes

import (
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/csi/csitest"
	"berth/structs"
)

// TestDuty_G11_AFullNodeIsAskedForItsLimitAgain has a plugin whose limit has become smaller, and a next
// fingerprint that is far away.
func TestDuty_G11_AFullNodeIsAskedForItsLimitAgain(t *testing.T) {
	for _, rpc := range []string{"NodeStageVolume", "NodePublishVolume"} {
		t.Run(rpc, func(t *testing.T) {
			r := newFixture(t)
			r.crash()
			r.cfg.FingerprintInterval = time.Hour
			r.cfg.RefreshMin = time.Millisecond
			r.boot()
			p := r.plugin("ebs", "plug", csitest.Config{Node: true, Mounts: true, MaxVolumes: 7})
			r.serving(structs.CSIKindNode, "ebs", "plug")
			limit := func() int64 { return r.instance(structs.CSIKindNode, "ebs").NodeInfo.MaxVolumes }
			if limit() != 7 {
				t.Fatalf("the limit is %d", limit())
			}

			p.Answer("NodeGetInfo", &spec.NodeGetInfoResponse{NodeId: "node-1", MaxVolumesPerNode: 2})
			p.Fail(rpc, csitest.Error("Unavailable", "not now"))
			u := use("data", "a1")
			r.up(u)
			if n := p.Count("NodeGetInfo"); n != 1 {
				t.Errorf("another error has led to %d calls of NodeGetInfo", n-1)
			}
			r.down(u)
			p.Fail(rpc, csitest.Error("ResourceExhausted", "the node is full"))
			r.up(u)
			waitFor(t, r, func() bool { return limit() == 2 })
			r.down(u)
			r.clean(p, "ext-data")
		})
	}
}

// TestDuty_K39_NodeGetInfoIsRepeated has a healthy plugin whose limit and topology change.
func TestDuty_K39_NodeGetInfoIsRepeated(t *testing.T) {
	r := newFixture(t)
	r.crash()
	r.cfg.FingerprintInterval = 10 * time.Millisecond
	r.boot()
	p := r.plugin("ebs", "plug", csitest.Config{Node: true, MaxVolumes: 7})
	r.serving(structs.CSIKindNode, "ebs", "plug")
	p.Answer("NodeGetInfo", &spec.NodeGetInfoResponse{
		NodeId: "node-1", MaxVolumesPerNode: 2,
		AccessibleTopology: &spec.Topology{Segments: map[string]string{"zone": "b"}},
	})
	waitFor(t, r, func() bool {
		n := r.instance(structs.CSIKindNode, "ebs").NodeInfo
		return n.MaxVolumes == 2 && n.AccessibleTopology != nil && n.AccessibleTopology.Segments["zone"] == "b"
	})
}
