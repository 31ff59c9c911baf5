package state_test

import (
	"testing"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

func TestPluginConfig_DecidesForVolumesWithoutARule(t *testing.T) {
	w := newFixture(t)
	w.Volume("own", "p")
	set := func(policy string) {
		t.Helper()
		do(w, csi.PluginConfigSet, &storage.PluginSettingsRequest{ID: "p", OnNodeLoss: policy})
	}
	policy := func(own string) string {
		v := aVolume("v", "p")
		v.OnNodeLoss = own
		return csi.LossPolicy(w.Store.Read(), v)
	}
	for _, c := range []struct{ plugin, own, want string }{
		{"", "", structs.LossHold},
		{structs.LossFence, "", structs.LossFence},
		{structs.LossFence, structs.LossHold, structs.LossHold},
		{structs.LossLease, "", structs.LossLease},
		{structs.LossHold, structs.LossLease, structs.LossLease},
		{structs.LossHold, "", structs.LossHold},
	} {
		set(c.plugin)
		if got := policy(c.own); got != c.want {
			t.Errorf("plugin %q, volume %q: the policy is %q, want %q", c.plugin, c.own, got, c.want)
		}
		v := csi.Volume(w.Store.Read(), structs.DefaultNamespace, "own")
		if got := state.VolumeDetail(w.Store.Read(), v).LossPolicy; got != policy("") {
			t.Errorf("plugin %q: a volume without a rule shows %q", c.plugin, got)
		}
	}
	if n := rowsByTable(w.Store.Read())[schema.PluginConfigs.Name()]; n != 0 {
		t.Errorf("%d rows have only defaults", n)
	}
	for _, p := range []storage.PluginSettingsRequest{
		{ID: "", OnNodeLoss: structs.LossFence},
		{ID: "a b", OnNodeLoss: structs.LossFence},
		{ID: "p", OnNodeLoss: "never"},
	} {
		wantKind(t, try(w, csi.PluginConfigSet, &p), structs.KindInvalid)
	}
}

func TestPluginConfig_OutlivesThePlugin(t *testing.T) {
	w := newFixture(t)
	do(w, csi.PluginConfigSet, &storage.PluginSettingsRequest{ID: "p", OnNodeLoss: structs.LossFence})
	if schema.Unblocks.Get(w.Store.Read(), structs.WakePlugin("p")) != nil {
		t.Error("an unblock is recorded of a plugin that is not there: nothing deletes it")
	}
	w.Node("n1", anInstance("p", structs.CSIKindNode, true))
	do(w, state.NodeDeregister, &structs.NodeDeregisterRequest{NodeIDs: []string{"n1"}})
	if csi.Plugin(w.Store.Read(), "p") != nil {
		t.Fatal("the plugin is still there")
	}
	if got := csi.PluginConfig(w.Store.Read(), "p").OnNodeLoss; got != structs.LossFence {
		t.Errorf("the setting is %q", got)
	}
}

// TestPluginConfig_KeepsTheSettingsOfCalls: a row is there while one of them is set.
func TestPluginConfig_KeepsTheSettingsOfCalls(t *testing.T) {
	w := newFixture(t)
	for _, want := range []storage.PluginCalls{
		{CallsInFlight: 2},
		{CallTimeout: time.Minute},
		{ControllerTimeout: time.Minute},
		{NodeTimeout: time.Minute},
		{},
	} {
		do(w, csi.PluginConfigSet, &storage.PluginSettingsRequest{ID: "p", PluginCalls: want})
		if got := csi.PluginConfig(w.Store.Read(), "p").PluginCalls; got != want {
			t.Errorf("the settings are %+v, want %+v", got, want)
		}
		n := rowsByTable(w.Store.Read())[schema.PluginConfigs.Name()]
		if (n == 1) != (want != storage.PluginCalls{}) {
			t.Errorf("%d rows have %+v", n, want)
		}
	}
	bad := &storage.PluginSettingsRequest{ID: "p", PluginCalls: storage.PluginCalls{CallsInFlight: 65}}
	wantKind(t, try(w, csi.PluginConfigSet, bad), structs.KindInvalid)
}

// TestPluginConfig_KeepsTheSettingsOfDrift: a row is there while one of them is set.
func TestPluginConfig_KeepsTheSettingsOfDrift(t *testing.T) {
	w := newFixture(t)
	for _, c := range []struct {
		drift storage.PluginDrift
		rows  int
	}{
		{storage.PluginDrift{Drift: storage.DriftRepair}, 1},
		{storage.PluginDrift{DriftInterval: time.Hour}, 1},
		{storage.PluginDrift{Drift: storage.DriftReport}, 0},
	} {
		do(w, csi.PluginConfigSet, &storage.PluginSettingsRequest{ID: "p", PluginDrift: c.drift})
		got := csi.PluginConfig(w.Store.Read(), "p")
		n := rowsByTable(w.Store.Read())[schema.PluginConfigs.Name()]
		if n != c.rows || n > 0 && got.PluginDrift != c.drift {
			t.Errorf("%+v: %d rows, got %+v", c.drift, n, got.PluginDrift)
		}
	}
}
