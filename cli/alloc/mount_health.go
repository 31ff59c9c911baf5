package alloc

import (
	"context"
	"fmt"
	"time"

	"berth/api"
	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/storage"
)

// MountRow is one mount on its node.
type MountRow struct {
	*storage.MountHealth
	NodeID   string
	VolumeID string
}

// MountRows returns the mounts of all uses.
func MountRows(all []*storage.VolumeUsage) (rows []MountRow) {
	for _, u := range all {
		for _, m := range u.Mounts {
			rows = append(rows, MountRow{m, u.NodeID, u.VolumeID})
		}
	}
	return rows
}

// MountSheet shows the mounts of one volume.
var MountSheet = command.Sheet[MountRow]{
	Titles: "Node|Mount|State|Since|Reason|Healing",
	Row: func(_ *command.Call, r MountRow) []string {
		return []string{
			show.ShortID(r.NodeID),
			mountUser(r),
			show.OneLine(r.State),
			show.Age(r.Since),
			show.OneLine(r.Reason),
			show.OneLine(r.Healing),
		}
	},
}

// mountUser names the allocation of a mount.
func mountUser(r MountRow) string {
	if r.AllocID == "" {
		return "staged"
	}
	return "allocation " + show.ShortID(r.AllocID)
}

// IllMount tells of the mounts of a use that are ill, "" if none is.
func IllMount(u *storage.VolumeUsage) string {
	for _, m := range u.Mounts {
		if m.Ill() {
			return fmt.Sprintf("%s: %s", m.State, m.Reason)
		}
	}
	return ""
}

// mountText tells of a mount that is ill.
func mountText(r MountRow) string {
	line := fmt.Sprintf("volume %s on node %s, %s: the mount is %s since %s: %s", r.VolumeID,
		show.ShortID(r.NodeID), mountUser(r), r.State, time.Unix(0, r.Since).UTC().Format(time.RFC3339),
		r.Reason)
	if r.Healing != "" {
		line += "; " + r.Healing
	}
	return show.OneLine(line)
}

// nodeCondition tells that a plugin reports a volume as abnormal on a node, "" if it does not.
func nodeCondition(u *storage.VolumeUsage) string {
	c := u.Condition
	if c == nil || !c.Abnormal {
		return ""
	}
	return show.OneLine(fmt.Sprintf("volume %s on node %s: the plugin reports it as abnormal: %s", u.VolumeID,
		show.ShortID(u.NodeID), c.Message))
}

// controllerConditions returns a line for each volume that controllers report as abnormal.
func controllerConditions(all []*storage.VolumeHealth) (lines []string) {
	for _, h := range all {
		if c := h.Condition; c != nil && c.Abnormal {
			since := time.Unix(0, h.Since).UTC().Format(time.RFC3339)
			lines = append(lines, show.OneLine(fmt.Sprintf(
				"volume %s: the controllers of plugin %s report it as abnormal since %s: %s",
				h.VolumeID, h.PluginID, since, c.Message)))
		}
	}
	return lines
}

// VolumeCondition tells in a few words what a plugin says of a volume, "" for nothing.
func VolumeCondition(c *storage.VolumeCondition) string {
	switch {
	case c == nil:
		return ""
	case c.Abnormal:
		return show.OneLine("abnormal: " + c.Message)
	}
	return show.OneLine(c.Message)
}

// healthReport is one adverse condition, with its source.
type healthReport struct {
	source string
	since  int64
	*structs.CSIHealth
}

var healthReportSheet = command.Sheet[healthReport]{
	Titles: "Reported By|Status|Reason|Since|Message",
	Row: func(_ *command.Call, r healthReport) []string {
		return []string{
			r.source,
			show.OneLine(r.Status),
			show.OneLine(r.Reason),
			show.Age(r.since),
			show.OneLine(r.Message),
		}
	},
}

// PrintHealthReports shows the adverse conditions of a volume that its plugin reports, the controllers'
// first.
func PrintHealthReports(c *command.Call, all *storage.VolumeUsageResponse) {
	var rows []healthReport
	for _, h := range all.Health {
		if h.Condition != nil {
			for _, s := range h.Condition.Statuses {
				rows = append(rows, healthReport{"controllers", h.Since, s})
			}
		}
	}
	for _, u := range all.Usages {
		if u.Condition != nil {
			for _, s := range u.Condition.Statuses {
				rows = append(rows, healthReport{"node " + show.ShortID(u.NodeID), 0, s})
			}
		}
	}
	healthReportSheet.Section(c, "Health", rows)
}

// PrintVolumeHealth returns a line for each mount of a volume that is ill, and for a plugin that reports the
// volume as abnormal.
func PrintVolumeHealth(
	ctx context.Context, client *api.Client, volumeID string, q *api.Query,
) (lines []string, err error) {
	all, err := volumes.Usage(ctx, client, volumeID, q)
	if err != nil {
		return nil, err
	}

	for _, r := range MountRows(all.Usages) {
		if r.Ill() {
			lines = append(lines, mountText(r))
		}
	}
	for _, u := range all.Usages {
		if line := nodeCondition(u); line != "" {
			lines = append(lines, line)
		}
	}
	return append(lines, controllerConditions(all.Health)...), nil
}

// PrintAllocHealth returns a line for each mount of a volume that is ill for an allocation, and for a plugin
// that reports the volume as abnormal on its node or everywhere.
func PrintAllocHealth(
	ctx context.Context, client *api.Client, volumeID string, a *structs.Allocation,
) (lines []string, err error) {
	all, err := volumes.Usage(ctx, client, volumeID, &api.Query{Namespace: a.Namespace})
	if err != nil {
		return nil, err
	}
	for _, r := range MountRows(all.Usages) {
		if r.Ill() && r.AllocID == a.ID {
			lines = append(lines, mountText(r))
		}
	}
	for _, u := range all.Usages {
		if line := nodeCondition(u); line != "" && u.NodeID == a.NodeID {
			lines = append(lines, line)
		}
	}
	return append(lines, controllerConditions(all.Health)...), nil
}
