package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"berth/structs"
)

var (
	selfFlag        = Flag{Name: "self", Kind: Bool, Usage: "The node of the agent that is called"}
	nodeStatusFlags = []Flag{selfFlag, {Name: "verbose", Kind: Bool, Usage: "Also show attributes"}}

	nodeEligibilityFlags = []Flag{
		{Name: "enable", Kind: Bool, Usage: "Allow new placements"},
		{Name: "disable", Kind: Bool, Usage: "Forbid new placements; what runs there goes on"},
		selfFlag,
	}
)

// node is the node that the command is about: its argument, or the agent's own with -self.
func (c *Call) node(ctx context.Context) (string, error) {
	switch {
	case c.Bool("self") && c.Arg(0) != "":
		return "", badUsage("-self and a node exclude each other")
	case !c.Bool("self"):
		return c.nodeID(ctx, c.Arg(0))
	}
	self, err := c.API().AgentSelf(ctx)
	if err != nil {
		return "", err
	}
	if id := self.Stats["client"]["node_id"]; id != "" {
		return id, nil
	}
	return "", structs.Errorf(structs.KindPrecondition, "the agent at %s is not a node; name one instead of -self", c.API().Address())
}

func nodeStatus(ctx context.Context, c *Call) error {
	if c.Arg(0) == "" && !c.Bool("self") {
		return nodeListing(ctx, c)
	}
	id, err := c.node(ctx)
	if err != nil {
		return err
	}
	node, _, err := c.API().Node(ctx, id, nil)
	if err != nil {
		return err
	}
	return c.show(node, func() error { return printNode(ctx, c, node) })
}

func nodeListing(ctx context.Context, c *Call) error {
	nodes, _, err := c.API().Nodes(ctx, nil)
	if err != nil {
		return err
	}
	return c.show(nodes, func() error {
		if len(nodes) == 0 {
			c.Printf("No nodes\n")
			return nil
		}
		var rows [][]string
		for _, n := range nodes {
			rows = append(rows, []string{structs.ShortID(n.ID), n.Name, n.Datacenter, n.NodeClass, n.Address, n.SchedulingEligibility, n.Status})
		}
		c.table([]string{"ID", "Name", "Datacenter", "Class", "Address", "Eligibility", "Status"}, rows)
		return nil
	})
}

func printNode(ctx context.Context, c *Call, n *structs.NodeDetail) error {
	free := n.Available()
	c.pairs(
		[2]string{"ID", n.ID},
		[2]string{"Name", n.Name},
		[2]string{"Datacenter", n.Datacenter},
		[2]string{"Class", n.NodeClass},
		[2]string{"Pool", n.NodePool},
		[2]string{"HTTP", n.HTTPAddr},
		[2]string{"Status", described(n.Status, n.StatusDescription)},
		[2]string{"Eligibility", n.SchedulingEligibility},
		[2]string{"Resources", fmt.Sprintf("%d MHz, %d MiB memory, %d MiB disk", free.CPU, free.MemoryMB, free.DiskMB)},
	)
	var drivers [][]string
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		d := n.Drivers[name]
		drivers = append(drivers, []string{name, yesNo(d.Detected), health(d.Healthy), d.HealthDescription})
	}
	c.section("Drivers", []string{"Driver", "Detected", "Health", "Description"}, drivers)
	c.section("CSI plugins", instanceTitles("Plugin"), append(
		instanceRows("node", n.CSINodePlugins, func(id string) string { return id }),
		instanceRows("controller", n.CSIControllerPlugins, func(id string) string { return id })...))
	if err := printNodeAllocs(ctx, c, n.ID); err != nil {
		return err
	}
	printNodeEvents(c, n.Events)
	if c.Bool("verbose") {
		var rows [][]string
		for _, k := range slices.Sorted(maps.Keys(n.Attributes)) {
			rows = append(rows, []string{k, n.Attributes[k]})
		}
		c.section("Attributes", []string{"Name", "Value"}, rows)
	}
	return nil
}

func printNodeAllocs(ctx context.Context, c *Call, id string) error {
	allocs, _, err := c.API().NodeAllocations(ctx, id, nil)
	if err != nil {
		return err
	}
	stubs := make([]*structs.AllocListStub, len(allocs))
	for i, a := range allocs {
		stubs[i] = a.Stub()
	}
	newestFirst(stubs)
	var rows [][]string
	for _, a := range stubs {
		rows = append(rows, []string{structs.ShortID(a.ID), a.JobID, a.TaskGroup, a.DesiredStatus, a.ClientStatus, age(a.CreateTime)})
	}
	c.section("Allocations", []string{"ID", "Job", "Group", "Desired", "Status", "Created"}, rows)
	return nil
}

func printNodeEvents(c *Call, events []*structs.NodeEvent) {
	var rows [][]string
	for _, e := range slices.Backward(events) {
		rows = append(rows, []string{ago(e.Timestamp), e.Subsystem, e.Message, keyValues(e.Details)})
	}
	c.section("Events", []string{"Time", "Subsystem", "Message", "Details"}, rows)
}

func nodeEligibility(ctx context.Context, c *Call) error {
	if c.Bool("enable") == c.Bool("disable") {
		return badUsage("say either -enable or -disable")
	}
	if c.Arg(0) == "" && !c.Bool("self") {
		return badUsage("name a node, or say -self")
	}
	id, err := c.node(ctx)
	if err != nil {
		return err
	}
	if err := c.API().NodeEligibility(ctx, id, c.Bool("enable")); err != nil {
		return err
	}
	word := "forbidden"
	if c.Bool("enable") {
		word = "allowed"
	}
	c.Printf("New placements on node %s are %s\n", structs.ShortID(id), word)
	return nil
}
