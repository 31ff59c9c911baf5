// Package mounthealth shows the states of the mounts of volumes.
package mounthealth

import (
	"context"
	"fmt"
	"time"

	"berth/api"
	"berth/api/usages"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/storage"
)

// Row is one mount on its node.
type Row struct {
	*storage.MountHealth
	NodeID   string
	VolumeID string
}

// Rows returns the mounts of all uses.
func Rows(all []*storage.VolumeUsage) (rows []Row) {
	for _, u := range all {
		for _, m := range u.Mounts {
			rows = append(rows, Row{m, u.NodeID, u.VolumeID})
		}
	}
	return rows
}

// Sheet shows the mounts of one volume.
var Sheet = command.Sheet[Row]{
	Titles: "Node|Mount|State|Since|Reason|Healing",
	Row: func(_ *command.Call, r Row) []string {
		return []string{
			command.ShortID(r.NodeID),
			user(r),
			command.OneLine(r.State),
			command.Age(r.Since),
			command.OneLine(r.Reason),
			command.OneLine(r.Healing),
		}
	},
}

// user names the allocation of a mount.
func user(r Row) string {
	if r.AllocID == "" {
		return "staged"
	}
	return "allocation " + command.ShortID(r.AllocID)
}

// Ill tells of the mounts of a use that are ill, "" if none is.
func Ill(u *storage.VolumeUsage) string {
	for _, m := range u.Mounts {
		if m.Ill() {
			return fmt.Sprintf("%s: %s", m.State, m.Reason)
		}
	}
	return ""
}

// text tells of a mount that is ill.
func text(r Row) string {
	line := fmt.Sprintf("volume %s on node %s, %s: the mount is %s since %s: %s", r.VolumeID,
		command.ShortID(r.NodeID), user(r), r.State, time.Unix(0, r.Since).UTC().Format(time.RFC3339), r.Reason)
	if r.Healing != "" {
		line += "; " + r.Healing
	}
	return command.OneLine(line)
}

// ofNode tells that a plugin reports a volume as abnormal on a node, "" if it does not.
func ofNode(u *storage.VolumeUsage) string {
	c := u.Condition
	if c == nil || !c.Abnormal {
		return ""
	}
	return command.OneLine(fmt.Sprintf("volume %s on node %s: the plugin reports it as abnormal: %s", u.VolumeID,
		command.ShortID(u.NodeID), c.Message))
}

// ofControllers returns a line for each volume that controllers report as abnormal.
func ofControllers(all []*storage.VolumeHealth) (lines []string) {
	for _, h := range all {
		if c := h.Condition; c != nil && c.Abnormal {
			lines = append(lines, command.OneLine(fmt.Sprintf("volume %s: the controllers of plugin %s report it as abnormal since %s: %s", h.VolumeID, h.PluginID,
				time.Unix(0, h.Since).UTC().Format(time.RFC3339), c.Message)))
		}
	}
	return lines
}

// Condition tells in a few words what a plugin says of a volume, "" for nothing.
func Condition(c *storage.VolumeCondition) string {
	switch {
	case c == nil:
		return ""
	case c.Abnormal:
		return command.OneLine("abnormal: " + c.Message)
	}
	return command.OneLine(c.Message)
}

// report is one adverse condition, with its source.
type report struct {
	source string
	since  int64
	*structs.CSIHealth
}

var reportSheet = command.Sheet[report]{
	Titles: "Reported By|Status|Reason|Since|Message",
	Row: func(_ *command.Call, r report) []string {
		return []string{
			r.source,
			command.OneLine(r.Status),
			command.OneLine(r.Reason),
			command.Age(r.since),
			command.OneLine(r.Message),
		}
	},
}

// PrintReports shows the adverse conditions of a volume that its plugin reports, those of the controllers
// first.
func PrintReports(c *command.Call, all *storage.VolumeUsageResponse) {
	var rows []report
	for _, h := range all.Health {
		if h.Condition != nil {
			for _, s := range h.Condition.Statuses {
				rows = append(rows, report{"controllers", h.Since, s})
			}
		}
	}
	for _, u := range all.Usages {
		if u.Condition != nil {
			for _, s := range u.Condition.Statuses {
				rows = append(rows, report{"node " + command.ShortID(u.NodeID), 0, s})
			}
		}
	}
	reportSheet.Section(c, "Health", rows)
}

// OfVolume returns a line for each mount of a volume that is ill, and for a plugin that reports the volume as
// abnormal.
func OfVolume(
	ctx context.Context, client *api.Client, volumeID string, q *api.Query,
) (lines []string, err error) {
	all, err := usages.Of(ctx, client, volumeID, q)
	if err != nil {
		return nil, err
	}

	for _, r := range Rows(all.Usages) {
		if r.Ill() {
			lines = append(lines, text(r))
		}
	}
	for _, u := range all.Usages {
		if line := ofNode(u); line != "" {
			lines = append(lines, line)
		}
	}
	return append(lines, ofControllers(all.Health)...), nil
}

// OfAlloc returns a line for each mount of a volume that is ill for an allocation, and for a plugin that
// reports the volume as abnormal on its node or everywhere.
func OfAlloc(
	ctx context.Context, client *api.Client, volumeID string, a *structs.Allocation,
) (lines []string, err error) {
	all, err := usages.Of(ctx, client, volumeID, &api.Query{Namespace: a.Namespace})
	if err != nil {
		return nil, err
	}
	for _, r := range Rows(all.Usages) {
		if r.Ill() && r.AllocID == a.ID {
			lines = append(lines, text(r))
		}
	}
	for _, u := range all.Usages {
		if line := ofNode(u); line != "" && u.NodeID == a.NodeID {
			lines = append(lines, line)
		}
	}
	return append(lines, ofControllers(all.Health)...), nil
}
