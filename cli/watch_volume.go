package cli

import (
	"fmt"

	"berth/structs"
)

// growthText returns the size to which a volume or its content grows, and the reason why it has not grown
// yet. It returns "" if both have the requested size.
func growthText(v *structs.CSIVolumeDetail) string {
	switch {
	case v.ExpandPending && v.ExpandBlocked != "":
		return fmt.Sprintf("%s once it is not in use: %s",
			formatSize(v.RequestedCapacityMin), v.ExpandBlocked)
	case v.ExpandPending:
		return formatSize(v.RequestedCapacityMin) + ", not confirmed by the plugin yet"
	case v.NodeExpandBytes == 0:
		return ""
	}
	var parts []string
	for _, c := range v.Claims {
		if text := claimGrowth(c); text != "" {
			parts = append(parts, fmt.Sprintf("allocation %s on node %s %s",
				shortID(c.AllocID), shortID(c.NodeID), text))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "its content grows at the next mount on a node")
	}
	return formatSize(v.NodeExpandBytes) + ": " + joinComma(parts...)
}

// claimGrowth explains why an allocation still sees the old size. It returns "" if it sees the new one.
func claimGrowth(c *structs.CSIClaim) string {
	switch {
	case c.ExpandBytes == 0 && c.ExpandError != nil:
		return "sees the old size until the next mount: " + problemText(c.ExpandError)
	case c.ExpandBytes == 0:
		return ""
	case c.ExpandError != nil:
		return "sees the old size: " + problemText(c.ExpandError)
	}
	return "sees the old size: its node has not reported the growth yet"
}

// blockedText explains why a volume is not schedulable. It does not repeat the state and the error of the
// volume.
func blockedText(v *structs.CSIVolumeDetail) string {
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
