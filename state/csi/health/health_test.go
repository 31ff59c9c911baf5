package health_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/csi/health"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// world is a state with the plugins "p" and "q", and the volume "v" of p, which is "x" to the plugin.
type world struct {
	t *testing.T
	s *state.Store
}

func newWorld(t *testing.T) *world {
	w := &world{t, state.New()}
	w.write(func(tx *mvcc.WriteTx) error {
		schema.Plugins.Put(tx, &structs.CSIPluginRow{ID: "p"})
		schema.Plugins.Put(tx, &structs.CSIPluginRow{ID: "q"})
		putVolume(tx, "v", "x")
		return nil
	})
	return w
}

func putVolume(tx *mvcc.WriteTx, id, external string) {
	schema.Volumes.Put(tx, &structs.CSIVolume{
		Namespace: "default", ID: id, PluginID: "p", ExternalID: external, State: structs.VolumeReady,
	})
}

func (w *world) write(do func(tx *mvcc.WriteTx) error) {
	w.t.Helper()
	err := w.s.Write(w.s.Index()+1, do)
	if err != nil {
		w.t.Fatal(err)
	}
}

// record records at a time.
func (w *world) record(now int64, p *storage.HealthRecordRequest) {
	w.t.Helper()
	if p.PluginID == "" {
		p.PluginID = "p"
	}
	p.Now = now
	w.write(func(tx *mvcc.WriteTx) error { return health.Record(tx, p) })
	if faults := state.Check(w.s.Read()); slices.ContainsFunc(faults, isOurs) {
		w.t.Errorf("faults %q", faults)
	}
}

func isOurs(fault string) bool { return strings.Contains(fault, "health") }

func ill(message string) *storage.VolumeHealth {
	return &storage.VolumeHealth{
		Namespace: "default", VolumeID: "v", PluginID: "p", ExternalID: "x",
		Condition: &storage.VolumeCondition{Abnormal: true, Message: message},
	}
}

var keyOfV = storage.UsageKey{Namespace: "default", VolumeID: "v"}

func found(all ...*storage.VolumeHealth) *storage.HealthRecordRequest {
	return &storage.HealthRecordRequest{Found: all}
}

func TestRecord_KeepsTheTimeOfTheFirstRecord(t *testing.T) {
	w := newWorld(t)
	w.record(1, found(ill("a")))
	w.record(2, found(ill("b")))
	row := health.Of(w.s.Read(), keyOfV)
	if row == nil || row.Since != 1 || row.Condition.Message != "b" {
		t.Fatalf("the row is %+v", row)
	}
	before := row.ModifyIndex
	w.record(3, found(ill("b")))
	if row := health.Of(w.s.Read(), keyOfV); row.ModifyIndex != before {
		t.Errorf("a row that says the same is written")
	}

	w.record(4, &storage.HealthRecordRequest{PluginID: "q", Gone: []storage.UsageKey{keyOfV}})
	if health.Of(w.s.Read(), keyOfV) == nil {
		t.Error("another plugin ends the record")
	}
	w.record(5, &storage.HealthRecordRequest{Gone: []storage.UsageKey{keyOfV, {VolumeID: "none"}}})
	if health.Of(w.s.Read(), keyOfV) != nil {
		t.Error("the row stays")
	}
	w.record(6, found(ill("a")))
	if row := health.Of(w.s.Read(), keyOfV); row.Since != 6 {
		t.Errorf("the row is %+v", row)
	}
}

// TestRecord_IsAboutVolumesOfThePlugin: a row tells nothing of another volume with the same ID.
func TestRecord_IsAboutVolumesOfThePlugin(t *testing.T) {
	w := newWorld(t)
	foreign := ill("a")
	foreign.ExternalID = "y"
	gone := ill("a")
	gone.VolumeID = "w"
	w.record(1, found(foreign, gone))
	if n := rows(w, "*"); n != 0 {
		t.Errorf("%d rows", n)
	}

	w.record(2, found(ill("a")))
	w.write(func(tx *mvcc.WriteTx) error { putVolume(tx, "v", "y"); return nil })
	if n := rows(w, "*"); n != 0 || health.Of(w.s.Read(), keyOfV) != nil {
		t.Errorf("%d rows of a volume that was made anew", n)
	}
	w.record(3, found(foreign))
	if row := health.Of(w.s.Read(), keyOfV); row == nil || row.Since != 3 {
		t.Errorf("the row of the new volume is %+v", row)
	}
	if n := rows(w, "default"); n != 1 {
		t.Errorf("%d rows in the namespace", n)
	}
	if n := rows(w, "other"); n != 0 {
		t.Errorf("%d rows in another namespace", n)
	}

	w.write(func(tx *mvcc.WriteTx) error { health.Forget(tx, "p"); return nil })
	if n := rows(w, "*"); n != 0 {
		t.Errorf("%d rows of a plugin that is gone", n)
	}
	w.record(4, &storage.HealthRecordRequest{PluginID: "none"})
}

// rows counts the rows of a namespace.
func rows(w *world, ns string) (n int) {
	for range health.From(w.s.Read(), ns) {
		n++
	}
	return n
}

func TestRecord_HasBounds(t *testing.T) {
	w := newWorld(t)
	empty := ill("a")
	empty.Condition = &storage.VolumeCondition{}
	none := ill("a")
	none.Condition = nil
	other := ill("a")
	other.PluginID = "q"
	many := make([]storage.UsageKey, storage.MaxHealthChanges+1)
	for name, p := range map[string]*storage.HealthRecordRequest{
		"no condition":       found(empty),
		"a nil condition":    found(none),
		"another plugin":     found(other),
		"nil":                found(nil),
		"too many that go":   {Gone: many},
		"too many that come": found(make([]*storage.VolumeHealth, len(many))...),
	} {
		p.PluginID = "p"
		err := w.s.Write(w.s.Index()+1, func(tx *mvcc.WriteTx) error { return health.Record(tx, p) })
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}

	for i := range storage.MaxHealthRows + 1 {
		id := fmt.Sprint("v", i)
		w.write(func(tx *mvcc.WriteTx) error { putVolume(tx, id, id); return nil })
		row := ill("a")
		row.VolumeID = id
		row.ExternalID = id
		w.write(func(tx *mvcc.WriteTx) error {
			return health.Record(tx, &storage.HealthRecordRequest{
				PluginID: "p", Found: []*storage.VolumeHealth{row},
			})
		})
	}
	if n := rows(w, "*"); n != storage.MaxHealthRows {
		t.Errorf("%d rows", n)
	}
}
