package space_test

import (
	"fmt"
	"testing"
	"time"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/csi/space"
	"berth/structs"
	"berth/structs/jobvolume"
)

// note records in the state that a volume of a size found no space in a zone.
func note(t *testing.T, s *state.Store, zone string, bytes, now int64) {
	t.Helper()
	err := s.Write(s.Index()+1, func(tx *mvcc.WriteTx) error {
		space.Note(tx, &structs.CSIVolume{
			PluginID:             "p",
			Class:                "fast",
			RequestedCapacityMin: bytes,
			RequestedTopologies:  &structs.CSITopologyRequest{Required: []*structs.CSITopology{place(zone)}},
		}, now)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func place(zone string) *structs.CSITopology {
	return &structs.CSITopology{Segments: map[string]string{"zone": zone}}
}

func TestNote_KeepsTheSmallestSizeForAWhile(t *testing.T) {
	s := state.New()
	later := int64(jobvolume.RetryAfter)
	for _, c := range []struct{ bytes, now, want int64 }{
		{20, 1, 20},
		{10, 2, 10},
		{30, later, 10},
		{30, 2*later + 1, 30}, // the earlier answers are too old
	} {
		note(t, s, "a", c.bytes, c.now)
		e := space.Exhausted(s.Read(), "p", "fast", place("a"))
		if e == nil || e.Bytes != c.want || e.Time != c.now {
			t.Errorf("%d bytes at %s: got %+v, want %d", c.bytes, time.Duration(c.now), e, c.want)
		}
	}
	if e := space.Exhausted(s.Read(), "p", "fast", place("b")); e != nil {
		t.Errorf("another place: %+v", e)
	}
}

func TestNote_BeginsAnewWithTooManyPlaces(t *testing.T) {
	s := state.New()
	for i := range 1001 {
		note(t, s, fmt.Sprint(i), 1, 1)
	}
	if space.Exhausted(s.Read(), "p", "fast", place("0")) != nil ||
		space.Exhausted(s.Read(), "p", "fast", place("1000")) == nil {
		t.Error("the last place alone is to be known")
	}
}
