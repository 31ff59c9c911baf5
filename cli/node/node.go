// Package node has the commands on nodes, their drains and their pools.
package node

import (
	"context"
	"fmt"
	"strconv"

	"berth/api/allocs"
	"berth/api/nodes"
	"berth/api/operator"
	"berth/api/show"
	"berth/cli/alloc"
	"berth/cli/certificate"
	"berth/cli/command"
	"berth/cli/volume"
	"berth/cli/watch"
	"berth/structs"
	"berth/structs/cluster"
)

// Commands are the verbs of berth node.
var Commands = []command.Command{
	{
		Name:     "status",
		Args:     "[node]",
		Synopsis: "List nodes, or show one with its plugins and allocations",
		Help: `
Below the list are the nodes of another cluster that asked to join this one
within the last hour, for example because these servers have lost their state.
They are rejected, and what runs on them goes on.`,
		Renders: true,
		Flags: []command.Flag{
			selfFlag,
			{Name: "verbose", Usage: "Also show complete IDs and texts, and attributes"},
			command.StatsFlag,
		},
		Run: nodeStatus,
		Examples: "berth node status\n" +
			"berth node status n1\n" +
			"berth node status -self -verbose",
	},
	metaCommand,
	identityCommand,
	{
		Name:     "purge",
		Args:     "<node>",
		Synopsis: "Delete a node that is off for good",
		Help: `
Deletes the node and its plugin instances from the state. It is rejected if
the node holds volumes or runs allocations. A node that is not off comes back
with its next heartbeat. After a restore the cluster no longer waits for it.`,
		Acts: true,
		Run: func(ctx context.Context, c *command.Call) error {
			id, err := c.Resolve(ctx, "node", c.Arg(0))
			if err != nil {
				return err
			}
			seen, _, err := nodes.Get(ctx, c.API, id, nil)
			on, err := c.On(seen, err)
			if err != nil {
				return err
			}
			err = nodes.Purge(ctx, on, id)
			if err != nil {
				return err
			}
			return c.Report(command.Changed{"NodeID": id}, "Node %s is deleted", show.ShortID(id))
		},
		Examples: "berth node purge n1",
	},
	certificate.JoinTokenCommand(cluster.JoinNode),
	certificate.IntroTokenCommand,
	nodeDrainCommand,
	nodeFenceCommand,
	pinsCommand,
	confirmLostCommand,
	{
		Name:     "gc",
		Args:     "[node]",
		Synopsis: "Remove what is left of the allocations that have ended on a node",
		Help: `
The node removes their directories, with logs and data. It keeps a directory
whose data a replacement still has to take over. If there are more than
gc_max_allocs, the node removes the oldest by itself.`,
		Acts:  true,
		Flags: []command.Flag{selfFlag},
		Run:   nodeGC,
		Examples: "berth node gc n1\n" +
			"berth node gc -self",
	},
	{
		Name:     "eligibility",
		Args:     "[node]",
		Synopsis: "Allow or forbid new placements on a node",
		Acts:     true,
		Flags: []command.Flag{
			{Name: "enable", Usage: "Allow new placements"},
			{Name: "disable", Usage: "Forbid new placements; running allocations continue"},
			selfFlag,
		},
		Run: nodeEligibility,
		Examples: "berth node eligibility -disable n1\n" +
			"berth node eligibility -enable -self",
	},
	{
		Name:     "lease",
		Args:     "[node]",
		Synopsis: "Let the agent of a node be away for a while",
		Help: `
The servers count the node as alive for that time, although its agent sends no
heartbeat. Its tasks continue, and nothing is placed elsewhere. Use it before
you stop the agent for longer than a restart, for example to upgrade it. If
the machine fails in that time, its work moves only at the end of the time.
The setting max_node_lease of the servers bounds the time.`,
		Acts: true,
		Flags: []command.Flag{
			{
				Name:  "for",
				Kind:  command.Duration,
				Value: "duration",
				Usage: "The time from now, for example 15m",
			},
			selfFlag,
		},
		Run: nodeLease,
		Examples: "berth node lease -for 15m n1\n" +
			"berth node lease -for 15m -self",
	},
	{
		Name:     "pool",
		Synopsis: "Create, show and delete node pools",
		Sub:      nodePoolCommands,
	},
}

var selfFlag = command.Flag{Name: "self", Usage: "The node of the agent that is called"}

var nodeSheet = command.SheetOf(show.Nodes, "ID|Name|Datacenter|Class|Address|Eligibility|Status", nil)

// nodeAllocSheet shows the allocations of one node.
var nodeAllocSheet = command.SheetOf(show.Allocs, "ID|Job|Group|Desired|Status|Created", alloc.NewestFirst)

