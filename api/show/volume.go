package show

import (
	"fmt"

	"berth/structs"
)

// Volumes has the columns of volumes in a list.
var Volumes = Noun[*structs.CSIVolumeListStub]{
	Titles: "ID|Namespace|Name|Plugin|Class|State|Drift|Deleted|Schedulable|Access Mode|Readers|Writers|" +
		"Waiting|Created",
	Row: func(v *structs.CSIVolumeListStub, _ func(string) string) []string {
		name := v.Name
		if name == v.ID { // a table drops the column if all are empty
			name = ""
		}
		return []string{
			v.ID,
			v.Namespace,
			name,
			v.PluginID,
			v.Class,
			v.State,
			v.Drift,
			DeletionTime(v.DeleteAt, Age),
			YesNo(v.Schedulable),
			string(v.AccessMode),
			fmt.Sprint(v.CurrentReaders),
			fmt.Sprint(v.CurrentWriters),
			fmt.Sprint(v.Waiting),
			Age(v.CreateTime),
		}
	},
}

// GrowthText returns the size to which a volume or its content grows, and the reason why it has not grown
// yet. It returns "" if both have the requested size.
func GrowthText(v *structs.CSIVolumeDetail) string {
	switch {
	case v.Expands() && v.ExpandBlocked != "":
		return fmt.Sprintf("%s once it is not in use: %s",
			Size(v.RequestedCapacityMin), v.ExpandBlocked)
	case v.Expands():
		return Size(v.RequestedCapacityMin) + ", not confirmed by the plugin yet"
	case v.NodeExpandBytes == 0:
		return ""
	}

	var parts []string
	for _, c := range v.Claims {
		if text := claimGrowth(c); text != "" {
			parts = append(parts, fmt.Sprintf("allocation %s on node %s %s",
				ShortID(c.AllocID), ShortID(c.NodeID), text))
		}
	}

	if len(parts) == 0 {
		parts = append(parts, "its content grows at the next mount on a node")
	}

	return Size(v.NodeExpandBytes) + ": " + JoinComma(parts...)
}

// claimGrowth explains why an allocation still sees the old size. It returns "" if it sees the new one.
func claimGrowth(c *structs.CSIClaim) string {
	switch {
	case c.ExpandBytes == 0 && c.ExpandError != nil:
		return "sees the old size until the next mount: " + ProblemText(c.ExpandError)
	case c.ExpandBytes == 0:
		return ""
	case c.ExpandError != nil:
		return "sees the old size: " + ProblemText(c.ExpandError)
	}
	return "sees the old size: its node has not reported the growth yet"
}

// BlockedText explains why a volume is not schedulable. It does not repeat the state and the error of the
// volume.
func BlockedText(v *structs.CSIVolumeDetail) string {
	if v.LastError != nil {
		switch v.State {
		case structs.VolumeCreating, structs.VolumeDeleting:
			return ""
		case structs.VolumeFailed:
			return "correct it and create it again, or delete it"
		}
	}
	return v.Blocked
}

// DeletionTime describes the time of the deletion of a marked volume, in UnixNano. 0 is "".
func DeletionTime(nanos int64, format func(int64) string) string {
	if nanos != 0 && nanos <= Now().UnixNano() {
		return "once nobody has it"
	}
	return format(nanos)
}
