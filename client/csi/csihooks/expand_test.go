package csihooks

import (
	"testing"

	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

func TestDuty_J2_MountedContentGrowsAndIsReported(t *testing.T) {
	for name, fail := range map[string]error{"it grows": nil, "it does not": csitest.Error("Internal", "no")} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			p := r.plugin("ebs")
			p.Fail("NodeExpandVolume", fail)
			r.servers.grows = 4 << 20
			h := r.volumes(allocEnv("a1", map[string]string{"data": "data"}))
			kit.Must(t, h.Up(r.ctx(), allocEnv("a1", map[string]string{"data": "data"})))
			if len(r.servers.grown) != 1 {
				t.Fatalf("got %d notifications", len(r.servers.grown))
			}
			got := r.servers.grown[0]
			if got.VolumeID != "data" || got.AllocID != "a1" ||
				got.NodeID != "n1" || got.SecretID != "secret" ||
				got.Bytes != 4<<20 {
				t.Errorf("reported %+v", got)
			}
			if (got.Err != nil) != (fail != nil) ||
				fail != nil && (got.Err.Kind != structs.KindInternal ||
					got.Err.Code != "Internal") {
				t.Errorf("reported %+v", got.Err)
			}
			r.down(h)
			r.clean()
		})
	}
}
