package csihooks

import (
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/client/csi/stats"
	"berth/structs/volumeusage"
)

func TestDuty_K35_StatsAreAskedOfPluginsThatOfferThem(t *testing.T) {
	for name, offers := range map[string]bool{"a plugin with them": true, "a plugin without": false} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.nodeCaps = []string{"STAGE_UNSTAGE_VOLUME"}
			if offers {
				r.nodeCaps = append(r.nodeCaps, "GET_VOLUME_STATS")
			}
			p := r.plugin("ebs")
			p.Answer("NodeGetVolumeStats", &spec.NodeGetVolumeStatsResponse{
				Usage: []*spec.VolumeUsage{{Unit: spec.VolumeUsage_BYTES, Total: 10, Used: 4}},
			})
			list := stats.Mounted(r.m)
			e := allocEnv("a1", map[string]string{"one": "data"})
			h := r.volumes(e)
			must(t, h.Up(r.ctx(), e))
			mounted, err := list()
			must(t, err)
			m, _ := e.Volume("one")
			if len(mounted) != 1 || mounted[0].Path != m.HostPath || (mounted[0].Ask != nil) != offers ||
				mounted[0].Key != (volumeusage.UsageKey{Namespace: "default", VolumeID: "data"}) {
				t.Fatalf("mounted are %+v", mounted)
			}
			if offers {
				u, err := mounted[0].Ask(r.ctx())
				must(t, err)
				sent := p.Calls("NodeGetVolumeStats")[0]
				published := p.Calls("NodePublishVolume")[0]
				if u.Bytes.Used != 4 || sent.Get("volume_id") != "ext-data" ||
					sent.Get("volume_path") != published.Get("target_path") ||
					sent.Get("staging_target_path") != published.Get("staging_target_path") {
					t.Errorf("got %+v, sent %v", u.Bytes, sent.Request)
				}
			}
			must(t, h.Down(r.ctx()))
			mounted, err = list()
			must(t, err)
			if len(mounted) != 0 {
				t.Errorf("after its release: %+v", mounted)
			}
			r.clean()
		})
	}
}
