package show

import (
	"cmp"
	"fmt"

	"berth/structs"
)

// Claims has the columns of claims on volumes in a list.
var Claims = Noun[*structs.VolumeClaimStub]{
	Titles: "Volume|Allocation|Job|Group|Node|Mode|Access Mode|State|Place|Since|Reason|Cause",
	Row: func(v *structs.VolumeClaimStub, id func(string) string) []string {
		place := ""
		if v.Position > 0 {
			place = fmt.Sprint(v.Position)
		}
		return []string{
			v.VolumeID,
			id(v.AllocID),
			v.JobID,
			v.TaskGroupName,
			cmp.Or(v.NodeName, id(v.NodeID)),
			v.Mode,
			string(v.AccessMode),
			v.State,
			place,
			Age(v.Since),
			v.Cause,
			v.CauseText,
		}
	},
}