var nodeEventSheet = command.Sheet[*structs.NodeEvent]{
	Titles: "Time|Subsystem|Message|Details",
	Row: func(c *command.Call, e *structs.NodeEvent) []string {
		return []string{
			show.Ago(e.Timestamp),
			e.Subsystem,
			brief(c, e.Message, maxEventText),
			brief(c, show.KeyValues(e.Details), maxEventDetails),
		}
	},
	Order: func(a, b *structs.NodeEvent) int {
		return b.Timestamp.Compare(a.Timestamp)
	},
}

// nodeID returns the ID of the node that the argument names, or with -self of the agent's node.
func nodeID(ctx context.Context, c *command.Call) (string, error) {
	prefix := c.Arg(0)
	switch {
	case c.Bool("self") && prefix != "":
		return "", command.BadUsage("-self and a node exclude each other")
	case !c.Bool("self"):
		return c.Resolve(ctx, "node", prefix)
	}

	self, err := operator.ReadAgent(ctx, c.API)
	if err != nil {
		return "", err
	}

	if id := self.Stats["client"]["node_id"]; id != "" {
		return id, nil
	}

	return "", structs.Preconditionf("the agent at %s is not a node; name one instead of -self",
		c.API.Address())
}

var oneOrAllNodes = command.Status[*structs.NodeListStub, structs.NodeDetail]{
	Kind:  "node",
	Sheet: nodeSheet,
	List:  nodes.List,
	Get:   nodes.Get,
	Print: printNode,
}

// nodeStatus shows one node, or lists all.
func nodeStatus(ctx context.Context, c *command.Call) error {
	if c.Bool("self") {
		id, err := nodeID(ctx, c)
		if err != nil {
			return err
		}
		c.Args = []string{id}
	}

	err := command.CheckStats(c)
	if err != nil {
		return err
	}

	if c.Arg(0) == "" {
		return listNodes(ctx, c)
	}

	return oneOrAllNodes.Run(ctx, c)
}

// statusOf returns the status of a node, with the reason for which one that is back takes no allocations yet.
func statusOf(n *structs.Node) string {
	note := n.StatusDescription
	if n.Returning && n.Status == structs.NodeReady {
		note = "back after a loss; it takes no allocations until it has released what it lost, see its log"
	}
	return show.WithDescription(n.Status, note)
}

// printSecondAgent shows an agent that asks for the lease of the node, and the one that has it.
func printSecondAgent(c *command.Call, n *structs.NodeDetail) {
	if n.SecondAgent == nil {
		return
	}

	var rows command.Grid
	rows.AddRow("has the node", n.Name, n.HTTPAddr, n.BootID)
	rows.AddRow("rejected", n.SecondAgent.Name, n.SecondAgent.HTTPAddr, n.SecondAgent.BootID)
	c.Section("Two agents have the ID of this node", "Agent|Name|HTTP|Boot", rows)
	c.Printf("%s\n", n.SecondAgent.Reason)
}

func printNode(ctx context.Context, c *command.Call, n *structs.NodeDetail) error {
	printNodeHead(c, n)
	printSecondAgent(c, n)
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

	err = printFences(ctx, c, n.ID)
	if err != nil {
		return err
	}

	nodeEventSheet.Section(c, "Events", n.Events)
	if c.Bool("stats") {
		err := printHostStats(ctx, c, n.ID)
		if err != nil {
			return err
		}
	}

	if c.Bool("verbose") {
		printAttributes(c, n)
	}

	return nil
}

// printNodeHead prints what identifies a node and decides on its placements.
func printNodeHead(c *command.Call, n *structs.NodeDetail) {
	free := n.Available()
	resources := fmt.Sprintf("%d MHz, %d MiB memory, %d MiB disk",
		free.CPU, free.MemoryMB, free.DiskMB)
	c.Pairs(
		"ID", n.ID,
		"Name", n.Name,
		"Datacenter", n.Datacenter,
		"Class", n.NodeClass,
		"Pool", n.NodePool,
		"HTTP", n.HTTPAddr,
		"Status", statusOf(&n.Node),
		"Eligibility", n.SchedulingEligibility,
		"Drain", describeDrain(&n.Node),
		"Resources", resources,
		"Dynamic ports", dynamicPorts(&n.Node),
		"Reserved ports", reservedPorts(&n.Node),
	)
}

