package storage

import (
	"fmt"
	"time"

	"berth/structs"
)

// The bounds.
const (
	MaxSchedules          = 1000 // rows
	MaxScheduleKeep       = 1000 // snapshots
	MaxScheduleCrons      = 16   // expressions of a schedule
	MaxScheduleUnfinished = 4    // snapshots of a schedule that are being taken
)

// SnapshotSchedule is the row of a schedule. Key: (Namespace, Name). Its volume need not exist.
type SnapshotSchedule struct {
	Namespace string
	Name      string
	VolumeID  string
	Crons     []string // a time of any counts
	TimeZone  string   // an IANA name, "" for UTC
	// Of the ready snapshots that the schedule has taken, the newest Keep stay, and those not older than
	// KeepFor.
	Keep       int
	KeepFor    time.Duration
	Paused     bool
	Parameters map[string]string // opaque, for CreateSnapshot
	// SecretsFrom is the path of the variable with the secrets of the calls, "" for the volume's.
	SecretsFrom string
	// Last is the newest time that is done, taken or skipped, in UnixNano: the next one follows from it. Before
	// the first it is the time at which the schedule began.
	Last         int64
	LastSnapshot string // the name of the newest one
	// LastError is the reason why times are skipped, "" while they are not.
	LastError string
	structs.Indexes
}

// Copy returns a copy, which shares all to which the row refers.
func (s *SnapshotSchedule) Copy() *SnapshotSchedule { return new(*s) }

// Canonicalize fills in the defaults. A schedule that only bounds the age keeps its newest snapshot, so one
// whose volume is gone does not delete the last copy. It is idempotent.
func (s *SnapshotSchedule) Canonicalize() {
	if s.Keep == 0 && s.KeepFor != 0 {
		s.Keep = 1
	}
}

// Times returns the schedule in the form that has the times.
func (s *SnapshotSchedule) Times() *structs.PeriodicConfig {
	return &structs.PeriodicConfig{Enabled: true, Specs: s.Crons, TimeZone: s.TimeZone}
}

// Next returns the first time after another one, zero for none.
func (s *SnapshotSchedule) Next(after time.Time) (time.Time, error) { return s.Times().Next(after) }

// Latest returns the newest time that is not before the next one and not after now. All times between them
// were missed.
func (s *SnapshotSchedule) Latest(next, now time.Time) (time.Time, error) {
	for low, high := next, now; high.Sub(low) >= time.Second; {
		middle := low.Add(high.Sub(low) / 2)
		at, err := s.Next(middle)
		switch {
		case err != nil:
			return time.Time{}, err
		case at.IsZero() || at.After(now):
			high = middle
		default:
			next = at
			low = at
		}
	}
	return next, nil
}

// SnapshotAt returns the name of the snapshot of a time.
func (s *SnapshotSchedule) SnapshotAt(at time.Time) string {
	return fmt.Sprintf("%s-%s", s.Name, at.UTC().Format("20060102t150405z"))
}

// Owns reports whether the schedule has taken a snapshot. One of an earlier schedule of the same name is not
// its own.
func (s *SnapshotSchedule) Owns(row *VolumeSnapshot) bool {
	return row.Namespace == s.Namespace && row.Schedule == s.Name && row.CreateIndex >= s.CreateIndex
}

// SchedulePutEntry is the log entry that records a schedule.
type SchedulePutEntry struct {
	Schedule *SnapshotSchedule
	structs.WriteOptions
}

// ScheduleRunEntry is the log entry of a time. It records the snapshot to take, or the reason why there is
// none. It has no effect unless the last time of the row is before At, or is in the future of the clocks.
type ScheduleRunEntry struct {
	Name      string
	RowIndex  uint64 // CreateIndex of the row
	At        int64  // UnixNano
	Snapshot  *VolumeSnapshot
	LastError string // as in SnapshotSchedule
	structs.WriteOptions
}
