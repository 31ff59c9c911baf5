package cli

import (
	"context"
	"fmt"
	"strconv"

	"berth/api"
	"berth/structs"
)

// nodeCommands are the verbs of berth node.
var nodeCommands = []Command{
	{
		Name:     "status",
		Args:     "[node]",
		Synopsis: "List nodes, or show one with its plugins and allocations",
		Renders:  true,
		Flags: []Flag{
			selfFlag,
			{Name: "verbose", Usage: "Also show complete IDs and texts, and attributes"},
			statsFlag,
		},
		Run: nodeStatus,
		Examples: "berth node status\n" +
			"berth node status n1\n" +
			"berth node status -self -verbose",
	},
	{
		Name:     "purge",
		Args:     "<node>",
		Synopsis: "Delete a node that is off for good",
		Help: `
Deletes the node and its plugin instances from the state. It is refused if the
node holds volumes or runs allocations. A node that is not off comes back with
its next heartbeat. After a restore the cluster no longer waits for the node.`,
		Acts: true,
		Run: func(ctx context.Context, c *Call) error {
			id, err := c.resolve(ctx, "node", c.Arg(0))
			if err != nil {
				return err
			}
			err = c.API.NodePurge(ctx, id)
			if err != nil {
				return err
			}
			return c.report(changed{"NodeID": id}, "Node %s is deleted", shortID(id))
		},
		Examples: "berth node purge n1",
	},
	nodeDrainCommand,
	{
		Name:     "gc",
		Args:     "[node]",
		Synopsis: "Remove what is left of the allocations that have ended on a node",
		Help: `
The node removes their directories, with logs and data. It keeps those whose
data a replacement has still to take over. It removes the oldest by itself if
there are more than gc_max_allocs.`,
		Acts:  true,
		Flags: []Flag{selfFlag},
		Run:   nodeGC,
		Examples: "berth node gc n1\n" +
			"berth node gc -self",
	},
	{
		Name:     "eligibility",
		Args:     "[node]",
		Synopsis: "Allow or forbid new placements on a node",
		Acts:     true,
		Flags: []Flag{
			{Name: "enable", Usage: "Allow new placements"},
			{Name: "disable", Usage: "Forbid new placements; running allocations continue"},
			selfFlag,
		},
		Run: nodeEligibility,
		Examples: "berth node eligibility -disable n1\n" +
			"berth node eligibility -enable -self",
	},
	{
		Name:     "pool",
		Synopsis: "Create, show and delete node pools",
		Sub:      nodePoolCommands,
	},
}

var selfFlag = Flag{Name: "self", Usage: "The node of the agent that is called"}

var nodeSheet = sheet[*structs.NodeListStub]{
	titles: "ID|Name|Datacenter|Class|Address|Eligibility|Status",
	row: func(c *Call, n *structs.NodeListStub) []string {
		return []string{
			c.id(n.ID),
			n.Name,
			n.Datacenter,
			n.NodeClass,
			n.Address,
			n.SchedulingEligibility,
			n.Status,
		}
	},
}

// nodeAllocSheet shows the allocations of one node.
var nodeAllocSheet = sheet[*structs.AllocListStub]{
	titles: "ID|Job|Group|Desired|Status|Created",
	row: func(c *Call, a *structs.AllocListStub) []string {
		return []string{
			c.id(a.ID),
			a.JobID,
			a.TaskGroup,
			a.DesiredStatus,
			a.ClientStatus,
			age(a.CreateTime),
		}
	},
	order: newestFirst,
}

var nodeEventSheet = sheet[*structs.NodeEvent]{
	titles: "Time|Subsystem|Message|Details",
	row: func(c *Call, e *structs.NodeEvent) []string {
		return []string{
			ago(e.Timestamp),
			e.Subsystem,
			brief(c, e.Message, maxEventText),
			brief(c, keyValues(e.Details), maxEventDetails),
		}
	},
	order: func(a, b *structs.NodeEvent) int {
		return b.Timestamp.Compare(a.Timestamp)
	},
}

// nodeID returns the ID of the node that the argument names, or that of the agent with -self.
func nodeID(ctx context.Context, c *Call) (string, error) {
	prefix := c.Arg(0)
	switch {
	case c.Bool("self") && prefix != "":
		return "", badUsage("-self and a node exclude each other")
	case !c.Bool("self"):
		return c.resolve(ctx, "node", prefix)
	}
	self, err := c.API.AgentSelf(ctx)
	if err != nil {
		return "", err
	}
	if id := self.Stats["client"]["node_id"]; id != "" {
		return id, nil
	}
	return "", structs.Preconditionf("the agent at %s is not a node; name one instead of -self",
		c.API.Address())
}

var oneOrAllNodes = status[*structs.NodeListStub, structs.NodeDetail]{
	kind:  "node",
	sheet: nodeSheet,
	list:  (*api.Client).Nodes,
	get:   (*api.Client).Node,
	print: printNode,
}

