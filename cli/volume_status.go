package cli

import (
	"context"
	"fmt"
	"strings"

	"berth/api"
	"berth/structs"
)

func volumeStatus(ctx context.Context, c *Call) error {
	if c.Arg(0) == "" {
		return volumeListing(ctx, c)
	}
	if c.Given("plugin") || c.Given("node") {
		return badUsage("-plugin and -node select from all volumes; they exclude the name of a volume")
	}
	return oneVolume.run(ctx, c)
}

// oneVolume lists nothing, because the options of volumeListing select the volumes.
var oneVolume = status[*structs.CSIVolumeListStub, structs.CSIVolumeDetail]{
	kind:  "volume",
	get:   (*api.Client).Volume,
	print: printVolume,
}

func volumeListing(ctx context.Context, c *Call) error {
	filter := api.VolumeFilter{PluginID: c.String("plugin")}
	if c.Given("node") {
		id, err := c.resolve(ctx, "node", c.String("node"))
		if err != nil {
			return err
		}
		filter.NodeID = id
	}
	vols, _, err := c.API.Volumes(ctx, filter, nil)
	err = c.checkFound(ctx, len(vols), err)
	if err != nil {
		return err
	}
	if c.Bool("verbose") {
		return showExternal(ctx, c, filter, vols)
	}
	return volumeSheet.list(c, "volume", vols)
}

var volumeSheet = sheet[*structs.CSIVolumeListStub]{
	titles: "ID|Name|Plugin|State|Schedulable|Access Mode|Readers|Writers|Waiting",
	row: func(_ *Call, v *structs.CSIVolumeListStub) []string {
		name := v.Name
		if name == v.ID { // the table drops the column if all are empty
			name = ""
		}
		return []string{
			v.ID,
			name,
			v.PluginID,
			v.State,
			yesNo(v.Schedulable),
			string(v.AccessMode),
			fmt.Sprint(v.CurrentReaders),
			fmt.Sprint(v.CurrentWriters),
			fmt.Sprint(v.Waiting),
		}
	},
}

var attachmentSheet = sheet[*structs.CSIAttachment]{
	titles: "Node|State|Read Only|Changed|Last Error",
	row: func(_ *Call, a *structs.CSIAttachment) []string {
		return []string{
			shortID(a.NodeID),
			a.State,
			yesNo(a.ReadOnly),
			age(a.ModifyTime),
			joinComma(problemText(a.LastError), callInFlight(a.Call)),
		}
	},
}

var claimSheet = sheet[*structs.CSIClaim]{
	titles: "Allocation|Job|Node|Mode|Access Mode|State|Since|Waits For",
	row: func(_ *Call, c *structs.CSIClaim) []string {
		return []string{
			shortID(c.AllocID),
			c.JobID,
			shortID(c.NodeID),
			c.Mode,
			string(c.AccessMode),
			c.State,
			age(c.CreateTime),
			c.Reason,
		}
	},
}

func printVolume(_ context.Context, c *Call, v *structs.CSIVolumeDetail) error {
	c.pairs(
		"ID", v.ID,
		"Name", v.Name,
		"Namespace", v.Namespace,
		"External ID", v.ExternalID,
		"Plugin", v.PluginID,
		"Provider", joinComma(v.Provider, v.ProviderVersion),
		"State", v.State,
		"Last error", problemText(v.LastError),
		"In flight", callInFlight(v.Call),
		"Capacity", formatSize(v.Capacity),
		"Grows to", growthText(v),
		"Schedulable", yesNo(v.Schedulable),
		"Blocked", blockedText(v),
		"Controllers healthy",
		controllersText(v.ControllerRequired, v.ControllersHealthy, v.ControllersExpected),
		"Nodes healthy", formatCount(v.NodesHealthy, v.NodesExpected),
		"Access mode", string(v.AccessMode),
		"Attachment mode", string(v.AttachmentMode),
		"Made for", capabilityText(v.RequestedCapabilities),
		"Mount options", mountOptions(v.MountOptions),
		"Reachable from", topologies(v.Topologies),
		"Created", formatNanos(v.CreateTime),
		"Modified", formatNanos(v.ModifyTime),
		"Turned read-only", turnedReadOnly(v.TurnedReadOnly),
		"Forced", forcedText(v.Forced),
	)
	if len(v.WaitingJobs) > 0 {
		c.Printf("\nJobs that wait for it without an allocation: %s; berth job status JOB shows the reason\n",
			joinComma(v.WaitingJobs...))
	}
	for _, text := range v.Warnings {
		c.Printf("\nWarning: %s\n", oneLine(text))
	}
	claimSheet.section(c, "Claims", v.Claims)
	attachmentSheet.section(c, "Attachments", v.Attachments)
	return nil
}

// callInFlight describes a controller call whose outcome is unknown.
func callInFlight(call *structs.CSICall) string {
	if call == nil {
		return ""
	}
	return fmt.Sprintf("node %s was called to %s it %s and has not reported the outcome",
		shortID(call.NodeID), call.Op, age(call.Time))
}

func turnedReadOnly(t *structs.CSITurnedReadOnly) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("on node %s, under allocation %s, which released it %s",
		shortID(t.NodeID), shortID(t.AllocID), age(t.Time))
}

func forcedText(f *structs.CSIForced) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf("%s, node %s, by %s %s: %s",
		f.What,
		shortID(f.NodeID),
		f.By,
		age(f.Time),
		oneLine(f.Reason))
}

func capabilityText(caps []*structs.CSIVolumeCapability) string {
	var parts []string
	for _, p := range caps {
		parts = append(parts,
			fmt.Sprintf("%s/%s", p.AccessMode, p.AttachmentMode))
	}
	return joinComma(parts...)
}

func mountOptions(o *structs.CSIMountOptions) string {
	if o == nil {
		return ""
	}
	flags := strings.Join(o.MountFlags, ",")
	if flags != "" {
		flags = "flags " + flags
	}
	return joinComma(o.FSType, flags)
}

func topologies(ts []*structs.CSITopology) string {
	var parts []string
	for _, t := range ts {
		if t != nil { // an older server may have stored nil
			parts = append(parts, keyValues(t.Segments))
		}
	}
	return strings.Join(parts, " or ")
}
