package snapshot_test

import (
	"strings"
	"testing"

	"berth/internal/mvcc"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// place is the topology of a region and, unless it is "", a zone of it.
func place(region, zone string) *structs.CSITopology {
	segments := map[string]string{"region": region}
	if zone != "" {
		segments["zone"] = zone
	}
	return &structs.CSITopology{Segments: segments}
}

// placesOf shows topologies as their regions and zones.
func placesOf(all []*structs.CSITopology) string {
	var text []string
	for _, t := range all {
		text = append(text, t.Segments["region"]+t.Segments["zone"])
	}
	return strings.Join(text, " ")
}

// A plugin may be able to make volumes from a snapshot in some topologies only. A volume requires one of
// them.
func TestDuty_E4_I8_AVolumeIsMadeWhereItsSnapshotIsUsable(t *testing.T) {
	usable := []*structs.CSITopology{place("r", "1"), place("r", "2"), place("s", "")}
	for name, c := range map[string]struct {
		usable              []*structs.CSITopology
		asked               *structs.CSITopologyRequest
		required, preferred string
		fault               string
	}{
		"everywhere":         {nil, nil, "", "", ""},
		"nothing is asked":   {usable, nil, "r1 r2 s", "", ""},
		"one of them":        {usable, required(place("r", "2")), "r2", "", ""},
		"a wider one":        {usable, required(place("r", "")), "r1 r2", "", ""},
		"a narrower one":     {usable, required(place("s", "7")), "s7", "", ""},
		"one of two":         {usable, required(place("r", "3"), place("r", "1")), "r1", "", ""},
		"another one":        {usable, required(place("r", "3")), "", "", "is not usable in any topology"},
		"preferred ones too": {usable, preferred(place("r", "3"), place("r", "2")), "r1 r2 s", "r2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, storage.SnapshotCreating)
			s := csi.Snapshot(w.Read(), "default", "s")
			w.write("", func(tx *mvcc.WriteTx) error {
				return snapshot.Outcome(tx, &storage.SnapshotOutcomeEntry{
					Name:     "s",
					RowIndex: s.CreateIndex,
					Outcome: storage.Outcome{
						Op: storage.OpSnapshotCreate,
					},
					Answer: storage.GroupOfOne(&storage.CSISnapshot{
						ID: "ext-s", IsReady: true, AccessibleTopologies: c.usable,
					}, s.SourceExternalID),
					WriteOptions: structs.WriteOptions{Namespace: "default"},
				})
			})
			for _, byID := range []bool{false, true} {
				v := testVolume("new", structs.VolumeCreating)
				v.RequestedTopologies = c.asked
				v.Snapshot = "s"
				if byID {
					v.Snapshot = ""
					v.SnapshotID = "ext-s"
				}
				err := csi.ResolveSnapshot(w.Read(), v, nil)
				if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
					t.Fatalf("got %v, want %q", err, c.fault)
				}
				got := v.RequestedTopologies
				if got == nil {
					got = &structs.CSITopologyRequest{}
				}
				if err == nil && (placesOf(got.Required) != c.required || placesOf(got.Preferred) != c.preferred) {
					t.Errorf("by ID %t: required %q and preferred %q, want %q and %q", byID,
						placesOf(got.Required), placesOf(got.Preferred), c.required, c.preferred)
				}
			}
		})
	}
}

func required(all ...*structs.CSITopology) *structs.CSITopologyRequest {
	return &structs.CSITopologyRequest{Required: all}
}

func preferred(all ...*structs.CSITopology) *structs.CSITopologyRequest {
	return &structs.CSITopologyRequest{Preferred: all}
}

// The first request was limited, so its repetition is limited in the same way and changes no argument.
func TestResolveSnapshot_LimitsARepetitionAlike(t *testing.T) {
	w := newWorld(t, storage.SnapshotReady)
	w.write("", func(tx *mvcc.WriteTx) error {
		s := csi.Snapshot(tx, "default", "s").Copy()
		s.AccessibleTopologies = []*structs.CSITopology{place("r", "1")}
		schema.Snapshots.Put(tx, s)
		return nil
	})
	ask := func(old *structs.CSIVolume) *structs.CSIVolume {
		v := testVolume("new", structs.VolumeCreating)
		v.Snapshot = "s"
		v.RequestedTopologies = required(place("r", ""))
		err := csi.ResolveSnapshot(w.Read(), v, old)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := ask(nil)
	again := ask(first)
	if got := placesOf(again.RequestedTopologies.Required); got != "r1" ||
		got != placesOf(first.RequestedTopologies.Required) {
		t.Errorf("the first request requires %v, its repetition %q", first.RequestedTopologies.Required, got)
	}
}
