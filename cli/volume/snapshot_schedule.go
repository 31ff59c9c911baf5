package volume

import (
	"context"
	"fmt"
	"strings"

	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/jobspec"
	"berth/structs/storage"
	"berth/structs/validate"
)

// scheduleCommands are the verbs of berth volume snapshot schedule.
var scheduleCommands = []command.Command{
	{
		Name:     "apply",
		Args:     "<file>",
		Synopsis: "Create or change a schedule",
		Help: `
The file has the schedule in HCL, or in the JSON of the API; "-" is the
standard input. The volume of a schedule cannot change. A schedule with other
times than before begins anew.`,
		Acts:     true,
		Run:      scheduleApply,
		Examples: "berth volume snapshot schedule apply nightly.hcl",
	},
	{
		Name:     "list",
		Synopsis: "List the schedules",
		Renders:  true,
		Flags: []command.Flag{
			{Name: "volume", Kind: command.String, Value: "id", Usage: "List the schedules of one volume"},
		},
		Run: func(ctx context.Context, c *command.Call) error {
			all, err := volumes.ListSchedules(ctx, c.API, c.String("volume"))
			if err != nil {
				return err
			}
			return scheduleSheet.List(c, "schedule", all)
		},
		Examples: "berth volume snapshot schedule list\n" +
			"berth volume snapshot schedule list -volume data",
	},
	{
		Name:     "status",
		Args:     "<schedule>",
		Synopsis: "Show a schedule and its snapshots",
		Renders:  true,
		Run:      scheduleStatus,
		Examples: "berth volume snapshot schedule status nightly",
	},
	{
		Name:     "pause",
		Args:     "<schedule>",
		Synopsis: "Take and delete no snapshots until the schedule is resumed",
		Acts:     true,
		Run: func(ctx context.Context, c *command.Call) error {
			return schedulePause(ctx, c, true, "Schedule %q is paused")
		},
		Examples: "berth volume snapshot schedule pause nightly",
	},
	{
		Name:     "resume",
		Args:     "<schedule>",
		Synopsis: "Resume a schedule",
		Help: `
Of the times that have passed in the pause, the latest one is taken at once.`,
		Acts: true,
		Run: func(ctx context.Context, c *command.Call) error {
			return schedulePause(ctx, c, false, "Schedule %q is resumed")
		},
		Examples: "berth volume snapshot schedule resume nightly",
	},
	{
		Name:     "delete",
		Args:     "<schedule>",
		Synopsis: "Delete a schedule, whose snapshots stay",
		Acts:     true,
		Run: func(ctx context.Context, c *command.Call) error {
			seen, err := volumes.GetSchedule(ctx, c.API, c.Arg(0))
			on, err := c.On(seen, err)
			if err != nil {
				return err
			}
			err = volumes.DeleteSchedule(ctx, on, c.Arg(0))
			if err != nil {
				return err
			}
			return c.Report(command.Changed{"Name": c.Arg(0)}, "Schedule %q is deleted", c.Arg(0))
		},
		Examples: "berth volume snapshot schedule delete nightly",
	},
}

func scheduleApply(ctx context.Context, c *command.Call) error {
	row, err := command.ReadDefinition(c, decodeSchedule, jobspec.ReadSnapshotSchedule, validateSchedule(c))
	if err != nil {
		return err
	}

	err = volumes.PutSchedule(ctx, c.API, row)
	if err != nil {
		return err
	}
	return c.Report(command.Changed{"Name": row.Name}, "Schedule %q is applied", row.Name)
}

// decodeSchedule reads a schedule in JSON, with its defaults.
func decodeSchedule(src []byte) (*storage.SnapshotSchedule, error) {
	row, err := volumes.DecodeSchedule(src)
	row.Canonicalize()
	return row, err
}

// validateSchedule returns the check of a schedule that is to be in the namespace of a call.
func validateSchedule(c *command.Call) func(*storage.SnapshotSchedule) error {
	return func(s *storage.SnapshotSchedule) error {
		own := s.Copy()
		own.Namespace = c.Namespace()
		return validate.SnapshotSchedule(own)
	}
}

var scheduleSheet = command.Sheet[*storage.SnapshotSchedule]{
	Titles: "Name|Volume|Times|Keep|Keep for|Paused|Last snapshot|Skipped because",
	Row: func(_ *command.Call, s *storage.SnapshotSchedule) []string {
		return []string{
			s.Name,
			s.VolumeID,
			scheduleTimes(s),
			fmt.Sprint(s.Keep),
			scheduleKeepFor(s),
			show.YesNo(s.Paused),
			s.LastSnapshot,
			show.OneLine(s.LastError),
		}
	},
}

func scheduleTimes(s *storage.SnapshotSchedule) string { return strings.Join(s.Crons, ", ") }

// scheduleKeepFor returns the age up to which snapshots stay, "" for none.
func scheduleKeepFor(s *storage.SnapshotSchedule) string {
	if s.KeepFor == 0 {
		return ""
	}
	return show.Span(s.KeepFor)
}

func scheduleStatus(ctx context.Context, c *command.Call) error {
	s, err := volumes.GetSchedule(ctx, c.API, c.Arg(0))
	if err != nil {
		return err
	}
	return c.Show(s, func() error {
		c.Pairs(
			"Name", s.Name,
			"Namespace", s.Namespace,
			"Volume", s.VolumeID,
			"Times", scheduleTimes(s.SnapshotSchedule),
			"Time zone", s.TimeZone,
			"Keep", fmt.Sprint(s.Keep),
			"Keep for", scheduleKeepFor(s.SnapshotSchedule),
			"Paused", show.YesNo(s.Paused),
			"Parameters", show.KeyValues(s.Parameters),
			"Secrets from", s.SecretsFrom,
			"Last time", show.Nanos(s.Last),
			"Next time", show.Nanos(s.Next),
			"Last snapshot", s.LastSnapshot,
			"Skipped because", show.OneLine(s.LastError),
		)

		all, err := volumes.ListSnapshots(ctx, c.API, volumes.SnapshotFilter{VolumeID: s.VolumeID})
		if err != nil {
			return err
		}
		var own []*storage.VolumeSnapshot
		for _, row := range all {
			if s.Owns(row) {
				own = append(own, row)
			}
		}
		if len(own) > 0 {
			snapshotRowSheet.Section(c, "Snapshots", own)
		}
		return nil
	})
}

func schedulePause(ctx context.Context, c *command.Call, paused bool, text string) error {
	err := volumes.PauseSchedule(ctx, c.API, c.Arg(0), paused)
	if err != nil {
		return err
	}
	return c.Report(command.Changed{"Name": c.Arg(0)}, text, c.Arg(0))
}
