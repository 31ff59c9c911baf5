package csi_test

import (
	"fmt"
	"testing"
	"time"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/csi"
	"berth/state/statetest"
	"berth/structs"
	"berth/structs/storage"
)

// noteExhaustion records in the state that a volume of a size found no space in a zone.
func noteExhaustion(t *testing.T, s *state.Store, zone string, bytes, now int64) {
	t.Helper()
	statetest.Write(t, s, func(tx *mvcc.WriteTx) error {
		csi.NoteExhaustion(tx, &structs.CSIVolume{
			CSIVolumeSpec: structs.CSIVolumeSpec{
				PluginID:             "p",
				Class:                "fast",
				RequestedCapacityMin: bytes,
				RequestedTopologies:  &structs.CSITopologyRequest{Required: []*structs.CSITopology{zonePlace(zone)}},
			},
		}, now)
		return nil
	})
}

func zonePlace(zone string) *structs.CSITopology {
	return &structs.CSITopology{Segments: map[string]string{"zone": zone}}
}

func TestNoteExhaustion_KeepsTheSmallestSizeForAWhile(t *testing.T) {
	s := state.New()
	later := int64(storage.SpaceRetryAfter)
	for _, c := range []struct{ bytes, now, want int64 }{
		{20, 1, 20},
		{10, 2, 10},
		{30, later, 10},
		{30, 2*later + 1, 30}, // the earlier answers are too old
	} {
		noteExhaustion(t, s, "a", c.bytes, c.now)
		e := csi.Exhausted(s.Read(), "p", "fast", zonePlace("a"))
		if e == nil || e.Bytes != c.want || e.Time != c.now {
			t.Errorf("%d bytes at %s: got %+v, want %d", c.bytes, time.Duration(c.now), e, c.want)
		}
	}
	if e := csi.Exhausted(s.Read(), "p", "fast", zonePlace("b")); e != nil {
		t.Errorf("another place: %+v", e)
	}
}

func TestNoteExhaustion_BeginsAnewWithTooManyPlaces(t *testing.T) {
	s := state.New()
	for i := range 1001 {
		noteExhaustion(t, s, fmt.Sprint(i), 1, 1)
	}
	if csi.Exhausted(s.Read(), "p", "fast", zonePlace("0")) != nil ||
		csi.Exhausted(s.Read(), "p", "fast", zonePlace("1000")) == nil {
		t.Error("the last place alone is to be known")
	}
}

// answerSpace records that the plugin has told how much space the class has in a zone.
func answerSpace(t *testing.T, s *state.Store, zone string, left, now int64) {
	t.Helper()
	req := &storage.SpaceRequest{Answers: []*storage.SpaceAnswer{{
		PluginID: "p", Class: "fast", Place: storage.TopologyText(zonePlace(zone)), Left: left,
	}}}
	req.Now = now
	statetest.Write(t, s, func(tx *mvcc.WriteTx) error { return csi.VolumeSpace(tx, req) })
}

// putClass stores the class "fast" of a plugin.
func putClass(t *testing.T, s *state.Store, plugin string) {
	t.Helper()
	put := &storage.ClassPutRequest{Class: &storage.VolumeClass{Name: "fast", PluginID: plugin}}
	statetest.Write(t, s, func(tx *mvcc.WriteTx) error { return csi.ClassPut(tx, put) })
}

func TestVolumeSpace_StandsBesideAnExhaustion(t *testing.T) {
	s := state.New()
	answerSpace(t, s, "a", 5, 1)
	if csi.Exhausted(s.Read(), "p", "fast", zonePlace("a")) != nil {
		t.Error("the answer for a class that is gone is kept")
	}
	putClass(t, s, "p")
	noteExhaustion(t, s, "a", 10, 1)
	answerSpace(t, s, "a", 5, 2)
	noteExhaustion(t, s, "a", 20, 3)
	e := csi.Exhausted(s.Read(), "p", "fast", zonePlace("a"))
	if e == nil || e.Left != 5 || e.LeftTime != 2 || e.Bytes != 10 || e.Time != 3 {
		t.Errorf("got %+v", e)
	}
}

// TestForgetSpace_WithTheClass has a class that gets another plugin, and one that is deleted.
func TestForgetSpace_WithTheClass(t *testing.T) {
	for name, end := range map[string]func(*state.Store){
		"another plugin": func(s *state.Store) { putClass(t, s, "q") },
		"deleted": func(s *state.Store) {
			del := &storage.ClassDeleteRequest{Name: "fast"}
			statetest.Write(t, s, func(tx *mvcc.WriteTx) error { return csi.ClassDelete(tx, del) })
		},
	} {
		s := state.New()
		putClass(t, s, "p")
		noteExhaustion(t, s, "a", 10, 1)
		end(s)
		if csi.Exhausted(s.Read(), "p", "fast", zonePlace("a")) != nil {
			t.Errorf("%s: the record stays", name)
		}
	}
}

func TestLacks_EndsWithItsAge(t *testing.T) {
	e := &storage.Exhaustion{Left: 10, MaxVolume: 6, LeftTime: 1}
	for _, c := range []struct {
		bytes, now int64
		want       bool
	}{
		{6, 2, false},
		{7, 2, true},
		{11, int64(storage.SpaceRetryAfter), true},
		{11, int64(storage.SpaceRetryAfter) + 1, false}, // a wrong figure ends
	} {
		if got := e.Lacks(c.bytes, c.now); got != c.want {
			t.Errorf("%d bytes at %d: got %v, want %v", c.bytes, c.now, got, c.want)
		}
	}
	if (*storage.Exhaustion)(nil).Lacks(1, 1) || (&storage.Exhaustion{}).Lacks(1, 1) {
		t.Error("a place without a figure lacks space")
	}
}

func TestSaysMore_OnlyOfAnotherRoundedFigure(t *testing.T) {
	e := &storage.Exhaustion{Left: 1 << 40, LeftTime: 1}
	for left, want := range map[int64]bool{
		1 << 40:           false,
		1<<40 + 1<<20:     false,
		1<<40 + 1<<40/10:  true,
		1<<40 - 1:         true,
		0:                 true,
		(1 << 40) * 3 / 2: true,
	} {
		a := &storage.SpaceAnswer{Left: left}
		if got := a.SaysMore(e); got != want {
			t.Errorf("%d after %d: got %v, want %v", left, e.Left, got, want)
		}
	}
	if !(&storage.SpaceAnswer{}).SaysMore(&storage.Exhaustion{Time: 1}) {
		t.Error("the first answer says nothing")
	}
}
