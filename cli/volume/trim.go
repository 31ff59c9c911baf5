package volume

import (
	"time"

	"berth/api/show"
	"berth/cli/command"
	"berth/structs/storage"
)

// trimRule describes when a volume is trimmed, "" if it is not.
func trimRule(every *time.Duration) string {
	if every == nil || *every == 0 {
		return ""
	}
	return "every " + show.Span(*every)
}

var trimSheet = command.Sheet[*storage.VolumeUsage]{
	Titles: "Node|Last|Given Back|Next|Fault",
	Row: func(_ *command.Call, u *storage.VolumeUsage) []string {
		given := ""
		if u.Trim.Time != 0 {
			given = show.Size(u.Trim.Bytes)
		}
		return []string{
			show.ShortID(u.NodeID),
			show.Age(u.Trim.Time),
			given,
			show.Age(u.Trim.Next),
			show.OneLine(u.Trim.Fault),
		}
	},
}

// printTrims shows the trims of a volume by node, if a node trims it.
func printTrims(c *command.Call, all []*storage.VolumeUsage) {
	var trimmed []*storage.VolumeUsage
	for _, u := range all {
		if u.Trim != nil {
			trimmed = append(trimmed, u)
		}
	}
	if len(trimmed) > 0 {
		trimSheet.Section(c, "Trims", trimmed)
	}
}
