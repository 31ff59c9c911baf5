package volume

import (
	"context"
	"strings"

	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/storage"
)

// groupCommands are the verbs of berth volume snapshot group.
var groupCommands = []command.Command{
	{
		Name:     "create",
		Args:     "<group> <volume>...",
		Synopsis: "Take snapshots of several volumes at one moment",
		Help: `
It returns once the snapshots can be restored. The name of each is that of the
group with that of its volume: the group nightly has the snapshot nightly-data
of the volume data. The volumes are of one plugin, which must take groups. The
same command again finds the same group. Without -secret, the plugin gets the
secrets of the first volume.`,
		Acts:     true,
		Flags:    pluginFlags,
		Run:      groupCreate,
		Examples: "berth volume snapshot group create before-upgrade data log",
	},
	{
		Name:     "list",
		Synopsis: "List the group snapshots",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			all, err := volumes.ListSnapshotGroups(ctx, c.API)
			if err != nil {
				return err
			}
			return groupSheet.List(c, "group snapshot", all)
		},
		Examples: "berth volume snapshot group list",
	},
	{
		Name:     "status",
		Args:     "<group>",
		Synopsis: "Show a group snapshot and its members",
		Renders:  true,
		Run:      groupStatus,
		Examples: "berth volume snapshot group status before-upgrade",
	},
	{
		Name:     "delete",
		Args:     "<group>",
		Synopsis: "Delete a group snapshot with its members at the plugin",
		Help: `
A group with a snapshot from which a volume is being created is not deleted.`,
		Acts:     true,
		Flags:    []command.Flag{snapshotForceFlag},
		Run:      groupDelete,
		Examples: "berth volume snapshot group delete before-upgrade",
	},
}

func groupDelete(ctx context.Context, c *command.Call) error {
	name := c.Arg(0)
	force := c.Bool("force")
	seen, err := volumes.GetSnapshotGroup(ctx, c.API, name)
	on, err := c.On(seen, err)
	if err != nil {
		return err
	}
	err = volumes.DeleteSnapshotGroup(ctx, on, name, force)
	switch {
	case err != nil:
		return err
	case force:
		return c.Report(command.Changed{"Name": name},
			"The rows of group snapshot %q are deleted; its plugin may still have the group", name)
	}
	return c.Report(command.Changed{"Name": name}, "Group snapshot %q is deleted", name)
}

func groupCreate(ctx context.Context, c *command.Call) error {
	parameters, secrets, err := forPlugin(c)
	if err != nil {
		return err
	}

	name := c.Arg(0)
	g, err := volumes.CreateSnapshotGroup(ctx, c.API, name, volumes.SnapshotGroupRequest{
		Volumes:    c.Args[1:],
		Parameters: parameters,
		Secrets:    secrets,
	})
	if err != nil {
		return err
	}
	changed := command.Changed{"Name": name, "ID": g.ExternalID}
	if g.State != storage.SnapshotReady {
		return c.Report(changed, "Group snapshot %q is cut, and not ready yet: %s", name,
			structs.CommandLine(c.Namespace(), "volume snapshot group status", name))
	}
	volumes := strings.Join(g.VolumeIDs, ", ")
	return c.Report(changed, "Group snapshot %q of the volumes %s is ready", name, volumes)
}

var groupSheet = command.Sheet[*storage.GroupSnapshot]{
	Titles: "Name|Volumes|Plugin|State|Taken|ID",
	Row: func(_ *command.Call, g *storage.GroupSnapshot) []string {
		return []string{
			g.Name,
			strings.Join(g.VolumeIDs, ", "),
			g.PluginID,
			g.State,
			show.Age(g.CutTime),
			g.ExternalID,
		}
	},
}

func groupStatus(ctx context.Context, c *command.Call) error {
	g, err := volumes.GetSnapshotGroup(ctx, c.API, c.Arg(0))
	if err != nil {
		return err
	}
	return c.Show(g, func() error {
		c.Pairs(
			"Name", g.Name,
			"Namespace", g.Namespace,
			"Plugin", g.PluginID,
			"External ID", g.ExternalID,
			"State", g.State,
			"Reason", show.OneLine(g.Reason),
			"Last error", show.ProblemText(g.LastError),
			"Consistency", show.OneLine(consistency(g.Consistency)),
			"Parameters", show.KeyValues(g.Parameters),
			"Requested", show.Nanos(g.RequestTime),
			"Taken", show.Nanos(g.CutTime),
			"Ready", show.Nanos(g.ReadyTime),
		)
		snapshotRowSheet.Section(c, "Snapshots", g.Snapshots)
		return nil
	})
}
