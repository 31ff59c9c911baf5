package show

import (
	"cmp"

	"berth/structs/storage"
)

// Snapshots has the columns of snapshots of volumes.
var Snapshots = Noun[*storage.VolumeSnapshot]{
	Titles: "Name|Volume|Plugin|State|Size|Taken|ID|Group|Last Error",
	Row: func(s *storage.VolumeSnapshot, _ func(string) string) []string {
		return []string{
			s.Name,
			s.VolumeID,
			s.PluginID,
			s.State,
			Size(s.SizeBytes),
			Age(s.CutTime),
			s.ExternalID,
			s.Group,
			cmp.Or(OneLine(s.Reason), ProblemText(s.LastError)),
		}
	},
}