func nodeStatus(ctx context.Context, c *Call) error {
	if c.Bool("self") {
		id, err := nodeID(ctx, c)
		if err != nil {
			return err
		}
		c.Args = []string{id}
	}
	err := checkStats(c)
	if err != nil {
		return err
	}
	return oneOrAllNodes.run(ctx, c)
}

func printNode(ctx context.Context, c *Call, n *structs.NodeDetail) error {
	free := n.Available()
	resources := fmt.Sprintf("%d MHz, %d MiB memory, %d MiB disk",
		free.CPU, free.MemoryMB, free.DiskMB)
	c.pairs(
		"ID", n.ID,
		"Name", n.Name,
		"Datacenter", n.Datacenter,
		"Class", n.NodeClass,
		"Pool", n.NodePool,
		"HTTP", n.HTTPAddr,
		"Status", withDescription(n.Status, n.StatusDescription),
		"Eligibility", n.SchedulingEligibility,
		"Drain", describeDrain(&n.Node),
		"Resources", resources,
		"Dynamic ports", dynamicPorts(&n.Node),
		"Reserved ports", reservedPorts(&n.Node),
	)
	printDrivers(c, n.Drivers)
	printDevices(c, n.NodeResources)
	printHostNetworks(c, n.NodeResources)
	printHostVolumes(c, &n.Node)
	printNodePlugins(c, n)
	err := printNodeAllocs(ctx, c, n.ID)
	if err != nil {
		return err
	}
	err = printDrain(ctx, c, &n.Node)
	if err != nil {
		return err
	}
	nodeEventSheet.section(c, "Events", n.Events)
	if c.Bool("stats") {
		err := printHostStats(ctx, c, n.ID)
		if err != nil {
			return err
		}
	}
	if c.Bool("verbose") {
		var rows grid
		for name, value := range sorted(n.Attributes) {
			rows.addRow(name, value)
		}
		c.section("Attributes", "Name|Value", rows)
		printDeviceAttributes(c, n.NodeResources)
	}
	return nil
}

// These bound texts without -verbose, so that a line has about 110 columns.
const (
	maxDriverText   = 70
	maxEventText    = 56
	maxEventDetails = 30
)

// brief cuts a text to a width without -verbose.
func brief(c *Call, text string, width int) string {
	text = oneLine(text)
	if c.Bool(verboseFlag.Name) {
		return text
	}
	return cutCell(text, width)
}

func printNodePlugins(c *Call, n *structs.NodeDetail) {
	pluginID := func(id string) string { return id }
	fit := func(text string, width int) string { return brief(c, text, width) }
	instances := append(
		instanceRows("node", n.CSINodePlugins, pluginID, fit),
		instanceRows("controller", n.CSIControllerPlugins, pluginID, fit)...)
	c.section("CSI plugins", "Plugin"+instanceTitles, instances)
}

func printDrivers(c *Call, drivers map[string]*structs.DriverInfo) {
	var rows grid
	for name, d := range sorted(drivers) {
		rows.addRow(
			name,
			yesNo(d.Detected),
			healthWord(d.Healthy),
			brief(c, healthText(d.Healthy, d.HealthDescription), maxDriverText))
	}
	c.section("Drivers", "Driver|Detected|Health|Description", rows)
}

func printNodeAllocs(ctx context.Context, c *Call, id string) error {
	allocs, _, err := c.API.NodeAllocations(ctx, id, nil)
	if err != nil {
		return err
	}
	stubs := make([]*structs.AllocListStub, len(allocs))
	for i, a := range allocs {
		stubs[i] = a.Stub()
	}
	nodeAllocSheet.section(c, "Allocations", stubs)
	return nil
}

func nodeEligibility(ctx context.Context, c *Call) error {
	if c.Bool("enable") == c.Bool("disable") {
		return badUsage("expected either -enable or -disable")
	}
	if c.Arg(0) == "" && !c.Bool("self") {
		return badUsage("expected a node or -self")
	}
	id, err := nodeID(ctx, c)
	if err != nil {
		return err
	}
	enable := c.Bool("enable")
	err = c.API.NodeEligibility(ctx, id, enable)
	if err != nil {
		return err
	}
	word, eligibility := "forbidden", structs.NodeIneligible
	if enable {
		word = "allowed"
		eligibility = structs.NodeEligible
	}
	outcome := changed{"NodeID": id, "Eligibility": eligibility}
	return c.report(outcome, "New placements on node %s are %s",
		shortID(id), word)
}

func nodeGC(ctx context.Context, c *Call) error {
	if c.Arg(0) == "" && !c.Bool("self") {
		return badUsage("expected a node or -self")
	}
	id, err := nodeID(ctx, c)
	if err != nil {
		return err
	}
	n := 0
	err = newWatch(c).await(ctx, "the answer of node "+shortID(id), seeNode(id), func() (err error) {
		n, err = c.API.NodeGC(ctx, id)
		return err
	})
	if err != nil {
		return err
	}
	outcome := changed{"NodeID": id, "Removed": strconv.Itoa(n)}
	return c.report(outcome, "Node %s has removed %s", shortID(id), plural(n, "allocation"))
}
