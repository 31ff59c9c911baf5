package node

import (
	"cmp"
	"context"
	"strconv"

	"berth/api/nodes"
	"berth/cli/command"
	"berth/cli/job"
	"berth/jobspec"
	"berth/structs/cluster"
	"berth/structs/validate"
)

// nodePoolCommands are the verbs of berth node pool.
var nodePoolCommands = []command.Command{
	{
		Name:     "apply",
		Args:     "<file>",
		Synopsis: "Create or change a node pool",
		Help: `
The file has the definition of the pool: HCL (see "berth node pool init"), or
the JSON of "berth node pool info -json". "-" is the standard input. The
definition replaces the former one. A node is in a pool because its own
configuration says so: node_pool in the client block.`,
		Acts:     true,
		Run:      nodePoolApply,
		Examples: "berth node pool apply gpu.hcl",
	},
	{
		Name:     "delete",
		Args:     "<pool>",
		Synopsis: "Delete a node pool that has no nodes and no live jobs",
		Acts:     true,
		Run: func(ctx context.Context, c *command.Call) error {
			name := c.Arg(0)
			seen, _, err := nodes.GetPool(ctx, c.API, name, nil)
			on, err := c.On(seen, err)
			if err != nil {
				return err
			}
			err = nodes.DeletePool(ctx, on, name)
			if err != nil {
				return c.DidYouMean(ctx, "pool", name, err)
			}
			return c.Report(command.Changed{"NodePool": name}, "Node pool %q is deleted", name)
		},
		Examples: "berth node pool delete gpu",
	},
	{
		Name:     "info",
		Args:     "<pool>",
		Synopsis: "Show a node pool",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			p, _, err := nodes.GetPool(ctx, c.API, c.Arg(0), nil)
			if err != nil {
				return c.DidYouMean(ctx, "pool", c.Arg(0), err)
			}
			return c.Show(p, func() error {
				printNodePool(c, p)
				return nil
			})
		},
		Examples: "berth node pool info gpu",
	},
	{
		Name:     "init",
		Args:     "[file]",
		Synopsis: "Write an example of a node pool file (pool.hcl)",
		Local:    true,
		Run: func(_ context.Context, c *command.Call) error {
			return c.WriteExample(cmp.Or(c.Arg(0), "pool.hcl"), examplePool)
		},
		Examples: "berth node pool init",
	},
	{
		Name:     "jobs",
		Args:     "<pool>",
		Synopsis: "List the jobs that name a node pool",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			jobs, _, err := nodes.ListPoolJobs(ctx, c.API, c.Arg(0), nil)
			if err != nil {
				return c.DidYouMean(ctx, "pool", c.Arg(0), err)
			}
			err = c.CheckFound(ctx, len(jobs), nil)
			if err != nil {
				return err
			}
			return job.Sheet.List(c, "job", jobs)
		},
		Examples: "berth node pool jobs gpu\n" +
			"berth node pool jobs -namespace '*' gpu",
	},
	{
		Name:     "list",
		Synopsis: "List the node pools",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			pools, _, err := nodes.ListPools(ctx, c.API, nil)
			if err != nil {
				return err
			}
			return nodePoolSheet.List(c, "node pool", pools)
		},
		Examples: "berth node pool list",
	},
	{
		Name:     "nodes",
		Args:     "<pool>",
		Synopsis: "List the nodes of a node pool",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			nodes, _, err := nodes.ListPoolNodes(ctx, c.API, c.Arg(0), nil)
			if err != nil {
				return c.DidYouMean(ctx, "pool", c.Arg(0), err)
			}
			return nodeSheet.List(c, "node", nodes)
		},
		Examples: "berth node pool nodes gpu",
	},
}

var nodePoolSheet = command.Sheet[*cluster.NodePool]{
	Titles: "Name|Algorithm|Description",
	Row: func(_ *command.Call, p *cluster.NodePool) []string {
		algorithm := ""
		if p.SchedulerConfiguration != nil {
			algorithm = p.SchedulerConfiguration.SchedulerAlgorithm
		}
		return []string{p.Name, algorithm, p.Description}
	},
}

func printNodePool(c *command.Call, p *cluster.NodePool) {
	pairs := []string{
		"Name", p.Name,
		"Description", p.Description,
	}

	if s := p.SchedulerConfiguration; s != nil {
		pairs = append(pairs, "Scheduler algorithm", s.SchedulerAlgorithm)
		if more := s.MemoryOversubscriptionEnabled; more != nil {
			pairs = append(pairs, "Memory oversubscription", strconv.FormatBool(*more))
		}
	}

	if p.Reboot != "" {
		pairs = append(pairs, "Reboot", p.Reboot)
	}

	c.Pairs(pairs...)
	command.PrintMeta(c, p.Meta)
}

// nodePoolApply checks a file before it sends it. Faults have their places in the file, and code 2.
func nodePoolApply(ctx context.Context, c *command.Call) error {
	p, err := command.ReadDefinition(c, nodes.DecodeNodePool, jobspec.ReadNodePool, validate.NodePool)
	if err != nil {
		return err
	}

	err = nodes.PutPool(ctx, c.API, p)
	if err != nil {
		return err
	}

	return c.Report(command.Changed{"NodePool": p.Name}, "Node pool %q is applied", p.Name)
}

const examplePool = `# A node pool for "berth node pool apply". A node is in it if its own
# configuration has node_pool = "example" in the client block, and a job if its
# file has node_pool = "example".

node_pool "example" {
  description = "An example"

  meta {
    owner = "me"
  }

  # Settings for the nodes of this pool. Default: those of the cluster.
  scheduler_config {
    scheduler_algorithm = "spread" # or binpack
  }
}
`
