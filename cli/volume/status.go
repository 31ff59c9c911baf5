package volume

import (
	"context"
	"fmt"
	"strings"

	"berth/api"
	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/storage"
)

// volumeStatus shows one volume, or the listing of all.
func volumeStatus(ctx context.Context, c *command.Call) error {
	hosts, err := ofHosts(c)
	if err != nil {
		return err
	}
	switch {
	case hosts && c.Given("filter"):
		return command.BadUsage("-filter selects from CSI volumes; it excludes -type host")
	case hosts:
		return hostVolumeStatus(ctx, c)
	}
	selects := c.Given("plugin") || c.Given("node") || c.Given("class") || c.Given("filter")
	switch {
	case c.Given("external") && (selects || c.Arg(0) != "" || c.Bool("verbose")):
		return command.BadUsage("-external lists the volumes of a plugin; it excludes all that selects others")
	case c.Given("external"):
		return externalListing(ctx, c)
	case c.Arg(0) == "":
		return volumeListing(ctx, c)
	case selects:
		return command.BadUsage(
			"-plugin, -node, -class and -filter select from all volumes; they exclude the name of a volume",
		)
	}
	return oneVolume.Run(ctx, c)
}

// oneVolume lists nothing, because the options of volumeListing select the volumes.
var oneVolume = command.Status[*structs.CSIVolumeListStub, structs.CSIVolumeDetail]{
	Kind:  "volume",
	Get:   volumes.Get,
	Print: printVolume,
}

func volumeListing(ctx context.Context, c *command.Call) error {
	filter := volumes.Filter{PluginID: c.String("plugin"), Class: c.String("class")}
	if c.Given("node") {
		id, err := c.Resolve(ctx, "node", c.String("node"))
		if err != nil {
			return err
		}

		filter.NodeID = id
	}

	vols, _, err := volumes.List(ctx, c.API, filter, &api.Query{Filter: c.String("filter")})
	err = c.CheckFound(ctx, len(vols), err)
	if err != nil {
		return err
	}

	if c.Bool("verbose") {
		return showVerbose(ctx, c, filter, vols)
	}

	return volumeSheet.List(c, "volume", vols)
}

var volumeSheet = command.SheetOf(show.Volumes,
	"ID|Name|Plugin|Class|State|Drift|Deleted|Schedulable|Access Mode|Readers|Writers|Waiting", nil)

var attachmentSheet = command.Sheet[*structs.CSIAttachment]{
	Titles: "Node|State|Read Only|Changed|Last Error",
	Row: func(_ *command.Call, a *structs.CSIAttachment) []string {
		return []string{
			show.ShortID(a.NodeID),
			a.State,
			show.YesNo(a.ReadOnly),
			show.Age(a.ModifyTime),
			show.JoinComma(show.ProblemText(a.LastError), callInFlight(a.Call)),
		}
	},
}

var claimSheet = command.Sheet[*structs.CSIClaim]{
	Titles: "Allocation|Job|Node|Mode|Access Mode|State|Since|Waits For",
	Row: func(_ *command.Call, c *structs.CSIClaim) []string {
		return []string{
			show.ShortID(c.AllocID),
			c.JobID,
			show.ShortID(c.NodeID),
			c.Mode,
			string(c.AccessMode),
			c.State,
			show.Age(c.CreateTime),
			c.Reason,
		}
	},
}

var snapshotSheet = command.SheetOf(show.Snapshots, "Name|State|Size|Taken|Last Error", nil)

// allocOf names the allocation with which a volume ends, "" for another volume.
func allocOf(c *command.Call, v *structs.CSIVolumeDetail) string {
	if v.AllocID == "" {
		return ""
	}
	return "allocation " + c.ID(v.AllocID)
}

// otherName returns the name that the plugin knows, "" if it is the name of the volume.
func otherName(v *structs.CSIVolumeDetail) string {
	if v.NameAtPlugin() == v.Name {
		return ""
	}
	return v.NameAtPlugin()
}

