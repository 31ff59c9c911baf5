package volume

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"berth/api"
	"berth/cli/alloc"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

// PluginCommands are the verbs of berth plugin.
var PluginCommands = []command.Command{
	{
		Name:     "status",
		Args:     "[plugin]",
		Synopsis: "List CSI plugins, or show one with its instances",
		Renders:  true,
		Run:      pluginStatus.Run,
		Examples: "berth plugin status\n" +
			"berth plugin status hostpath",
	},
	{
		Name:     "config",
		Args:     "<plugin>",
		Synopsis: "Show or change the settings for the volumes of a plugin",
		Help: `
Without an option it shows the settings. They need no instance of the plugin,
and stay when its last instance and its last volume are gone.

In the path of -secrets-from, {namespace} and {id} stand for those of the
volume. The variable is in the namespace of the volume.
`,
		Flags: []command.Flag{{
			Name:  "on-node-loss",
			Kind:  command.String,
			Value: "hold|fence|lease",
			Usage: "Who releases a volume of a lost node, where the volume itself does not say so",
		}, {
			Name:  "secrets-from",
			Kind:  command.String,
			Value: "path|none",
			Usage: "The path of the variable with the secrets of a volume that has none of its own",
		}},
		Renders: true,
		Run:     configurePlugin,
		Examples: "berth plugin config hostpath\n" +
			"berth plugin config -on-node-loss fence hostpath\n" +
			"berth plugin config -secrets-from nomad/volumes/{namespace}/nfs nfs",
	},
}

// noSecretsFrom is the value of -secrets-from that removes the path.
const noSecretsFrom = "none"

// configurePlugin shows the settings of a plugin, after it has changed those that are given.
func configurePlugin(ctx context.Context, c *command.Call) error {
	id := c.Arg(0)
	config, _, err := c.API.PluginConfig(ctx, id, nil)
	if err != nil {
		return err
	}

	policy := c.String("on-node-loss")
	from := c.String("secrets-from")
	if policy != "" || from != "" {
		config.OnNodeLoss = cmp.Or(policy, config.OnNodeLoss)
		config.SecretsFrom = cmp.Or(from, config.SecretsFrom)
		if from == noSecretsFrom {
			config.SecretsFrom = ""
		}
		err = c.API.SetPluginConfig(ctx, id, config)
		if err != nil {
			return err
		}
		config, _, err = c.API.PluginConfig(ctx, id, nil)
		if err != nil {
			return err
		}
	}

	return c.Show(config, func() error {
		c.Pairs(
			"Plugin", config.ID,
			"On node loss", config.OnNodeLoss,
			"Secrets from", config.SecretsFrom,
		)
		return nil
	})
}

// InstanceTitles are the titles of InstanceRows, without the first one.
const InstanceTitles = "|Half|Health|Allocation|Volumes At Most|Topology|Last Change|Description"

// The widths to which fit cuts the texts of InstanceRows, so that a line has about 110 columns. A line of an
// instance that is not healthy also has its description.
const (
	maxTopology   = 30
	maxPluginText = 50
)

// InstanceRows returns a row for each plugin instance. label formats the key of an instance, and fit fits its
// texts into a width.
func InstanceRows(
	half string, infos map[string]*structs.CSIInfo, label func(key string) string,
	fit func(text string, width int) string,
) command.Grid {
	var rows command.Grid
	for key, i := range command.Sorted(infos) {
		limit, topology := "", ""
		if i.NodeInfo != nil {
			if i.NodeInfo.MaxVolumes > 0 {
				limit = fmt.Sprint(i.NodeInfo.MaxVolumes)
			}

			if t := i.NodeInfo.AccessibleTopology; t != nil {
				topology = command.KeyValues(t.Segments)
			}
		}

		rows.AddRow(
			label(key),
			half,
			command.HealthWord(i.Healthy),
			command.ShortID(i.AllocID),
			limit,
			fit(topology, maxTopology),
			command.Age(i.UpdateTime),
			fit(command.HealthText(i.Healthy, i.HealthDescription), maxPluginText),
		)
	}

	return rows
}

var pluginStatus = command.Status[*structs.CSIPluginListStub, structs.CSIPlugin]{
	Kind:  "plugin",
	Sheet: pluginSheet,
	List:  (*api.Client).Plugins,
	Get:   (*api.Client).Plugin,
	Print: printPlugin,
}

var pluginSheet = command.Sheet[*structs.CSIPluginListStub]{
	Titles: "ID|Provider|Controllers Healthy|Nodes Healthy",
	Row: func(_ *command.Call, p *structs.CSIPluginListStub) []string {
		return []string{
			p.ID,
			p.Provider,
			controllersText(p.ControllerRequired, p.ControllersHealthy, p.ControllersExpected),
			command.FormatCount(p.NodesHealthy, p.NodesExpected),
		}
	},
}

// controllersText formats the number of healthy controllers.
func controllersText(required bool, healthy, expected int) string {
	if !required && expected == 0 {
		return "not needed"
	}
	return command.FormatCount(healthy, expected)
}

func printPlugin(_ context.Context, c *command.Call, p *structs.CSIPlugin) error {
	healthyControllers := controllersText(p.ControllerRequired, p.ControllersHealthy, p.ControllersExpected)
	c.Pairs(
		"ID", p.ID,
		"Provider", p.Provider,
		"Version", p.Version,
		"Controllers healthy", healthyControllers,
		"Nodes healthy", command.FormatCount(p.NodesHealthy, p.NodesExpected),
		"Can", capabilities(p),
	)

	whole := func(text string, _ int) string { return text }
	instances := append(
		InstanceRows("controller", p.Controllers, command.ShortID, whole),
		InstanceRows("node", p.Nodes, command.ShortID, whole)...)
	c.Section("Instances", "Node"+InstanceTitles, instances)
	if rows := watch.PluginProblems(p); len(rows) > 0 {
		c.Section("Problems", "Node|Half|Allocation|Since|Cause", rows)
	}

	alloc.Sheet.Section(c, "Allocations", p.Allocations)
	return nil
}

// capabilities lists the capabilities that at least one instance reports.
func capabilities(p *structs.CSIPlugin) string {
	var names []string
	addIf := func(has bool, name string) {
		if has && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}

	for _, instance := range command.Sorted(p.Controllers) {
		if i := instance.ControllerInfo; i != nil {
			addIf(i.SupportsCreateDelete, "create")
			addIf(i.SupportsAttachDetach, "attach")
			addIf(i.SupportsExpand, "expand")
			addIf(i.SupportsClone, "clone")
			addIf(i.SupportsCreateDeleteSnapshot, "snapshot")
			addIf(i.SupportsListVolumes, "list")
			addIf(i.SupportsGetCapacity, "capacity")
		}
	}

	for _, instance := range command.Sorted(p.Nodes) {
		if i := instance.NodeInfo; i != nil {
			addIf(i.RequiresNodeStageVolume, "stage")
			addIf(i.SupportsStats, "stats")
		}
	}

	return command.JoinComma(names...)
}
