package csi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/state/statetest"
	"berth/structs"
	"berth/structs/storage"
)

// healthWorld is a state with the plugins "p" and "q", and the volume "v" of p, which is "x" to the plugin.
type healthWorld struct {
	t *testing.T
	s *state.Store
}

func newHealthWorld(t *testing.T) *healthWorld {
	w := &healthWorld{t, state.New()}
	statetest.Write(w.t, w.s, func(tx *mvcc.WriteTx) error {
		schema.Plugins.Put(tx, &structs.CSIPluginRow{ID: "p"})
		schema.Plugins.Put(tx, &structs.CSIPluginRow{ID: "q"})
		putHealthVolume(tx, "v", "x")
		return nil
	})
	return w
}

func putHealthVolume(tx *mvcc.WriteTx, id, external string) {
	schema.Volumes.Put(tx, &structs.CSIVolume{
		Namespace: "default", ID: id,
		CSIVolumeSpec:   structs.CSIVolumeSpec{PluginID: "p", ExternalID: external},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady},
	})
}

// record records at a time.
func (w *healthWorld) record(now int64, p *storage.HealthRecordRequest) {
	w.t.Helper()
	if p.PluginID == "" {
		p.PluginID = "p"
	}
	p.Now = now
	statetest.Write(w.t, w.s, func(tx *mvcc.WriteTx) error { return csi.HealthRecord(tx, p) })
	if faults := state.Check(w.s.Read()); slices.ContainsFunc(faults, isOfHealth) {
		w.t.Errorf("faults %q", faults)
	}
}

func isOfHealth(fault string) bool { return strings.Contains(fault, "health") }

func ill(message string) *storage.VolumeHealth {
	return &storage.VolumeHealth{
		Namespace: "default", VolumeID: "v", PluginID: "p", ExternalID: "x",
		Condition: &storage.VolumeCondition{Abnormal: true, Message: message},
	}
}

var keyOfV = storage.UsageKey{Namespace: "default", VolumeID: "v"}

func foundHealth(all ...*storage.VolumeHealth) *storage.HealthRecordRequest {
	return &storage.HealthRecordRequest{Found: all}
}

func TestHealthRecord_KeepsTheTimeOfTheFirstRecord(t *testing.T) {
	w := newHealthWorld(t)
	w.record(1, foundHealth(ill("a")))
	w.record(2, foundHealth(ill("b")))
	row := csi.HealthOf(w.s.Read(), keyOfV)
	if row == nil || row.Since != 1 || row.Condition.Message != "b" {
		t.Fatalf("the row is %+v", row)
	}
	before := row.ModifyIndex
	w.record(3, foundHealth(ill("b")))
	if row := csi.HealthOf(w.s.Read(), keyOfV); row.ModifyIndex != before {
		t.Errorf("a row that says the same is written")
	}

	w.record(4, &storage.HealthRecordRequest{PluginID: "q", Gone: []storage.UsageKey{keyOfV}})
	if csi.HealthOf(w.s.Read(), keyOfV) == nil {
		t.Error("another plugin ends the record")
	}
	w.record(5, &storage.HealthRecordRequest{Gone: []storage.UsageKey{keyOfV, {VolumeID: "none"}}})
	if csi.HealthOf(w.s.Read(), keyOfV) != nil {
		t.Error("the row stays")
	}
	w.record(6, foundHealth(ill("a")))
	if row := csi.HealthOf(w.s.Read(), keyOfV); row.Since != 6 {
		t.Errorf("the row is %+v", row)
	}
}

// TestHealthRecord_IsAboutVolumesOfThePlugin: a row tells nothing of another volume with the same ID.
func TestHealthRecord_IsAboutVolumesOfThePlugin(t *testing.T) {
	w := newHealthWorld(t)
	foreign := ill("a")
	foreign.ExternalID = "y"
	gone := ill("a")
	gone.VolumeID = "w"
	w.record(1, foundHealth(foreign, gone))
	if n := healthRows(w, "*"); n != 0 {
		t.Errorf("%d rows", n)
	}

	w.record(2, foundHealth(ill("a")))
	statetest.Write(w.t, w.s, func(tx *mvcc.WriteTx) error { putHealthVolume(tx, "v", "y"); return nil })
	if n := healthRows(w, "*"); n != 0 || csi.HealthOf(w.s.Read(), keyOfV) != nil {
		t.Errorf("%d rows of a volume that was made anew", n)
	}
	w.record(3, foundHealth(foreign))
	if row := csi.HealthOf(w.s.Read(), keyOfV); row == nil || row.Since != 3 {
		t.Errorf("the row of the new volume is %+v", row)
	}
	if n := healthRows(w, "default"); n != 1 {
		t.Errorf("%d rows in the namespace", n)
	}
	if n := healthRows(w, "other"); n != 0 {
		t.Errorf("%d rows in another namespace", n)
	}

	statetest.Write(w.t, w.s, func(tx *mvcc.WriteTx) error { csi.ForgetHealth(tx, "p"); return nil })
	if n := healthRows(w, "*"); n != 0 {
		t.Errorf("%d rows of a plugin that is gone", n)
	}
	w.record(4, &storage.HealthRecordRequest{PluginID: "none"})
}

// healthRows counts the rows of a namespace.
func healthRows(w *healthWorld, ns string) (n int) {
	for range csi.HealthFrom(w.s.Read(), ns) {
		n++
	}
	return n
}

func TestHealthRecord_HasBounds(t *testing.T) {
	w := newHealthWorld(t)
	empty := ill("a")
	empty.Condition = &storage.VolumeCondition{}
	none := ill("a")
	none.Condition = nil
	other := ill("a")
	other.PluginID = "q"
	many := make([]storage.UsageKey, storage.MaxHealthChanges+1)
	for name, p := range map[string]*storage.HealthRecordRequest{
		"no condition":       foundHealth(empty),
		"a nil condition":    foundHealth(none),
		"another plugin":     foundHealth(other),
		"nil":                foundHealth(nil),
		"too many that go":   {Gone: many},
		"too many that come": foundHealth(make([]*storage.VolumeHealth, len(many))...),
	} {
		p.PluginID = "p"
		err := w.s.Write(w.s.Index()+1, func(tx *mvcc.WriteTx) error { return csi.HealthRecord(tx, p) })
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}

	for i := range storage.MaxHealthRows + 1 {
		id := fmt.Sprint("v", i)
		statetest.Write(w.t, w.s, func(tx *mvcc.WriteTx) error { putHealthVolume(tx, id, id); return nil })
		row := ill("a")
		row.VolumeID = id
		row.ExternalID = id
		statetest.Write(w.t, w.s, func(tx *mvcc.WriteTx) error {
			return csi.HealthRecord(tx, &storage.HealthRecordRequest{
				PluginID: "p", Found: []*storage.VolumeHealth{row},
			})
		})
	}
	if n := healthRows(w, "*"); n != storage.MaxHealthRows {
		t.Errorf("%d rows", n)
	}
}
