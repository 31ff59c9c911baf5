package csihooks

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/backoff"
	"berth/structs"
)

// A cut may end during a call. The call is repeated at once, and the next pause is the shortest.
func TestCalls_AreRepeatedAtTheEndOfACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back backoff.Recovery
		h := &volumes{
			VolumesConfig: VolumesConfig{
				ServersBack: &back,
				Progress:    func(string, string) {},
				RetryMin:    250 * time.Millisecond,
				RetryMax:    15 * time.Second,
			},
			alloc: &structs.Allocation{ID: "a1"},
		}
		var at []time.Time
		const end = 8
		_, err := callUntilFinal(t.Context(), h, "claiming", func() (*structs.Empty, error) {
			at = append(at, time.Now())
			switch len(at) {
			case end:
				back.Announce()
			case end + 2:
				return &structs.Empty{}, nil
			}
			return nil, structs.Unavailablef("no route")
		})
		if err != nil {
			t.Fatal(err)
		}
		before := at[end-1].Sub(at[end-2])
		first := at[end].Sub(at[end-1])
		second := at[end+1].Sub(at[end])
		if before != h.RetryMax || first != 0 || second != h.RetryMin {
			t.Errorf("the pause is %s before the end of the cut, then %s and %s", before, first, second)
		}
	})
}
