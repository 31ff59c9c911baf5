package csihooks

import (
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/client/csi/upkeep"
	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/storage"
	"berth/test/kit"
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
			list := upkeep.PolledVolumes(r.m)
			e := allocEnv("a1", map[string]string{"one": "data"})
			h := r.volumes(e)
			kit.Must(t, h.Up(r.ctx(), e))
			mounted, err := list()
			kit.Must(t, err)
			m, _ := e.Volume("one")
			if len(mounted) != 1 || mounted[0].Path != m.HostPath || (mounted[0].Ask != nil) != offers ||
				mounted[0].Key != (storage.UsageKey{Namespace: "default", VolumeID: "data"}) {
				t.Fatalf("mounted are %+v", mounted)
			}
			if offers {
				u, err := mounted[0].Ask(r.ctx())
				kit.Must(t, err)
				sent := p.Calls("NodeGetVolumeStats")[0]
				published := p.Calls("NodePublishVolume")[0]
				if u.Bytes.Used != 4 || sent.Get("volume_id") != "ext-data" ||
					sent.Get("volume_path") != published.Get("target_path") ||
					sent.Get("staging_target_path") != published.Get("staging_target_path") {
					t.Errorf("got %+v, sent %v", u.Bytes, sent.Request)
				}
			}
			kit.Must(t, h.Down(r.ctx()))
			mounted, err = list()
			kit.Must(t, err)
			if len(mounted) != 0 {
				t.Errorf("after its release: %+v", mounted)
			}
			r.clean()
		})
	}
}

// TestDuty_K37_TheHealthIsAskedForAfterAnAttempt has a plugin that fails to stage a volume, and knows why.
func TestDuty_K37_TheHealthIsAskedForAfterAnAttempt(t *testing.T) {
	for name, offers := range map[string]bool{"a plugin with the call": true, "a plugin without": false} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.nodeCaps = []string{"STAGE_UNSTAGE_VOLUME"}
			if offers {
				r.nodeCaps = append(r.nodeCaps, "GET_VOLUME_HEALTH")
			}
			p := r.plugin("ebs")
			p.SetHealth("ext-data", &spec.VolumeHealth_VolumeHealthEntry{
				Status: spec.VolumeHealthErrorType_INACCESSIBLE, Reason: "NoPath",
			})
			failure := csitest.Error("Internal", "the device does not answer")
			p.FailAlways("NodeStageVolume", failure)
			p.FailAlways("NodeUnstageVolume", failure)
			e := allocEnv("a1", map[string]string{"one": "data"})
			h := r.volumes(e)
			if h.Up(r.ctx(), e) == nil {
				t.Fatal("the volume is mounted")
			}

			tried, err := upkeep.PolledVolumes(r.m)()
			kit.Must(t, err)
			if !offers {
				if len(tried) != 0 {
					t.Errorf("tried are %+v", tried)
				}
			} else if len(tried) != 1 || !tried[0].Attempted || tried[0].Ask != nil || tried[0].Health == nil {
				t.Errorf("tried are %+v", tried)
			} else {
				c, err := tried[0].Health(r.ctx())
				kit.Must(t, err)
				sent := p.Calls("NodeGetVolumeHealth")[0]
				staged := p.Calls("NodeStageVolume")[0]
				if !c.Abnormal || c.Message != "INACCESSIBLE NoPath" || sent.Get("volume_id") != "ext-data" ||
					sent.Get("staging_target_path") != staged.Get("staging_target_path") {
					t.Errorf("got %+v, sent %v", c, sent.Request)
				}
			}

			p.Script("NodeStageVolume", nil)
			p.Script("NodeUnstageVolume", nil)
			kit.Must(t, h.Down(r.ctx()))
			tried, err = upkeep.PolledVolumes(r.m)()
			kit.Must(t, err)
			if len(tried) != 0 {
				t.Errorf("after its release: %+v", tried)
			}
			r.clean()
		})
	}
}

// TestDuty_K38_TheReportOfTheNodeHasTheHealthOfTheStorage: it has it from the next fingerprint on.
func TestDuty_K38_TheReportOfTheNodeHasTheHealthOfTheStorage(t *testing.T) {
	r := newFixture(t)
	r.nodeCaps = []string{"GET_STORAGE_HEALTH"}
	p := r.plugin("ebs")
	p.SetStorageHealth(&spec.NodeGetStorageHealthResponse_StorageBackendHealth{
		Status: spec.StorageHealthErrorType_STORAGE_UNREACHABLE, Reason: "NoPath",
	})
	conn, err := r.m.Client(r.ctx(), structs.CSIKindNode, "ebs")
	kit.Must(t, err)
	all := upkeep.Storages(r.m)()
	if len(all) != 1 || all[0].PluginID != "ebs" || conn.Info.NodeInfo.StorageHealth != nil {
		t.Fatalf("got %+v, %+v", all, conn.Info.NodeInfo)
	}
	_, err = all[0].Ask(r.ctx())
	kit.Must(t, err)
	info, err := conn.NodeInfo(r.ctx())
	if err != nil || !info.StorageHealth.Abnormal || info.StorageHealth.Conditions[0].Reason != "NoPath" {
		t.Errorf("got %+v, %v", info, err)
	}
}