// printAttributes prints the attributes of a node and of its devices, by which jobs constrain their nodes.
func printAttributes(c *command.Call, n *structs.NodeDetail) {
	var rows command.Grid
	for name, value := range show.Sorted(n.Attributes) {
		rows.AddRow(name, value)
	}

	c.Section("Attributes", "Name|Value", rows)
	printDeviceAttributes(c, n.NodeResources)
}

// These bound texts without -verbose, so that a line has about 110 columns.
const (
	maxDriverText   = 70
	maxEventText    = 56
	maxEventDetails = 30
)

// brief cuts a text to a width without -verbose.
func brief(c *command.Call, text string, width int) string {
	text = show.OneLine(text)
	if c.Bool(command.VerboseFlag.Name) {
		return text
	}
	return command.CutCell(text, width)
}

func printNodePlugins(c *command.Call, n *structs.NodeDetail) {
	pluginID := func(id string) string { return id }
	fit := func(text string, width int) string { return brief(c, text, width) }
	instances := append(
		volume.InstanceRows("node", n.CSINodePlugins, pluginID, fit),
		volume.InstanceRows("controller", n.CSIControllerPlugins, pluginID, fit)...)
	c.Section("CSI plugins", "Plugin"+volume.InstanceTitles, instances)
}

func printDrivers(c *command.Call, drivers map[string]*structs.DriverInfo) {
	var rows command.Grid
	for name, d := range show.Sorted(drivers) {
		rows.AddRow(
			name,
			show.YesNo(d.Detected),
			show.HealthWord(d.Healthy),
			brief(c, show.HealthText(d.Healthy, d.HealthDescription), maxDriverText))
	}

	c.Section("Drivers", "Driver|Detected|Health|Description", rows)
}

func printNodeAllocs(ctx context.Context, c *command.Call, id string) error {
	allocs, _, err := nodes.ListAllocations(ctx, c.API, id, nil)
	if err != nil {
		return err
	}

	stubs := make([]*structs.AllocListStub, len(allocs))
	for i, a := range allocs {
		stubs[i] = a.Stub()
	}

	nodeAllocSheet.Section(c, "Allocations", stubs)
	return nil
}

// nodeEligibility changes whether a node gets new allocations. The ones that it has stay, so there is nothing
// to wait for.
func nodeEligibility(ctx context.Context, c *command.Call) error {
	if c.Bool("enable") == c.Bool("disable") {
		return command.BadUsage("expected either -enable or -disable")
	}

	if c.Arg(0) == "" && !c.Bool("self") {
		return command.BadUsage("expected a node or -self")
	}

	id, err := nodeID(ctx, c)
	if err != nil {
		return err
	}

	enable := c.Bool("enable")
	err = nodes.SetEligibility(ctx, c.API, id, enable)
	if err != nil {
		return err
	}

	word, eligibility := "forbidden", structs.NodeIneligible
	if enable {
		word = "allowed"
		eligibility = structs.NodeEligible
	}

	outcome := command.Changed{"NodeID": id, "Eligibility": eligibility}
	return c.Report(outcome, "New placements on node %s are %s",
		show.ShortID(id), word)
}

// nodeLease makes a node count as alive for a time without a heartbeat.
func nodeLease(ctx context.Context, c *command.Call) error {
	if c.Arg(0) == "" && !c.Bool("self") {
		return command.BadUsage("expected a node or -self")
	}

	length := c.Duration("for")
	if length <= 0 {
		return command.BadUsage("expected -for with a time above 0, for example -for 15m")
	}

	id, err := nodeID(ctx, c)
	if err != nil {
		return err
	}

	downAfter, err := nodes.ExtendLease(ctx, c.API, id, length)
	if err != nil {
		return err
	}

	outcome := command.Changed{"NodeID": id, "DownAfter": downAfter.String()}
	return c.Report(outcome, "Node %s counts as alive for %s without a heartbeat, and as down after %s",
		show.ShortID(id), length, downAfter)
}

// nodeGC waits for the node, which removes its ended allocations before it answers.
func nodeGC(ctx context.Context, c *command.Call) error {
	if c.Arg(0) == "" && !c.Bool("self") {
		return command.BadUsage("expected a node or -self")
	}

	id, err := nodeID(ctx, c)
	if err != nil {
		return err
	}

	n := 0
	answer := "the answer of node " + show.ShortID(id)
	err = watch.New(c).Await(ctx, answer, watch.SeeNode(id), func() (err error) {
		n, err = allocs.GCNode(ctx, c.API, id)
		return err
	})
	if err != nil {
		return err
	}

	outcome := command.Changed{"NodeID": id, "Removed": strconv.Itoa(n)}
	return c.Report(outcome, "Node %s has removed %s", show.ShortID(id), show.Plural(n, "allocation"))
}
