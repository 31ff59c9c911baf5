package cli

import (
	"context"
	"fmt"
	"slices"

	"berth/api"
	"berth/structs"
)

// pluginCommands are the verbs of berth plugin.
var pluginCommands = []Command{
	{
		Name:     "status",
		Args:     "[plugin]",
		Synopsis: "List CSI plugins, or show one with its instances",
		Renders:  true,
		Run:      pluginStatus.run,
		Examples: "berth plugin status\n" +
			"berth plugin status hostpath",
	},
}

// instanceTitles are those of instanceRows, without the first one.
const instanceTitles = "|Half|Health|Allocation|Volumes At Most|Topology|Last Change|Description"

// The widths to which fit cuts the texts of instanceRows, so that a line has about 110 columns. A line of an
// instance that is not healthy also has its description.
const (
	maxTopology   = 30
	maxPluginText = 50
)

// instanceRows returns a row for each plugin instance. label formats the key of an instance, and fit fits its
// texts into a width.
func instanceRows(
	half string, infos map[string]*structs.CSIInfo, label func(key string) string,
	fit func(text string, width int) string,
) grid {
	var rows grid
	for key, i := range sorted(infos) {
		limit, topology := "", ""
		if i.NodeInfo != nil {
			if i.NodeInfo.MaxVolumes > 0 {
				limit = fmt.Sprint(i.NodeInfo.MaxVolumes)
			}
			if t := i.NodeInfo.AccessibleTopology; t != nil {
				topology = keyValues(t.Segments)
			}
		}
		rows.addRow(
			label(key),
			half,
			healthWord(i.Healthy),
			shortID(i.AllocID),
			limit,
			fit(topology, maxTopology),
			age(i.UpdateTime),
			fit(healthText(i.Healthy, i.HealthDescription), maxPluginText),
		)
	}
	return rows
}

var pluginStatus = status[*structs.CSIPluginListStub, structs.CSIPlugin]{
	kind:  "plugin",
	sheet: pluginSheet,
	list:  (*api.Client).Plugins,
	get:   (*api.Client).Plugin,
	print: printPlugin,
}

var pluginSheet = sheet[*structs.CSIPluginListStub]{
	titles: "ID|Provider|Controllers Healthy|Nodes Healthy",
	row: func(_ *Call, p *structs.CSIPluginListStub) []string {
		return []string{
			p.ID,
			p.Provider,
			controllersText(p.ControllerRequired, p.ControllersHealthy, p.ControllersExpected),
			formatCount(p.NodesHealthy, p.NodesExpected),
		}
	},
}

// controllersText formats the number of healthy controllers.
func controllersText(required bool, healthy, expected int) string {
	if !required && expected == 0 {
		return "not needed"
	}
	return formatCount(healthy, expected)
}

func printPlugin(_ context.Context, c *Call, p *structs.CSIPlugin) error {
	healthyControllers := controllersText(p.ControllerRequired, p.ControllersHealthy, p.ControllersExpected)
	c.pairs(
		"ID", p.ID,
		"Provider", p.Provider,
		"Version", p.Version,
		"Controllers healthy", healthyControllers,
		"Nodes healthy", formatCount(p.NodesHealthy, p.NodesExpected),
		"Can", capabilities(p),
	)
	whole := func(text string, _ int) string { return text }
	instances := append(
		instanceRows("controller", p.Controllers, shortID, whole),
		instanceRows("node", p.Nodes, shortID, whole)...)
	c.section("Instances", "Node"+instanceTitles, instances)
	if rows := pluginProblems(p); len(rows) > 0 {
		c.section("Problems", "Node|Half|Allocation|Since|Cause", rows)
	}
	allocSheet.section(c, "Allocations", p.Allocations)
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
	for _, instance := range sorted(p.Controllers) {
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
	for _, instance := range sorted(p.Nodes) {
		if i := instance.NodeInfo; i != nil {
			addIf(i.RequiresNodeStageVolume, "stage")
			addIf(i.SupportsStats, "stats")
		}
	}
	return joinComma(names...)
}
