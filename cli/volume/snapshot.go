package volume

import (
	"context"
	"fmt"

	"berth/api"
	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/storage"
)

var snapshotSecretFlag = command.Flag{
	Name:  "secret",
	Kind:  command.Strings,
	Value: "key=value",
	Usage: "A secret for the plugin; may be given more than once",
}

// pluginFlags are for what the plugin gets with the calls for a snapshot or a group: see forPlugin.
var pluginFlags = []command.Flag{
	{
		Name:  "parameter",
		Kind:  command.Strings,
		Value: "key=value",
		Usage: "A parameter for the plugin; may be given more than once",
	},
	snapshotSecretFlag,
}

var snapshotForceFlag = command.Flag{
	Name:  "force",
	Usage: "Delete berth's row alone, for a plugin that is gone or no longer knows the snapshot",
}

// SnapshotCommands are the verbs of berth volume snapshot.
var SnapshotCommands = []command.Command{
	{
		Name:     "create",
		Args:     "<volume> [name]",
		Synopsis: "Take a snapshot of a volume",
		Help: `
It returns once the snapshot can be restored. A plugin may need longer: the
status then tells that the snapshot is pending. Without a name the snapshot
gets one. The same command again finds the same snapshot.`,
		Acts:  true,
		Flags: pluginFlags,
		Run:   createSnapshot,
		Examples: "berth volume snapshot create data\n" +
			"berth volume snapshot create data before-upgrade",
	},
	{
		Name:     "list",
		Synopsis: "List snapshots, with -plugin all that a plugin has",
		Renders:  true,
		Flags: []command.Flag{
			{
				Name:  "plugin",
				Kind:  command.String,
				Value: "id",
				Usage: "Ask a plugin, which also lists snapshots that berth has not taken",
			},
			{Name: "volume", Kind: command.String, Value: "id", Usage: "List the snapshots of one volume"},
			{Name: "per-page", Kind: command.Number, Value: "number", Usage: "Items of one page of -plugin"},
			{Name: "page-token", Kind: command.String, Value: "token", Usage: "Begin with this page of -plugin"},
			snapshotSecretFlag,
		},
		Run: listSnapshots,
		Examples: "berth volume snapshot list\n" +
			"berth volume snapshot list -volume data\n" +
			"berth volume snapshot list -plugin hostpath",
	},
	{
		Name:     "status",
		Args:     "<snapshot>",
		Synopsis: "Show a snapshot",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			s, _, err := volumes.GetSnapshot(ctx, c.API, c.Arg(0), nil)
			if err != nil {
				return err
			}
			return c.Show(s, func() error {
				printSnapshot(c, s)
				return nil
			})
		},
		Examples: "berth volume snapshot status before-upgrade",
	},
	{
		Name:     "delete",
		Args:     "<snapshot> [id]",
		Synopsis: "Delete a snapshot at its plugin",
		Help: `
The argument is the name of a snapshot. With two arguments the first is a
plugin, and the second the ID that the snapshot has there. A snapshot from
which a volume is being created is not deleted.`,
		Acts:  true,
		Flags: []command.Flag{snapshotSecretFlag, snapshotForceFlag},
		Run:   removeSnapshots,
		Examples: "berth volume snapshot delete before-upgrade\n" +
			"berth volume snapshot delete -force before-upgrade\n" +
			"berth volume snapshot delete hostpath snap-7",
	},
	{
		Name:     "group",
		Synopsis: "Take snapshots of several volumes at one moment",
		Sub:      groupCommands,
	},
	{
		Name:     "schedule",
		Synopsis: "Take snapshots at times, and delete old ones",
		Sub:      scheduleCommands,
	},
}

// forPlugin returns the values of pluginFlags.
func forPlugin(c *command.Call) (parameters, secrets map[string]string, err error) {
	parameters, err = command.Pairs("parameter", c.Strings("parameter"))
	if err == nil {
		secrets, err = command.Pairs("secret", c.Strings("secret"))
	}
	return parameters, secrets, err
}

func createSnapshot(ctx context.Context, c *command.Call) error {
	parameters, secrets, err := forPlugin(c)
	if err != nil {
		return err
	}

	s, err := volumes.CreateSnapshot(ctx, c.API, &storage.CSISnapshot{
		SourceVolumeID: c.Arg(0),
		Name:           c.Arg(1),
		Parameters:     parameters,
		Secrets:        secrets,
	})
	if err != nil {
		return c.DidYouMean(ctx, "volume", c.Arg(0), err)
	}
	changed := command.Changed{"Name": s.Name, "VolumeID": c.Arg(0), "ID": s.ID}
	if !s.IsReady {
		return c.Report(changed, "Snapshot %q of volume %q is cut, and not ready yet: %s", s.Name, c.Arg(0),
			structs.CommandLine(c.Namespace(), "volume snapshot status", s.Name))
	}
	return c.Report(changed, "Snapshot %q of volume %q is ready", s.Name, c.Arg(0))
}

