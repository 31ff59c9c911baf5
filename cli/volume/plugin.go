package volume

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/alloc"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
	"berth/structs/storage"
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

The last settings are about the calls of the plugin. -calls-in-flight bounds
those that the leader has in flight for its volumes. A timeout ends a call:
-timeout each, -controller-timeout those that create, delete, attach, detach
or expand a volume, and -node-timeout those that mount or unmount it. A node
that has a volume learns of another timeout with its next mount.

-drift is about the list of volumes that the plugin has. By default the
differences are shown: volumes that are missing or attached elsewhere. With
repair, attachments are made or removed as the claims of volumes need them.
A volume is never deleted.

In the path of -secrets-from, {namespace} and {id} stand for those of the
volume. The variable is in the namespace of the volume.
`,
		Flags: append([]command.Flag{{
			Name:  "on-node-loss",
			Kind:  command.String,
			Value: "hold|fence|lease",
			Usage: "Who releases a volume of a lost node, where the volume itself does not say so",
		}, {
			Name:  "secrets-from",
			Kind:  command.String,
			Value: "path|none",
			Usage: "The path of the variable with the secrets of a volume that has none of its own",
		}, {
			Name:  "calls-in-flight",
			Kind:  command.String,
			Value: "1-64|default",
			Usage: "The most calls in flight at once. The default is 8",
		}, {
			Name:  "timeout",
			Kind:  command.String,
			Value: "10s-4m|default",
			Usage: "The end of a call without an own timeout. By default it has 4 minutes, and the caller waits 2",
		}, {
			Name:  "controller-timeout",
			Kind:  command.String,
			Value: "10s-4m|default",
			Usage: "The end of a call of the controller",
		}, {
			Name:  "node-timeout",
			Kind:  command.String,
			Value: "10s-4m|default",
			Usage: "The end of a call of the node half",
		}, {
			Name:  "inline",
			Kind:  command.String,
			Value: storage.InlineAllow + "|" + storage.InlineDeny,
			Usage: "Whether jobs may have inline volumes of the plugin. The default is deny",
		}}, driftFlags...),
		Renders: true,
		Run:     configurePlugin,
		Examples: "berth plugin config hostpath\n" +
			"berth plugin config -on-node-loss fence hostpath\n" +
			"berth plugin config -secrets-from nomad/volumes/{namespace}/nfs nfs\n" +
			"berth plugin config -calls-in-flight 2 -controller-timeout 4m slow\n" +
			"berth plugin config -drift repair nfs",
	},
}

// noSecretsFrom is the value of -secrets-from that removes the path.
const noSecretsFrom = "none"

// configurePlugin shows the settings of a plugin, after it has changed the given ones.
func configurePlugin(ctx context.Context, c *command.Call) error {
	id := c.Arg(0)
	config, _, err := volumes.GetPluginConfig(ctx, c.API, id, nil)
	if err != nil {
		return err
	}

	policy := c.String("on-node-loss")
	from := c.String("secrets-from")
	before := *config
	err = setCalls(c, &config.PluginCalls)
	if err == nil {
		err = setDrift(c, &config.PluginDrift)
	}
	if err != nil {
		return err
	}

	inline := c.String("inline")
	if inline != "" {
		config.Inline = inline
	}
	if policy != "" || from != "" || *config != before {
		config.OnNodeLoss = cmp.Or(policy, config.OnNodeLoss)
		config.SecretsFrom = cmp.Or(from, config.SecretsFrom)
		if from == noSecretsFrom {
			config.SecretsFrom = ""
		}
		err = volumes.SetPluginConfig(ctx, c.API, id, config)
		if err != nil {
			return err
		}
		config, _, err = volumes.GetPluginConfig(ctx, c.API, id, nil)
		if err != nil {
			return err
		}
	}

	return c.Show(config, func() error {
		c.Pairs(
			"Plugin", config.ID,
			"On node loss", config.OnNodeLoss,
			"Secrets from", config.SecretsFrom,
			"Calls in flight", orDefault(config.CallsInFlight),
			"Timeout", orDefault(config.CallTimeout),
			"Controller timeout", orDefault(config.ControllerTimeout),
			"Node timeout", orDefault(config.NodeTimeout),
			"Drift", cmp.Or(config.Drift, storage.DriftReport),
			"Drift interval", orDefault(config.DriftInterval),
			"Inline volumes", cmp.Or(config.Inline, storage.InlineDeny),
		)
		return nil
	})
}

// byDefault is the value of an option that removes a setting.
const byDefault = "default"

// setCalls changes the settings for calls that are given.
func setCalls(c *command.Call, calls *storage.PluginCalls) error {
	switch given := c.String("calls-in-flight"); given {
	case "":
	case byDefault:
		calls.CallsInFlight = 0
	default:
		n, err := strconv.Atoi(given)
		if err != nil || n == 0 {
			return structs.Invalidf("-calls-in-flight %q: expected a number from 1 to %d, or %s",
				given, storage.MaxCallsInFlight, byDefault)
		}
		calls.CallsInFlight = n
	}

	for flag, timeout := range map[string]*time.Duration{
		"timeout":            &calls.CallTimeout,
		"controller-timeout": &calls.ControllerTimeout,
		"node-timeout":       &calls.NodeTimeout,
	} {
		err := setTimeout(c, flag, timeout)
		if err != nil {
			return err
		}
	}

	return nil
}

// setTimeout changes a timeout if its flag is given.
func setTimeout(c *command.Call, flag string, timeout *time.Duration) error {
	given := c.String(flag)
	switch given {
	case "":
		return nil
	case byDefault:
		*timeout = 0
		return nil
	}

	d, err := time.ParseDuration(given)
	if err != nil || d == 0 {
		return structs.Invalidf("-%s %q: expected a duration from %s to %s, for example 30s, or %s",
			flag, given, storage.MinCallTimeout, storage.MaxCallTimeout, byDefault)
	}

	*timeout = d
	return nil
}

// orDefault formats a setting of calls; 0 is its default.
func orDefault[T int | time.Duration](v T) string {
	if v == 0 {
		return byDefault
	}
	return fmt.Sprint(v)
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
	for key, i := range show.Sorted(infos) {
		limit, topology := "", ""
		if i.NodeInfo != nil {
			if i.NodeInfo.MaxVolumes > 0 {
				limit = fmt.Sprint(i.NodeInfo.MaxVolumes)
			}

			if t := i.NodeInfo.AccessibleTopology; t != nil {
				topology = show.KeyValues(t.Segments)
			}
		}

		rows.AddRow(
			label(key),
			half,
			show.HealthWord(i.Healthy),
			show.ShortID(i.AllocID),
			limit,
			fit(topology, maxTopology),
			show.Age(i.UpdateTime),
			fit(instanceText(i), maxPluginText),
		)
	}

	return rows
}

// instanceText tells of the health of an instance beyond one word. An instance that is healthy may have a
// storage that is not.
func instanceText(i *structs.CSIInfo) string {
	text := show.HealthText(i.Healthy, i.HealthDescription)
	if text == "" && len(i.EndingCalls) > 0 {
		text = i.EndingCalls[0].Text()
	}
	if text != "" || i.NodeInfo == nil || i.NodeInfo.StorageHealth == nil {
		return text
	}
	var all []string
	for _, h := range i.NodeInfo.StorageHealth.Conditions {
		all = append(all, h.Text())
	}
	return show.OneLine("storage: " + strings.Join(all, "; "))
}

var pluginStatus = command.Status[*structs.CSIPluginListStub, structs.CSIPlugin]{
	Kind:  "plugin",
	Sheet: pluginSheet,
	List:  volumes.ListPlugins,
	Get:   volumes.GetPlugin,
	Print: printPlugin,
}

var pluginSheet = command.Sheet[*structs.CSIPluginListStub]{
	Titles: "ID|Provider|Controllers Healthy|Nodes Healthy",
	Row: func(_ *command.Call, p *structs.CSIPluginListStub) []string {
		return []string{
			p.ID,
			p.Provider,
			controllersText(p.ControllerRequired, p.ControllersHealthy, p.ControllersExpected),
			show.Count(p.NodesHealthy, p.NodesExpected),
		}
	},
}

// controllersText formats the number of healthy controllers.
func controllersText(required bool, healthy, expected int) string {
	if !required && expected == 0 {
		return "not needed"
	}
	return show.Count(healthy, expected)
}

func printPlugin(ctx context.Context, c *command.Call, p *structs.CSIPlugin) error {
	healthyControllers := controllersText(p.ControllerRequired, p.ControllersHealthy, p.ControllersExpected)
	c.Pairs(
		"ID", p.ID,
		"Provider", p.Provider,
		"Version", p.Version,
		"Controllers healthy", healthyControllers,
		"Nodes healthy", show.Count(p.NodesHealthy, p.NodesExpected),
		"Can", capabilities(p),
		"Calls", callsText(p),
		"Drift", driftOfPlugin(ctx, c, p.ID),
	)

	whole := func(text string, _ int) string { return text }
	instances := append(
		InstanceRows("controller", p.Controllers, show.ShortID, whole),
		InstanceRows("node", p.Nodes, show.ShortID, whole)...)
	c.Section("Instances", "Node"+InstanceTitles, instances)
	if rows := watch.PluginProblems(p); len(rows) > 0 {
		c.Section("Problems", "Node|Half|Allocation|Since|Cause", rows)
	}

	alloc.Sheet.Section(c, "Allocations", p.Allocations)
	return nil
}

// callsText tells the calls for volumes of a plugin; "" for none.
func callsText(p *structs.CSIPlugin) string {
	if p.CallsInFlight+p.CallsWaiting == 0 {
		return ""
	}

	text := fmt.Sprintf("%d in flight, %d waiting", p.CallsInFlight, p.CallsWaiting)
	if p.CallsWaiting > 0 {
		text += ", the oldest began to wait " + show.Age(p.CallsWaitSince)
	}
	return text
}

// capabilities lists the capabilities that at least one instance reports.
func capabilities(p *structs.CSIPlugin) string {
	var names []string
	addIf := func(has bool, name string) {
		if has && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}

	for _, instance := range show.Sorted(p.Controllers) {
		if i := instance.ControllerInfo; i != nil {
			addIf(i.SupportsCreateDelete, "create")
			addIf(i.SupportsAttachDetach, "attach")
			addIf(i.SupportsExpand, "expand")
			addIf(i.SupportsClone, "clone")
			addIf(i.SupportsCreateDeleteSnapshot, "snapshot")
			addIf(i.GroupSnapshots, "group-snapshot")
			addIf(i.SupportsListVolumes, "list")
			addIf(i.SupportsGetCapacity, "capacity")
			addIf(i.SupportsCondition, "health")
		}
	}

	for _, instance := range show.Sorted(p.Nodes) {
		if i := instance.NodeInfo; i != nil {
			addIf(i.RequiresNodeStageVolume, "stage")
			addIf(i.SupportsStats, "stats")
			addIf(i.SupportsCondition, "health")
			addIf(i.SupportsStorageHealth, "storage health")
		}
	}

	return show.JoinComma(names...)
}
