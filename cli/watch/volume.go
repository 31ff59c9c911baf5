package watch

import (
	"fmt"

	"berth/api/show"
	"berth/structs"
)

// GrowthText returns the size to which a volume or its content grows, and the reason why it has not grown
// yet. It returns "" if both have the requested size.
func GrowthText(v *structs.CSIVolumeDetail) string {
	switch {
	case v.Expands() && v.ExpandBlocked != "":
		return fmt.Sprintf("%s once it is not in use: %s",
			show.Size(v.RequestedCapacityMin), v.ExpandBlocked)
	case v.Expands():
		return show.Size(v.RequestedCapacityMin) + ", not confirmed by the plugin yet"
	case v.NodeExpandBytes == 0:
		return ""
	}

	var parts []string
	for _, c := range v.Claims {
		if text := claimGrowth(c); text != "" {
			parts = append(parts, fmt.Sprintf("allocation %s on node %s %s",
				show.ShortID(c.AllocID), show.ShortID(c.NodeID), text))
		}
	}

	if len(parts) == 0 {
		parts = append(parts, "its content grows at the next mount on a node")
	}

	return show.Size(v.NodeExpandBytes) + ": " + show.JoinComma(parts...)
}

// claimGrowth explains why an allocation still sees the old size. It returns "" if it sees the new one.
func claimGrowth(c *structs.CSIClaim) string {
	switch {
	case c.ExpandBytes == 0 && c.ExpandError != nil:
		return "sees the old size until the next mount: " + show.ProblemText(c.ExpandError)
	case c.ExpandBytes == 0:
		return ""
	case c.ExpandError != nil:
		return "sees the old size: " + show.ProblemText(c.ExpandError)
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
