package volume

import (
	"context"
	"fmt"
	"time"

	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/storage"
)

// driftFlags are the options of plugin config for the comparison of volumes with the storage.
var driftFlags = []command.Flag{{
	Name:  "drift",
	Kind:  command.String,
	Value: "report|repair|off",
	Usage: "Whether differences between volumes and storage are shown, or attachments are repaired too",
}, {
	Name:  "drift-interval",
	Kind:  command.String,
	Value: "1m-24h|default",
	Usage: "The time between two comparisons. The default is 10 minutes",
}}

// setDrift changes the settings for drift that are given.
func setDrift(c *command.Call, d *storage.PluginDrift) error {
	given := c.String("drift")
	if given != "" {
		d.Drift = given
	}

	every := c.String("drift-interval")
	switch every {
	case "":
		return nil
	case byDefault:
		d.DriftInterval = 0
		return nil
	}
	interval, err := time.ParseDuration(every)
	if err != nil || interval == 0 {
		return structs.Invalidf("-drift-interval %q: expected a duration from %s to %s, for example 1h, or %s",
			every, storage.MinDriftInterval, storage.MaxDriftInterval, byDefault)
	}
	d.DriftInterval = interval
	return nil
}

var driftSheet = command.Sheet[*storage.VolumeDrift]{
	Titles: "Difference|Node|Since|Repair",
	Row: func(_ *command.Call, d *storage.VolumeDrift) []string {
		node := d.ExternalNodeID
		if d.NodeID != "" {
			node = show.ShortID(d.NodeID)
		}
		repair := ""
		if d.Repair != "" {
			repair = show.JoinComma(show.Age(d.RepairTime), d.Repair)
		}
		return []string{d.Kind, node, show.Age(d.Since), repair}
	},
}

// differencesOf returns the differences of a volume. A failure is a warning: the rest of an answer does not
// depend on it. Servers of an earlier version do not know the request.
func differencesOf(ctx context.Context, c *command.Call, id string) []*storage.VolumeDrift {
	all, err := volumes.ListDrift(ctx, c.API, "", id)
	if err != nil && !structs.IsKind(err, structs.KindNotFound) {
		warn(c, []string{"the differences from the storage are not known: " + err.Error()})
	}
	return all
}

// printDrift prints the differences of a volume, if there are any.
func printDrift(ctx context.Context, c *command.Call, id string) {
	all := differencesOf(ctx, c, id)
	if len(all) > 0 {
		driftSheet.Section(c, "Differences from the storage", all)
	}
}

// driftReasons says what the differences of a volume mean.
func driftReasons(all []*storage.VolumeDrift) (lines []string) {
	for _, d := range all {
		text := ""
		switch d.Kind {
		case storage.DriftMissingVolume:
			text = fmt.Sprintf("plugin %s does not list the volume, %s to it: look for it in the storage",
				d.PluginID, d.ExternalID)
		case storage.DriftMissingAttachment:
			text = fmt.Sprintf("plugin %s does not list the volume at node %s, to which it is attached",
				d.PluginID, show.ShortID(d.NodeID))
		case storage.DriftStrayAttachment:
			text = fmt.Sprintf("plugin %s lists the volume at node %s, to which nothing has attached it",
				d.PluginID, show.ShortID(d.NodeID))
		case storage.DriftUnknownNode:
			text = fmt.Sprintf("plugin %s lists the volume at %q, which is no node of the cluster",
				d.PluginID, d.ExternalNodeID)
		default:
			text = d.Kind
		}
		lines = append(lines, text+", "+show.Age(d.Since))
	}
	return lines
}

// driftOfPlugin tells the differences of a plugin; "" for none.
func driftOfPlugin(ctx context.Context, c *command.Call, id string) string {
	s, err := volumes.DriftOfPlugin(ctx, c.API, id)
	if err != nil {
		warn(c, []string{"the differences from the storage are not known: " + err.Error()})
	}
	if s == nil {
		return ""
	}
	var parts []string
	for _, kind := range storage.DriftKinds {
		n := s.Counts[kind]
		text := fmt.Sprintf("%d %s", n, kind)
		if kind == storage.DriftStrayVolume {
			text += " (berth volume status -external " + id + ")"
		}
		if n > 0 {
			parts = append(parts, text)
		}
	}
	if s.Fault != "" {
		parts = append(parts, "the last list was not complete: "+show.OneLine(s.Fault))
	}
	return show.JoinComma(parts...)
}
