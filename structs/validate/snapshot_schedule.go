package validate

import (
	"strings"
	"time"

	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate/field"
)

// The bounds of texts and times.
const (
	maxScheduleName = 100 // the names of snapshots begin with it
	maxCron         = 1024
	maxKeepFor      = 100 * 365 * 24 * time.Hour
)

var scheduleNameForm = field.Pattern(`^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?$`)

// SnapshotSchedule checks a canonical schedule and returns every fault, each with its path. No parameter
// appears in one.
func SnapshotSchedule(s *storage.SnapshotSchedule) error {
	f := field.New("")
	f.Require(s.Name != "", "schedule: name is required")
	f.Require(s.Name == "" || len(s.Name) <= maxScheduleName && scheduleNameForm().MatchString(s.Name),
		"schedule: name %.70q must be at most %d letters, digits, dots, dashes and underscores, beginning and "+
			"ending with a letter or digit", s.Name, maxScheduleName)

	f = f.At("schedule %q", structs.Cut(s.Name, structs.MaxQuoted))
	f.CheckName("volume", s.VolumeID)
	checkScheduleTimes(f, s)
	f.Require(s.Keep != 0 || s.KeepFor != 0,
		"keep or keep_for is required: the number of snapshots, or their age")
	f.CheckRange("keep", s.Keep, field.Between(0, storage.MaxScheduleKeep))
	f.CheckDuration("keep_for", s.KeepFor, maxKeepFor)
	f.CheckCSIMap("parameters", s.Parameters)
	if s.SecretsFrom != "" {
		err := SecretsPath(structs.NamespaceOr(s.Namespace), s.SecretsFrom)
		f.Require(err == nil, "secrets_from: %v", err)
	}
	return f.Err()
}

// checkScheduleTimes checks the cron expressions. One with a field of seconds could have several times in a
// minute.
func checkScheduleTimes(f field.Errors, s *storage.SnapshotSchedule) {
	f.Require(len(s.Crons) > 0, "cron is required: a list of expressions such as \"0 3 * * *\"")
	for _, spec := range field.FirstOf(f, "cron", s.Crons, storage.MaxScheduleCrons) {
		f.CheckString("cron", spec, maxCron)
		err := structs.CheckCron(spec)
		f.Require(err == nil, "cron %q is no cron expression: %v", structs.Cut(spec, structs.MaxQuoted), err)
		f.Require(len(strings.Fields(spec)) <= 6,
			"cron %q has a field of seconds; the shortest interval is a minute", structs.Cut(spec, structs.MaxQuoted))
	}

	_, err := s.Times().Location()
	f.Require(err == nil, "time_zone %q is no IANA time zone such as Europe/Berlin",
		structs.Cut(s.TimeZone, structs.MaxQuoted))
}
