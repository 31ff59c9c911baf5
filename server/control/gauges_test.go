package control

import (
	"testing"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/fsm"
	"berth/server/control/cluster"
	"berth/structs"
	"berth/structs/storage"
)

// gaugesSet returns the gauges as the process has set them, by name and label values.
func gaugesSet(sink *metrics.InmemSink) map[string]float32 {
	found := map[string]float32{}
	for _, interval := range sink.Data() {
		for _, g := range interval.Gauges {
			name := g.Name
			for _, l := range g.Labels {
				name += " " + l.Value
			}
			found[name] = g.Value
		}
	}
	return found
}

func TestGauges_CountRowsAndAreZeroWhenLeadershipEnds(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		sink := metrics.NewInmemSink(time.Hour, time.Hour)
		if _, err := metrics.NewGlobal(&metrics.Config{FilterDefault: true}, sink); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_, _ = metrics.NewGlobal(&metrics.Config{}, &metrics.BlackholeSink{})
		}()
		w.addNode("n1", true)
		volume := func(id, external string) *structs.CSIVolume {
			v := aVolume(id, structs.VolumeReady)
			v.ExternalID = external
			return v
		}
		put(w, fsm.VolumePut, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{
			aVolume("new", structs.VolumeCreating), volume("v1", "x"), volume("v2", "y"),
		}})
		w.addClaim("v1", "a1", "n1")
		put(w, fsm.DriftRecord, &storage.DriftRecordRequest{PluginID: "pl", Summary: &storage.DriftSummary{
			PluginID: "pl", Counts: map[string]int{storage.DriftMissingVolume: 3},
		}})
		condition := func(id, external string, abnormal bool) *storage.VolumeHealth {
			return &storage.VolumeHealth{
				Namespace: "default", VolumeID: id, PluginID: "pl", ExternalID: external,
				Condition: &storage.VolumeCondition{Abnormal: abnormal, Message: "m"},
			}
		}
		put(w, fsm.HealthRecord, &storage.HealthRecordRequest{
			PluginID: "pl",
			Found:    []*storage.VolumeHealth{condition("v1", "x", true), condition("v2", "y", false)},
		})
		stop := w.runLoop("gauges")
		after(0)
		wanted := map[string]float32{
			"control.nodes ready":               1,
			"control.nodes down":                0,
			"csi.claims granted":                1,
			"csi.claims waiting":                0,
			"csi.volumes_pending creating":      1,
			"csi.attachments_pending attaching": 1,
			"csi.plugin_healthy pl controller":  1,
			"csi.plugin_expected pl node":       1,
			"csi.drift pl missing_volume":       3,
			"csi.drift pl stray_volume":         0,
			"csi.volumes_abnormal pl":           1,
		}
		for name, want := range wanted {
			if got, ok := gaugesSet(sink)[name]; !ok || got != want {
				t.Errorf("%s is %v (%v) while the server leads, want %v", name, got, ok, want)
			}
		}
		w.addClaim("v2", "a2", "n1")
		after(cluster.GaugeInterval)
		if got := gaugesSet(sink)["csi.claims granted"]; got != 2 {
			t.Errorf("csi.claims granted is %v after an interval, want 2", got)
		}
		stop()
		for name, got := range gaugesSet(sink) {
			if got != 0 {
				t.Errorf("%s is %v after the end of leadership, want 0", name, got)
			}
		}
	})
}
