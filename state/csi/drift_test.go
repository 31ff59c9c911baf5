package csi_test

import (
	"fmt"
	"slices"
	"testing"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/state/statetest"
	"berth/structs"
	"berth/structs/storage"
)

// driftWorld is a state with the ready volume "v" of plugin "p", which is "x" to the plugin, and the node
// "n".
type driftWorld struct {
	t *testing.T
	s *state.Store
}

func newDriftWorld(t *testing.T) *driftWorld {
	w := &driftWorld{t, state.New()}
	statetest.Write(w.t, w.s, func(tx *mvcc.WriteTx) error {
		schema.Plugins.Put(tx, &structs.CSIPluginRow{ID: "p", SupportsAttachDetach: true})
		schema.PluginConfigs.Put(tx, &storage.PluginSettings{
			ID: "p", PluginDrift: storage.PluginDrift{Drift: storage.DriftRepair},
		})
		schema.Nodes.Put(tx, &structs.Node{ID: "n", Status: structs.NodeReady})
		schema.Volumes.Put(tx, &structs.CSIVolume{
			Namespace: "default", ID: "v",
			CSIVolumeSpec:   structs.CSIVolumeSpec{PluginID: "p", ExternalID: "x", Secrets: structs.Secrets{"k": "s"}},
			CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady},
		})
		return nil
	})
	return w
}

func (w *driftWorld) record(p *storage.DriftRecordRequest) {
	w.t.Helper()
	p.PluginID = "p"
	statetest.Write(w.t, w.s, func(tx *mvcc.WriteTx) error { return csi.DriftRecord(tx, p) })
}

// difference is one of the volume on the node.
func difference(kind string) *storage.VolumeDrift {
	return &storage.VolumeDrift{
		PluginID: "p", Kind: kind, ExternalID: "x", Namespace: "default", VolumeID: "v",
		ExternalNodeID: "ext-n", NodeID: "n",
	}
}

func (w *driftWorld) row(kind string) *storage.VolumeDrift {
	return csi.Drift(w.s.Read(), difference(kind).Key())
}

// claim puts a claim of the volume on the node, with an attachment unless its state is "".
func (w *driftWorld) claim(state, attachment string) {
	w.t.Helper()
	statetest.Write(w.t, w.s, func(tx *mvcc.WriteTx) error {
		if state != "" {
			csi.StoreClaim(tx, &structs.CSIClaim{
				Namespace: "default", VolumeID: "v", AllocID: "a", NodeID: "n", PluginID: "p",
				State: state, Mode: structs.ClaimWrite,
			})
		}
		if attachment != "" {
			schema.Attachments.Put(tx, &structs.CSIAttachment{
				Namespace: "default", VolumeID: "v", NodeID: "n", PluginID: "p", State: attachment,
			})
		}
		return nil
	})
}

func TestDriftRecord_KeepsTheTimeAndTheRepairOfADifference(t *testing.T) {
	w := newDriftWorld(t)
	found := []*storage.VolumeDrift{difference(storage.DriftStrayAttachment)}
	p := &storage.DriftRecordRequest{Found: found}
	p.Now = 5
	w.record(p)
	statetest.Write(w.t, w.s, func(tx *mvcc.WriteTx) error {
		r := &storage.DriftRepairRequest{DriftKey: found[0].Key()}
		r.Now = 6
		return csi.DriftRepair(tx, r)
	})

	p.Now = 7
	w.record(p)
	if d := w.row(storage.DriftStrayAttachment); d == nil || d.Since != 5 || d.RepairTime != 6 ||
		d.Repair == "" {
		t.Errorf("got %+v", d)
	}
	w.record(&storage.DriftRecordRequest{Gone: []storage.DriftKey{found[0].Key()}})
	if d := w.row(storage.DriftStrayAttachment); d != nil {
		t.Errorf("got %+v, want none", d)
	}
}

func TestDriftRecord_StoresABoundedNumberOfRows(t *testing.T) {
	w := newDriftWorld(t)
	for first := 0; first < storage.MaxDrifts+storage.MaxDriftChanges; first += storage.MaxDriftChanges {
		p := &storage.DriftRecordRequest{}
		for i := range storage.MaxDriftChanges {
			d := difference(storage.DriftMissingVolume)
			d.ExternalID = fmt.Sprint(first + i)
			p.Found = append(p.Found, d)
		}
		w.record(p)
	}
	rows := slices.Collect(csi.DriftsOfPlugin(w.s.Read(), "p"))
	if len(rows) != storage.MaxDrifts {
		t.Errorf("%d rows, want %d", len(rows), storage.MaxDrifts)
	}
}

