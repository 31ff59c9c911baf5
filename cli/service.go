package cli

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"berth/api"
	"berth/structs"
)

// serviceCommands are the verbs of berth service.
var serviceCommands = []Command{
	{
		Name:     "list",
		Synopsis: "List the services that allocations offer",
		Renders:  true,
		Run:      serviceList,
		Examples: "berth service list\n" +
			"berth service list -namespace '*'",
	},
	{
		Name:     "info",
		Args:     "<service>",
		Synopsis: "Show the instances of a service with their addresses",
		Renders:  true,
		Flags: []Flag{
			{Name: "filter", Kind: String, Value: "expression", Usage: "Show only the instances that match"},
		},
		Run: serviceInfo,
		Examples: "berth service info redis\n" +
			`berth service info -filter "Status == success" redis`,
	},
}

func serviceList(ctx context.Context, c *Call) error {
	all, _, err := c.API.Services(ctx, nil)
	err = c.checkFound(ctx, len(all), err)
	if err != nil {
		return err
	}
	return c.show(all, func() error {
		var rows grid
		for _, space := range all {
			for _, s := range space.Services {
				rows.addRow(s.ServiceName, space.Namespace, strconv.Itoa(s.Instances),
					strconv.Itoa(s.Passing), tagList(s.Tags))
			}
		}
		if len(rows) == 0 {
			c.Printf("No service is offered\n")
			return nil
		}
		c.table("Service|Namespace|Instances|Passing|Tags", rows)
		return nil
	})
}

func serviceInfo(ctx context.Context, c *Call) error {
	instances, _, err := c.API.Service(ctx, c.Arg(0), &api.Query{Filter: c.String("filter")})
	err = c.checkFound(ctx, len(instances), err)
	if err != nil {
		return err
	}
	return c.show(instances, func() error {
		if len(instances) == 0 {
			return structs.NotFoundf("no allocation offers a service %q", c.Arg(0))
		}
		printInstances(c, instances)
		printBadChecks(ctx, c, instances)
		return nil
	})
}

func printInstances(c *Call, instances []*structs.ServiceRegistration) {
	var rows grid
	for _, i := range instances {
		rows.addRow(i.JobID, i.ServiceName, instanceAddress(i), i.Status, tagList(i.Tags),
			c.id(i.NodeID), c.id(i.AllocID))
	}
	c.table("Job|Service|Address|Status|Tags|Node|Alloc", rows)
}

// mostBadInstances bounds the instances of a service whose checks are shown.
const mostBadInstances = 5

// printBadChecks shows the checks of the first instances that do not pass, with their last output.
func printBadChecks(ctx context.Context, c *Call, instances []*structs.ServiceRegistration) {
	var rows grid
	read := 0
	for _, i := range instances {
		bad := i.Status == structs.CheckFailing || i.Status == structs.CheckWarning
		if !bad || read == mostBadInstances {
			continue
		}
		read++
		var checks []*structs.CheckResult
		err := newWatch(c).await(ctx, nodeOfAlloc(i.AllocID), seeAlloc(c, i.AllocID), func() (err error) {
			checks, err = badChecks(ctx, c, i.AllocID)
			return err
		})
		if err != nil {
			fmt.Fprintf(c.Err, "Warning: the checks of allocation %s are not shown: %v\n", c.id(i.AllocID), err)
		}
		for _, check := range checks {
			if check.Service == i.ServiceName {
				rows.addRow(c.id(i.AllocID), check.Check, check.Status, oneLine(check.Output))
			}
		}
	}
	if len(rows) > 0 {
		c.section("Checks that do not pass", "Alloc|Check|Status|Last output", rows)
	}
}

func instanceAddress(i *structs.ServiceRegistration) string {
	if i.Port == 0 {
		return i.Address
	}
	return net.JoinHostPort(i.Address, strconv.Itoa(i.Port))
}

// tagList formats the tags of a service.
func tagList(tags []string) string { return "[" + strings.Join(tags, ",") + "]" }
