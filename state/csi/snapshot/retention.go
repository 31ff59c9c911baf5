package snapshot

import (
	"cmp"
	"slices"
	"time"

	"berth/internal/mvcc"
	"berth/state/clustertime"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs/storage"
)

// asksAgain is the time after which a snapshot that could not be deleted is deleted again.
const asksAgain = 10 * time.Minute

// Expired returns the snapshots that a schedule no longer keeps, and the next time at which there may be
// more, zero if a change of the rows has to come first. A paused schedule keeps all. The order of the log
// decides which ones are newer, because a clock may be set back. The ready ones of an earlier volume of the
// ID stay: they may be all that is left of its data.
func Expired(
	tx mvcc.Reader, s *storage.SnapshotSchedule, now time.Time,
) (expired []*storage.VolumeSnapshot, next time.Time) {
	if s.Paused {
		return nil, time.Time{}
	}

	newer := false // than the row there is one that is ready or has failed
	ready := 0
	rows := newestFirst(tx, s)
	for _, row := range rows {
		until := now
		switch {
		case row.State == storage.SnapshotReady && row.VolumeIndex != rows[0].VolumeIndex:
			continue
		case row.State == storage.SnapshotReady:
			ready++
			newer = true
			if ready <= s.Keep {
				continue
			}
			until = time.Unix(0, clustertime.Corrected(clustertime.Of(tx), row.RequestTime)).Add(s.KeepFor)
		case row.State != storage.SnapshotFailed || row.ExternalID != "":
			continue // a call about it is to come
		case !newer:
			newer = true
			continue
		}

		until = runLater(until, runAgain(tx, row, now))
		if !until.After(now) {
			expired = append(expired, row)
			continue
		}
		if next.IsZero() || until.Before(next) {
			next = until
		}
	}
	return expired, next
}

// newestFirst returns the snapshots that a schedule has taken.
func newestFirst(tx mvcc.Reader, s *storage.SnapshotSchedule) (rows []*storage.VolumeSnapshot) {
	for row := range schema.SnapshotsBySchedule.Scan(tx, s.Namespace, s.Name) {
		if s.Owns(row) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b *storage.VolumeSnapshot) int {
		return cmp.Compare(b.CreateIndex, a.CreateIndex)
	})
	return rows
}

// runAgain returns the earliest time for the deletion of a row: later while a volume is made from it, or
// after the plugin has rejected it.
func runAgain(tx mvcc.Reader, row *storage.VolumeSnapshot, now time.Time) time.Time {
	switch {
	case csi.RestoreOf(tx, row) != "":
		return now.Add(time.Minute)
	case row.State == storage.SnapshotReady && row.LastError != nil:
		return time.Unix(0, row.LastError.Time).Add(asksAgain)
	}
	return now
}

func runLater(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