func listSnapshots(ctx context.Context, c *command.Call) error {
	if c.Given("plugin") {
		return listExternalSnapshots(ctx, c)
	}
	all, err := volumes.ListSnapshots(ctx, c.API, volumes.SnapshotFilter{VolumeID: c.String("volume")})
	if err != nil {
		return err
	}
	return snapshotRowSheet.List(c, "snapshot", all)
}

// snapshotRowSheet shows snapshots in a table.
var snapshotRowSheet = command.SheetOf(show.Snapshots, "Name|Volume|Plugin|State|Size|Taken|ID|Group", nil)

var externalSnapshotSheet = command.Sheet[*storage.CSISnapshot]{
	Titles: "ID|Name|Volume|Volume ID|Size|Taken|Ready",
	Row: func(_ *command.Call, s *storage.CSISnapshot) []string {
		return []string{
			s.ID,
			s.Name,
			s.SourceVolumeID,
			s.ExternalSourceVolumeID,
			show.Size(s.SizeBytes),
			show.Age(s.CreateTime * 1e9),
			show.YesNo(s.IsReady),
		}
	},
}

func listExternalSnapshots(ctx context.Context, c *command.Call) error {
	if c.Given("volume") {
		return command.BadUsage("-plugin and -volume exclude one another")
	}
	secrets, err := command.Pairs("secret", c.Strings("secret"))
	if err != nil {
		return err
	}
	q := &api.Query{PerPage: int32(c.Number("per-page")), NextToken: c.String("page-token")}
	at := volumes.SnapshotAtPlugin{PluginID: c.String("plugin"), Secrets: secrets}
	page, err := volumes.ListExternalSnapshots(ctx, c.API, at, q)
	if err != nil {
		return err
	}

	for _, text := range page.Warnings {
		fmt.Fprintf(c.Err, "Warning: %s\n", show.OneLine(text))
	}
	if page.NextToken != "" {
		fmt.Fprintf(c.Err, "There are more: -page-token %q\n", page.NextToken)
	}
	return externalSnapshotSheet.List(c, "snapshot", page.Snapshots)
}

func printSnapshot(c *command.Call, s *storage.VolumeSnapshot) {
	c.Pairs(
		"Name", s.Name,
		"Namespace", s.Namespace,
		"Volume", s.VolumeID,
		"Group", s.Group,
		"Plugin", s.PluginID,
		"External ID", s.ExternalID,
		"State", s.State,
		"Reason", show.OneLine(s.Reason),
		"Last error", show.ProblemText(s.LastError),
		"Consistency", show.OneLine(consistency(s.Consistency)),
		"Size", show.Size(s.SizeBytes),
		"Parameters", show.KeyValues(s.Parameters),
		"Secrets from", s.SecretsFrom,
		"Requested", show.Nanos(s.RequestTime),
		"Taken", show.Nanos(s.CutTime),
		"Ready", show.Nanos(s.ReadyTime),
	)
}

// consistency describes what the commands of tasks have made of a snapshot, "" if no task has commands.
func consistency(is storage.Consistency) string {
	if is.Reason == "" {
		return is.Level
	}
	return is.Level + ": " + is.Reason
}

func removeSnapshots(ctx context.Context, c *command.Call) error {
	secrets, err := command.Pairs("secret", c.Strings("secret"))
	if err != nil {
		return err
	}
	name := c.Arg(0)
	force := c.Bool("force")
	switch {
	case force && c.Arg(1) != "":
		return command.BadUsage("-force deletes berth's row of a snapshot: give its name alone")
	case c.Arg(1) == "":
		err = removeNamedSnapshot(ctx, c, volumes.NamedSnapshot{Name: name, Secrets: secrets, Force: force})
	default:
		name = c.Arg(1)
		err = volumes.DeleteExternalSnapshot(ctx, c.API, volumes.SnapshotAtPlugin{
			PluginID: c.Arg(0),
			ID:       name,
			Secrets:  secrets,
		})
	}
	if err != nil {
		return err
	}
	if force {
		return c.Report(command.Changed{"Snapshot": name},
			"The row of snapshot %q is deleted; its plugin may still have the snapshot", name)
	}
	return c.Report(command.Changed{"Snapshot": name}, "Snapshot %q is deleted", name)
}

// removeNamedSnapshot deletes the snapshot that has the name now.
func removeNamedSnapshot(ctx context.Context, c *command.Call, one volumes.NamedSnapshot) error {
	seen, _, err := volumes.GetSnapshot(ctx, c.API, one.Name, nil)
	on, err := c.On(seen, err)
	if err != nil {
		return err
	}
	return volumes.DeleteSnapshot(ctx, on, one)
}