func printVolume(ctx context.Context, c *command.Call, v *structs.CSIVolumeDetail) error {
	c.Pairs(
		"ID", v.ID,
		"Name", v.Name,
		"Name at plugin", otherName(v),
		"Namespace", v.Namespace,
		"External ID", v.ExternalID,
		"Plugin", v.PluginID,
		"Class", v.Class,
		"Job", v.JobID,
		"Ends with", allocOf(c, v),
		"Provider", show.JoinComma(v.Provider, v.ProviderVersion),
		"State", v.State,
		"Deleted", markText(&v.CSIVolume),
		"Last error", show.ProblemText(v.LastError),
		"In flight", callInFlight(v.Call),
		"Capacity", show.Size(v.Capacity),
		"Grows to", show.GrowthText(v),
		"Grows by itself", growRule(v.Grow),
		"Last growth", lastGrowth(v.Grown),
		"Does not grow", storage.GrowFault(&v.CSIVolume),
		"Trimmed", trimRule(v.Trim),
		"Schedulable", show.YesNo(v.Schedulable),
		"Blocked", show.BlockedText(v),
		"Controllers healthy",
		controllersText(v.ControllerRequired, v.ControllersHealthy, v.ControllersExpected),
		"Nodes healthy", show.Count(v.NodesHealthy, v.NodesExpected),
		"Access mode", string(v.AccessMode),
		"Attachment mode", string(v.AttachmentMode),
		"Labels", structs.LabelsText(v.Labels),
		"Made for", capabilityText(v.RequestedCapabilities),
		"Mutable parameters", mutableText(&v.CSIVolume),
		"Mount options", mountOptions(v.MountOptions),
		"Reachable from", topologies(v.Topologies),
		"On node loss", v.LossPolicy,
		"Reclaim", reclaimText(&v.CSIVolume),
		"Secrets from", v.SecretsVariable,
		"Created", show.Nanos(v.CreateTime),
		"Modified", show.Nanos(v.ModifyTime),
		"Turned read-only", turnedReadOnly(v.TurnedReadOnly),
		"Forced", forcedText(v.Forced),
	)

	if len(v.WaitingJobs) > 0 {
		c.Printf("\nJobs that wait for it without an allocation: %s; berth job status JOB shows the reason\n",
			show.JoinComma(v.WaitingJobs...))
	}

	for _, text := range v.Warnings {
		c.Printf("\nWarning: %s\n", show.OneLine(text))
	}

	printUse(ctx, c, v)
	claimSheet.Section(c, "Claims", v.Claims)
	attachmentSheet.Section(c, "Attachments", v.Attachments)
	printSnapshots(ctx, c, v.ID)
	printDrift(ctx, c, v.ID)
	return nil
}

// printSnapshots prints the snapshots of a volume. The rest of an answer does not depend on them.
func printSnapshots(ctx context.Context, c *command.Call, id string) {
	snaps, err := volumes.ListSnapshots(ctx, c.API, volumes.SnapshotFilter{VolumeID: id})
	if err != nil {
		warn(c, []string{"the snapshots of the volume are not known: " + err.Error()})
	}
	snapshotSheet.Section(c, "Snapshots", snaps)
}

// mutableText shows the mutable parameters that the plugin has, and the wanted values of changing ones.
func mutableText(v *structs.CSIVolume) string {
	text := show.KeyValues(v.AppliedParameters)
	pending := storage.PendingParameters(v)
	if len(pending) > 0 {
		text = show.JoinComma(text, "is to have "+show.KeyValues(pending))
	}
	return text
}

// callInFlight describes a controller call whose outcome is unknown.
func callInFlight(call *structs.CSICall) string {
	if call == nil {
		return ""
	}
	return fmt.Sprintf("node %s was called to %s it %s and has not reported the outcome",
		show.ShortID(call.NodeID), call.Op, show.Age(call.Time))
}

func turnedReadOnly(t *structs.CSITurnedReadOnly) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("on node %s, under allocation %s, which released it %s",
		show.ShortID(t.NodeID), show.ShortID(t.AllocID), show.Age(t.Time))
}

func forcedText(f *structs.CSIForced) string {
	if f == nil {
		return ""
	}

	return fmt.Sprintf("%s, node %s, by %s %s: %s",
		f.What,
		show.ShortID(f.NodeID),
		f.By,
		show.Age(f.Time),
		show.OneLine(f.Reason))
}

func capabilityText(caps []*structs.CSIVolumeCapability) string {
	var parts []string
	for _, p := range caps {
		parts = append(parts,
			fmt.Sprintf("%s/%s", p.AccessMode, p.AttachmentMode))
	}
	return show.JoinComma(parts...)
}

func mountOptions(o *structs.CSIMountOptions) string {
	if o == nil {
		return ""
	}

	flags := strings.Join(o.MountFlags, ",")
	if flags != "" {
		flags = "flags " + flags
	}

	return show.JoinComma(o.FSType, flags)
}

func topologies(ts []*structs.CSITopology) string {
	var parts []string
	for _, t := range ts {
		if t != nil { // JSON may have null in the list
			parts = append(parts, show.KeyValues(t.Segments))
		}
	}
	return strings.Join(parts, " or ")
}
