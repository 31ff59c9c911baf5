package cli

import (
	"fmt"

	"berth/structs"
)

// growth says to which size a volume, or the file system on it, is to grow, and why it has not grown yet. It
// is "" if both have the size that was asked for.
func growth(v *structs.CSIVolumeDetail) string {
	switch {
	case v.ExpandPending && v.ExpandBlocked != "":
		return fmt.Sprintf("%s once it is not in use: %s", size(v.RequestedCapacityMin), v.ExpandBlocked)
	case v.ExpandPending:
		return size(v.RequestedCapacityMin) + ", of which the plugin has not said yet that it is done"
	case v.NodeExpandBytes == 0:
		return ""
	}
	var parts []string
	for _, c := range v.Claims {
		if text := claimGrowth(c); text != "" {
			parts = append(parts, fmt.Sprintf("allocation %s on node %s %s", structs.ShortID(c.AllocID),
				structs.ShortID(c.NodeID), text))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "what is on it grows when a node mounts it next")
	}
	return size(v.NodeExpandBytes) + ": " + joinComma(parts)
}

// claimGrowth says why an allocation still sees the old size, "" if it sees the new one.
func claimGrowth(c *structs.CSIClaim) string {
	switch {
	case c.ExpandBytes == 0 && c.ExpandError != nil:
		return "sees the old size until it is mounted anew: " + problem(c.ExpandError)
	case c.ExpandBytes == 0:
		return ""
	case c.ExpandError != nil:
		return "sees the old size: " + problem(c.ExpandError)
	}
	return "sees the old size: its node has not said yet that what is on it has grown"
}
