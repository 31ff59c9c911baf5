package server

import (
	"fmt"
	"strings"
	"testing"

	"berth/rpc"
	"berth/state"
	"berth/structs"
)

// A few large entries are a long start, however few they are.
func TestCompactOnce_TakesASnapshotOfALogThatIsLong(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	s := run(t, cfg)
	s.register("j")
	newest := func() uint64 {
		all, err := s.consensus.files.Snapshots.List()
		if err != nil || len(all) == 0 {
			return 0
		}
		return all[0].Index
	}
	compact := func() uint64 {
		t.Helper()
		if err := s.compactOnce(); err != nil {
			t.Fatal(err)
		}
		return newest()
	}
	if index := compact(); index != 0 {
		t.Errorf("a short log has a snapshot of entry %d", index)
	}

	register := &structs.JobRegisterRequest{Job: state.Job(s.store.Read(), "default", "j")}
	grow := func(more int64) {
		t.Helper()
		log := s.consensus.files.Log
		end := log.BytesBehind() + more
		for i := 0; log.BytesBehind() < end; i++ {
			register.Job.Meta = map[string]string{"round": fmt.Sprint(i)}
			register.Submission = &structs.JobSubmission{
				Source: strings.Repeat("x", 900_000),
				Format: structs.FormatHCL2,
			}
			_, err := rpc.Call(t.Context(), s, structs.JobRegister, register)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	grow(leastBehind)
	first := compact()
	behind := s.consensus.files.Log.BytesBehind()
	if first == 0 || behind > leastBehind/2 || behind < -leastBehind/2 {
		t.Fatalf("the snapshot is of entry %d, and %d bytes are behind it", first, behind)
	}
	if again := compact(); again != first {
		t.Errorf("another snapshot, of entry %d after %d", again, first)
	}
	size, err := s.consensus.files.NewestSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	grow(max(leastBehind, size))
	if second := compact(); second <= first {
		t.Errorf("the second snapshot is of entry %d, after %d", second, first)
	}
}

// While a snapshot is larger than the log behind it, a start mostly reads the snapshot.
func TestCompactOnce_WaitsForALogAsLargeAsTheSnapshot(t *testing.T) {
	for _, c := range []struct {
		behind, snapshot int64
		due              bool
	}{
		{leastBehind - 1, 0, false},
		{leastBehind, 0, true},
		{leastBehind, leastBehind + 1, false},
		{leastBehind + 1, leastBehind + 1, true},
	} {
		if got := snapshotIsDue(c.behind, c.snapshot); got != c.due {
			t.Errorf("%d bytes behind a snapshot of %d: got %v", c.behind, c.snapshot, got)
		}
	}
}
