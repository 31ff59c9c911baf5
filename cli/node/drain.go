package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/api/nodes"
	"berth/api/show"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

// nodeDrainCommand is berth node drain.
var nodeDrainCommand = command.Command{
	Name:     "drain",
	Args:     "[node]",
	Synopsis: "Move all allocations off a node",
	Help: `
Services move at the pace of their migrate block, which says how many
allocations of a group may be missing at a time. Batch jobs may run to their
end until the deadline. Then system jobs move, and CSI plugins last, when the
node has released all volumes. At the deadline the rest moves at once; the
plugins still wait for the volumes, with -force for at most 30 seconds.`,
	Acts: true,
	Flags: []command.Flag{
		{Name: "enable", Usage: "Start the drain, or change it"},
		{Name: "disable", Usage: "Cancel the drain; the node becomes eligible"},
		{
			Name:    "deadline",
			Kind:    command.Duration,
			Value:   "duration",
			Default: "1h",
			Usage:   "The time after which the rest moves at once",
		},
		{Name: "no-deadline", Usage: "Set no deadline"},
		{
			Name: "force",
			Usage: "Move everything at once, or with -deadline at the deadline. " +
				"CSI plugins stop even if the node still has volumes",
		},
		{Name: "ignore-system", Usage: "Leave the allocations of system jobs on the node"},
		{
			Name: "keep-ineligible",
			Usage: "With -disable: the node stays ineligible. " +
				"With -enable it has no effect: a drain always leaves the node ineligible",
		},
		{Name: "monitor", Usage: "Only watch the drain"},
		{Name: "detach", Usage: "Do not watch"},
		{
			Name:    "timeout",
			Kind:    command.Duration,
			Value:   "duration",
			Default: "24h",
			Usage:   "How long to watch",
		},
		{
			Name:  "m",
			Kind:  command.String,
			Value: "text",
			Usage: "A note on the drain, kept in its meta as message; with -disable as cancel_message",
		},
		{
			Name:  "meta",
			Kind:  command.String,
			Value: "key=value",
			Usage: "A note under a key; may be repeated",
		},
		{Name: "yes", Usage: "Accepted for compatibility; the command never asks"},
		selfFlag,
	},
	Run: nodeDrain,
	Examples: "berth node drain -enable n1\n" +
		"berth node drain -enable -deadline 30m -ignore-system -self\n" +
		"berth node drain -monitor n1\n" +
		"berth node drain -disable n1",
}

// nodeDrain begins or ends a drain. It waits until all allocations have left the node, unless -detach is
// given. With -monitor it only waits. An end of the wait (-timeout, code 8) leaves the drain as it is.
func nodeDrain(ctx context.Context, c *command.Call) error {
	err := checkDrainFlags(c)
	if err != nil {
		return err
	}

	id, err := nodeID(ctx, c)
	if err != nil {
		return err
	}

	if c.Bool("monitor") {
		return watchDrain(ctx, c, id, false)
	}

	drain := nodes.DrainOrder{MarkEligible: c.Bool("disable") && !c.Bool("keep-ineligible")}
	drain.Meta, err = drainMeta(c)
	if err != nil {
		return err
	}

	if c.Bool("enable") {
		drain.DrainSpec = drainSpec(c)
	}

	err = nodes.Drain(ctx, c.API, id, drain)
	if err != nil {
		return err
	}

	if c.Bool("disable") {
		return c.Report(command.Changed{"NodeID": id}, "Node %s does not drain", show.ShortID(id))
	}

	err = c.Report(command.Changed{"NodeID": id}, "Node %s drains", show.ShortID(id))
	if err != nil || c.Bool("detach") {
		return err
	}

	return watchDrain(ctx, c, id, true)
}

func checkDrainFlags(c *command.Call) error {
	modes := 0
	for _, name := range []string{"enable", "disable", "monitor"} {
		if c.Bool(name) {
			modes++
		}
	}

	switch {
	case modes != 1:
		return command.BadUsage("expected one of -enable, -disable and -monitor")
	case c.Arg(0) == "" && !c.Bool("self"):
		return command.BadUsage("expected a node or -self")
	case c.Bool("no-deadline") && (c.Given("deadline") || c.Bool("force")):
		return command.BadUsage("-no-deadline excludes -deadline and -force")
	case c.Bool("keep-ineligible") && c.Bool("monitor"):
		return command.BadUsage("-keep-ineligible needs -enable or -disable")
	case c.Bool("monitor") && c.Bool("detach"):
		return command.BadUsage("-monitor and -detach exclude each other")
	case c.Given("deadline") && c.Duration("deadline") <= 0:
		return command.BadUsage("-deadline: %s is not positive; -force moves all at once",
			c.Duration("deadline"))
	}

	for _, name := range []string{"deadline", "no-deadline", "force", "ignore-system"} {
		if c.Given(name) && !c.Bool("enable") {
			return command.BadUsage("-%s needs -enable: it says how the node drains", name)
		}
	}

	return nil
}

func drainSpec(c *command.Call) *structs.DrainSpec {
	spec := &structs.DrainSpec{
		Deadline:         c.Duration("deadline"),
		IgnoreSystemJobs: c.Bool("ignore-system"),
		Force:            c.Bool("force"),
	}

	switch {
	case c.Bool("no-deadline"):
		spec.Deadline = 0
	case c.Bool("force") && !c.Given("deadline"):
		spec.Deadline = -time.Second
	}

	return spec
}