func TestDriftRecord_RejectsRequestsOutOfBounds(t *testing.T) {
	other := difference(storage.DriftMissingVolume)
	other.PluginID = "q"
	unknown := difference("none")
	for name, p := range map[string]*storage.DriftRecordRequest{
		"too many":       {Found: make([]*storage.VolumeDrift, storage.MaxDriftChanges+1)},
		"too many gone":  {Gone: make([]storage.DriftKey, storage.MaxDriftChanges+1)},
		"another plugin": {Found: []*storage.VolumeDrift{other}},
		"no kind":        {Found: []*storage.VolumeDrift{unknown}},
		"none":           {Found: []*storage.VolumeDrift{nil}},
		"gone elsewhere": {Gone: []storage.DriftKey{other.Key()}},
		"counts":         {Summary: &storage.DriftSummary{PluginID: "q"}},
	} {
		w := newDriftWorld(t)
		p.PluginID = "p"
		err := w.s.Write(w.s.Index()+1, func(tx *mvcc.WriteTx) error { return csi.DriftRecord(tx, p) })
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDriftRecord_HasASummaryOnlyWhileItSaysSomething(t *testing.T) {
	w := newDriftWorld(t)
	summary := func(n int, now int64) *storage.DriftSummary {
		p := &storage.DriftRecordRequest{Summary: &storage.DriftSummary{
			PluginID: "p", Counts: map[string]int{storage.DriftStrayVolume: n},
		}}
		p.Now = now
		w.record(p)
		return csi.DriftSummary(w.s.Read(), "p")
	}
	summary(2, 5)
	if s := summary(2, 6); s == nil || s.Counts[storage.DriftStrayVolume] != 2 || s.Time != 5 {
		t.Errorf("got %+v", s)
	}
	if s := summary(0, 7); s != nil {
		t.Errorf("got %+v, want none", s)
	}
}

func TestForgetDrifts_WithTheLastReferenceOfThePlugin(t *testing.T) {
	w := newDriftWorld(t)
	w.record(&storage.DriftRecordRequest{
		Found:   []*storage.VolumeDrift{difference(storage.DriftMissingVolume)},
		Summary: &storage.DriftSummary{PluginID: "p", Fault: "no answer"},
	})
	statetest.Write(w.t, w.s, func(tx *mvcc.WriteTx) error {
		schema.Volumes.Delete(tx, csi.Volume(tx, "default", "v"))
		csi.DropUnusedPlugin(tx, "p")
		return nil
	})
	if w.row(storage.DriftMissingVolume) != nil || csi.DriftSummary(w.s.Read(), "p") != nil {
		t.Error("the differences of the plugin are kept")
	}
	w.record(&storage.DriftRecordRequest{Found: []*storage.VolumeDrift{difference(storage.DriftMissingVolume)}})
	if w.row(storage.DriftMissingVolume) != nil {
		t.Error("a plugin that is gone has a difference")
	}
}

// TestDriftRepair_OnlyOfAttachmentsThatNothingElseExplains has each reason against a repair.
func TestDriftRepair_OnlyOfAttachmentsThatNothingElseExplains(t *testing.T) {
	const stray, missing = storage.DriftStrayAttachment, storage.DriftMissingAttachment
	edit := func(do func(tx *mvcc.WriteTx)) func(w *driftWorld) {
		return func(w *driftWorld) {
			statetest.Write(w.t, w.s, func(tx *mvcc.WriteTx) error {
				do(tx)
				return nil
			})
		}
	}
	volume := func(change func(v *structs.CSIVolume)) func(w *driftWorld) {
		return edit(func(tx *mvcc.WriteTx) {
			v := csi.Volume(tx, "default", "v").Copy()
			change(v)
			schema.Volumes.Put(tx, v)
		})
	}
	node := func(n *structs.Node) func(w *driftWorld) {
		return edit(func(tx *mvcc.WriteTx) { schema.Nodes.Put(tx, n) })
	}
	none := func(*driftWorld) {}
	used := func(w *driftWorld) { w.claim(structs.ClaimGranted, structs.AttachmentAttached) }
	detaching := func(w *driftWorld) { w.claim(structs.ClaimGranted, structs.AttachmentDetaching) }
	unclaimed := func(w *driftWorld) { w.claim("", structs.AttachmentAttached) }

	for name, c := range map[string]struct {
		kind   string
		before func(w *driftWorld)
		want   string // the state of the attachment afterwards
	}{
		"stray":                  {stray, none, structs.AttachmentDetaching},
		"stray, under a claim":   {stray, func(w *driftWorld) { w.claim(structs.ClaimGranted, "") }, ""},
		"stray, a claim waits":   {stray, func(w *driftWorld) { w.claim(structs.ClaimWaiting, "") }, ""},
		"stray, with a row":      {stray, unclaimed, structs.AttachmentAttached},
		"missing, under a claim": {missing, used, structs.AttachmentAttaching},
		"missing, without claim": {missing, unclaimed, structs.AttachmentAttached},
		"missing, detaching":     {missing, detaching, structs.AttachmentDetaching},
		"missing, gone":          {missing, func(w *driftWorld) { w.claim(structs.ClaimGranted, "") }, ""},
		"a volume is missing":    {storage.DriftMissingVolume, none, ""},
		"an unknown node":        {storage.DriftUnknownNode, none, ""},
		"in flight":              {stray, volume(func(v *structs.CSIVolume) { v.Call = &structs.CSICall{NodeID: "n"} }), ""},
		"being deleted":          {stray, volume(func(v *structs.CSIVolume) { v.State = structs.VolumeDeleting }), ""},
		"another volume":         {stray, volume(func(v *structs.CSIVolume) { v.ExternalID = "y" }), ""},
		"node down":              {stray, node(&structs.Node{ID: "n", Status: structs.NodeDown}), ""},
		"node not accounted":     {stray, node(&structs.Node{ID: "n", Status: structs.NodeReady, Unaccounted: true}), ""},
		"node back with another volume": {stray, node(&structs.Node{
			ID: "n", Status: structs.NodeReady, Unaccounted: true,
			Leftovers: []structs.NodeLeftover{{Namespace: "default", VolumeID: "other"}},
		}), structs.AttachmentDetaching},
		"only reported": {stray, edit(func(tx *mvcc.WriteTx) {
			schema.PluginConfigs.Delete(tx, schema.PluginConfigs.Get(tx, "p"))
		}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDriftWorld(t)
			w.record(&storage.DriftRecordRequest{Found: []*storage.VolumeDrift{difference(c.kind)}})
			c.before(w)
			was := csi.Attachment(w.s.Read(), "default", "v", "n")
			statetest.Write(w.t, w.s, func(tx *mvcc.WriteTx) error {
				return csi.DriftRepair(tx, &storage.DriftRepairRequest{DriftKey: difference(c.kind).Key()})
			})
			got := ""
			a := csi.Attachment(w.s.Read(), "default", "v", "n")
			if a != nil {
				got = a.State
			}
			if got != c.want || (a != was) != (w.row(c.kind).Repair != "") {
				t.Errorf("attachment %q, want %q; repair %q", got, c.want, w.row(c.kind).Repair)
			}
		})
	}
}

func TestDriftRepair_IsNotRepeatedForAWhile(t *testing.T) {
	w := newDriftWorld(t)
	d := difference(storage.DriftStrayAttachment)
	w.record(&storage.DriftRecordRequest{Found: []*storage.VolumeDrift{d}})
	for _, c := range []struct {
		now  int64
		want bool
	}{{1, true}, {int64(storage.DriftRepairAgain), false}, {int64(storage.DriftRepairAgain) + 1, true}} {
		statetest.Write(w.t, w.s, func(tx *mvcc.WriteTx) error {
			p := &storage.DriftRepairRequest{DriftKey: d.Key()}
			p.Now = c.now
			return csi.DriftRepair(tx, p)
		})
		a := csi.Attachment(w.s.Read(), "default", "v", "n")
		if (a != nil) != c.want {
			t.Errorf("at %d: %+v", c.now, a)
		}
		if a == nil {
			continue
		}
		if !a.Found || a.ExternalVolumeID != "x" || a.ExternalNodeID != "ext-n" || a.Secrets["k"] != "s" {
			t.Errorf("the detach lacks a part: %+v", a)
		}
		statetest.Write(w.t, w.s, func(tx *mvcc.WriteTx) error {
			schema.Attachments.Delete(tx, a)
			return nil
		})
	}
}

func TestVolumeStubs_NameTheDifferencesOfAVolume(t *testing.T) {
	w := newDriftWorld(t)
	text := func() string {
		tx := w.s.Read()
		var stub structs.CSIVolumeListStub
		csi.VolumeStubs(tx)(csi.Volume(tx, "default", "v"), &stub)
		return stub.Drift
	}
	if got := text(); got != "" {
		t.Errorf("got %q, want none", got)
	}
	other := difference(storage.DriftUnknownNode)
	other.ExternalNodeID = "other"
	w.record(&storage.DriftRecordRequest{Found: []*storage.VolumeDrift{
		difference(storage.DriftUnknownNode), other, difference(storage.DriftMissingVolume),
	}})
	if got := text(); got != "missing_volume, unknown_node" {
		t.Errorf("got %q", got)
	}
}
