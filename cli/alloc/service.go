package alloc

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"berth/api"
	"berth/api/jobs"
	"berth/api/show"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

// ServiceCommands are the verbs of berth service.
var ServiceCommands = []command.Command{
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
		Flags: []command.Flag{
			{
				Name:  "filter",
				Kind:  command.String,
				Value: "expression",
				Usage: "Show only the instances that match",
			},
		},
		Run: serviceInfo,
		Examples: "berth service info redis\n" +
			`berth service info -filter "Status == success" redis`,
	},
	{
		Name:     "delete",
		Args:     "<service> <instance>",
		Synopsis: "Delete an instance whose node is down",
		Help: `
An instance ends with its allocation, and the scheduler ends the allocations
of a node that is down. Use the command for one that is left meanwhile, as
while evaluations are paused. The node reports it again when it comes back.
For an instance on a node that is not down, see "berth alloc stop". The IDs
are in the output of "berth service info -json".`,
		Acts:     true,
		Run:      serviceDelete,
		Examples: "berth service delete redis _berth-53b92b20-group-redis-db",
	},
}

// serviceList shows the services that running allocations offer.
func serviceList(ctx context.Context, c *command.Call) error {
	all, _, err := jobs.ListServices(ctx, c.API, nil)
	err = c.CheckFound(ctx, len(all), err)
	if err != nil {
		return err
	}

	return c.Show(all, func() error {
		var rows command.Grid
		for _, space := range all {
			for _, s := range space.Services {
				rows.AddRow(s.ServiceName, space.Namespace, strconv.Itoa(s.Instances),
					strconv.Itoa(s.Passing), tagList(s.Tags))
			}
		}

		if len(rows) == 0 {
			c.Printf("No service is offered\n")
			return nil
		}

		c.Table("Service|Namespace|Instances|Passing|Tags", rows)
		return nil
	})
}

// serviceInfo shows the instances of a service. None is not-found, unless the output is for a program.
func serviceInfo(ctx context.Context, c *command.Call) error {
	instances, _, err := jobs.GetService(ctx, c.API, c.Arg(0), &api.Query{Filter: c.String("filter")})
	err = c.CheckFound(ctx, len(instances), err)
	if err != nil {
		return err
	}

	return c.Show(instances, func() error {
		if len(instances) == 0 {
			return structs.NotFoundf("no allocation offers a service %q", c.Arg(0))
		}
		printInstances(c, instances)
		return printBadChecks(ctx, c, instances)
	})
}

func serviceDelete(ctx context.Context, c *command.Call) error {
	err := jobs.DeleteService(ctx, c.API, c.Arg(0), c.Arg(1))
	if err != nil {
		return err
	}
	outcome := command.Changed{"Service": c.Arg(0), "ID": c.Arg(1)}
	return c.Report(outcome, "The instance %s of service %s is deleted", c.Arg(1), c.Arg(0))
}

func printInstances(c *command.Call, instances []*structs.ServiceRegistration) {
	var rows command.Grid
	for _, i := range instances {
		rows.AddRow(i.JobID, i.ServiceName, instanceAddress(i), i.Status, tagList(i.Tags),
			c.ID(i.NodeID), c.ID(i.AllocID))
	}
	c.Table("Job|Service|Address|Status|Tags|Node|Alloc", rows)
}

// mostBadInstances bounds the instances of a service whose checks are shown.
const mostBadInstances = 5

// printBadChecks shows the checks of the first instances that do not pass, with their last output. It returns
// an error only if the user interrupts it.
func printBadChecks(ctx context.Context, c *command.Call, instances []*structs.ServiceRegistration) error {
	var rows command.Grid
	read := 0
	for _, i := range instances {
		bad := i.Status == structs.CheckFailing || i.Status == structs.CheckWarning
		if !bad || read == mostBadInstances {
			continue
		}

		read++
		var checks []*structs.CheckResult
		see := watch.SeeAlloc(c, i.AllocID)
		err := watch.New(c).Await(ctx, NodeOf(i.AllocID), see, func() (err error) {
			checks, err = watch.BadChecks(ctx, c, i.AllocID)
			return err
		})
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			fmt.Fprintf(c.Err, "Warning: the checks of allocation %s are not shown: %v\n", c.ID(i.AllocID),
				err)
		}

		for _, check := range checks {
			if check.Service == i.ServiceName {
				rows.AddRow(c.ID(i.AllocID), check.Check, check.Status, show.OneLine(check.Output))
			}
		}
	}

	if len(rows) > 0 {
		c.Section("Checks that do not pass", "Alloc|Check|Status|Last output", rows)
	}

	return nil
}

func instanceAddress(i *structs.ServiceRegistration) string {
	if i.Port == 0 {
		return i.Address
	}
	return net.JoinHostPort(i.Address, strconv.Itoa(i.Port))
}

// tagList formats the tags of a service.
func tagList(tags []string) string { return "[" + strings.Join(tags, ",") + "]" }