func drainMeta(c *command.Call) (map[string]string, error) {
	meta := map[string]string{}
	for _, text := range c.Strings("meta") {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			return nil, command.BadUsage("-meta: %q is not key=value", text)
		}
		meta[key] = value
	}

	switch {
	case !c.Given("m"):
	case c.Bool("disable"):
		meta["cancel_message"] = c.String("m")
	default:
		meta["message"] = c.String("m")
	}

	return meta, nil
}

// watchDrain follows a drain until it ends. It writes for each allocation what it waits for. begun says that
// the drain has begun: then its cancellation is an error.
func watchDrain(ctx context.Context, c *command.Call, id string, begun bool) error {
	w := watch.New(c)
	return w.WithTimeout(ctx, func(ctx context.Context) error {
		return w.RetryOutage(ctx, func(ctx context.Context) error {
			return awaitDrain(ctx, w, id, &begun)
		})
	})
}

func awaitDrain(ctx context.Context, w *watch.Watch, id string, begun *bool) error {
	w.WaitFor("node", "", id)
	q := &api.Query{MaxWait: watch.ReadWait}
	there := map[string]structs.DrainWait{}
	for {
		s, meta, err := nodes.DrainStatus(ctx, w.API, id, q)
		if err != nil {
			return err
		}

		*begun = *begun || s.DrainStrategy != nil
		if s.DrainStrategy == nil && !isComplete(s) {
			return reportDrainEnd(w, s, *begun) // what was waited for is still there
		}

		remaining := map[string]structs.DrainWait{}
		w.Waits.Jobs = drainedJobs(s.Waits)
		for _, a := range s.Waits {
			remaining[a.AllocID] = a
			w.WriteChange(a.AllocID, "Allocation %s of job %q: %s", show.ShortID(a.AllocID), a.JobID,
				a.Reason)
		}

		for alloc, a := range show.Sorted(there) {
			if _, remains := remaining[alloc]; !remains {
				w.WriteLine("Allocation %s of job %q %s", show.ShortID(alloc), a.JobID,
					endOfDrained(s.NodeStatus))
			}
		}

		there = remaining
		if s.DrainStrategy == nil {
			return reportDrainEnd(w, s, *begun)
		}

		err = w.AwaitChange(ctx, q, meta)
		if err != nil {
			return err
		}
	}
}

// drainedJobs returns the jobs of the allocations that a drain waits for, each once.
func drainedJobs(waits []structs.DrainWait) (jobs []watch.Named) {
	for _, a := range waits {
		job := watch.Named{Namespace: a.Namespace, ID: a.JobID}
		if !slices.Contains(jobs, job) {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// endOfDrained tells what became of an allocation that a drain no longer waits for. Nobody knows of its tasks
// if the node is down.
func endOfDrained(nodeStatus string) string {
	if nodeStatus == structs.NodeDown {
		return "is lost with its node, which is down; its tasks may still run there"
	}
	return "has left"
}

func isComplete(s *structs.NodeDrainStatusResponse) bool {
	return s.LastDrain != nil && s.LastDrain.Status == structs.DrainComplete
}

func reportDrainEnd(w *watch.Watch, s *structs.NodeDrainStatusResponse, begun bool) error {
	switch {
	case s.LastDrain == nil:
		w.WriteLine("Node %s does not drain", show.ShortID(s.NodeID))
	case !begun && !isComplete(s):
		w.WriteLine("Node %s does not drain; its last drain was %s", show.ShortID(s.NodeID),
			s.LastDrain.Status)
	case isComplete(s):
		w.WriteLine("The drain of node %s is complete", show.ShortID(s.NodeID))
		w.WriteLine("To let it take allocations again: %s",
			structs.CommandLine("", "node eligibility -enable", show.ShortID(s.NodeID)))
	default:
		return structs.Preconditionf("the drain of node %s is %s", show.ShortID(s.NodeID),
			s.LastDrain.Status)
	}

	return nil
}

// printDrain shows the drain of a node and what it waits for.
func printDrain(ctx context.Context, c *command.Call, n *structs.Node) error {
	if n.DrainStrategy == nil {
		return nil
	}

	s, _, err := nodes.DrainStatus(ctx, c.API, n.ID, nil)
	if err != nil {
		return err
	}

	var rows command.Grid
	for _, a := range s.Waits {
		rows.AddRow(show.ShortID(a.AllocID), a.JobID, a.TaskGroup, a.Reason)
	}

	c.Section("Drain waits for", "ID|Job|Group|Reason", rows)
	return nil
}

// describeDrain returns the drain of a node in one line.
func describeDrain(n *structs.Node) string {
	s := n.DrainStrategy
	switch {
	case s == nil && n.LastDrain == nil:
		return "no"
	case s == nil:
		return fmt.Sprintf("no; the last was %s %s", n.LastDrain.Status, show.Ago(n.LastDrain.UpdatedAt))
	case s.Deadline < 0:
		return "yes, by force"
	case s.Deadline == 0:
		return "yes, without a deadline"
	}

	return "yes, until " + s.ForceDeadline.Local().Format(time.RFC3339)
}
