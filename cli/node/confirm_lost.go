package node

import (
	"bufio"
	"context"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"berth/api/nodes"
	"berth/api/show"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/cluster"
)

// confirmLostCommand is berth node confirm-lost.
var confirmLostCommand = command.Command{
	Name:     "confirm-lost",
	Args:     "<node>",
	Synopsis: "State that a machine is off, and release its volumes",
	Help: `
Use it when you know that the machine is off: you have seen it, or cut its
power. A machine that runs may continue to write, and two writers destroy the
data of a volume. The node must be down. Its volumes are released whatever
their on_node_loss is, all its allocations count as lost, and your word is
recorded. The name of the node is asked for, unless -yes is set.

If a fence device can prove it, use "berth node fence" instead.`,
	Acts: true,
	Flags: []command.Flag{
		{
			Name:  "reason",
			Kind:  command.String,
			Value: "text",
			Usage: "How you know that it is off; recorded. Required",
		},
		{Name: "yes", Usage: "Do not ask for the name of the node"},
		command.NoColorFlag,
	},
	Run:      confirmLost,
	Examples: `berth node confirm-lost -reason "I pulled its plug" n1`,
}

// confirmLost asks for the name of the node before it confirms the loss, unless -yes is given: a node that
// runs nevertheless would share its volumes with another one. A node that is not down ends it with the code
// of a precondition. It waits for nothing but the answer.
func confirmLost(ctx context.Context, c *command.Call) error {
	if strings.TrimSpace(c.String("reason")) == "" {
		return command.BadUsage("a -reason is needed: how do you know that the machine is off?")
	}

	id, err := c.Resolve(ctx, "node", c.Arg(0))
	if err != nil {
		return err
	}

	s, _, err := nodes.FenceStatus(ctx, c.API, id, nil)
	if err != nil {
		return err
	}

	if s.Status != structs.NodeDown {
		return structs.Preconditionf("node %s is %s: its lease and grace have not ended",
			show.ShortID(id), s.Status)
	}

	n, _, err := nodes.Get(ctx, c.API, id, nil)
	if err != nil {
		return err
	}

	c.Printf("Node %s (%s) is down. %s\n", s.Name, show.ShortID(id),
		strings.Join(show.LostMachine(n, "be off"), "\n"))
	printLostClaims(c, s)
	err = printLostAllocs(ctx, c, s)
	if err != nil {
		return err
	}

	if !c.Bool("yes") {
		err = askName(c, s.Name)
		if err != nil {
			return err
		}
	}

	err = nodes.ConfirmLost(ctx, c.API, id, nodes.FenceOrder{
		Epoch: s.Epoch,
		By:    command.UserAtHost(),
		Why:   c.String("reason"),
	})
	if err != nil {
		return err
	}

	return c.Report(command.Changed{"NodeID": id}, "The loss of node %s is confirmed; %s released",
		show.ShortID(id), show.Plural(len(s.Claims), "claim"))
}

// printLostAllocs shows the allocations without a claim that count as lost: they are unknown, or run.
func printLostAllocs(ctx context.Context, c *command.Call, s *cluster.NodeFenceStatusResponse) error {
	allocs, _, err := nodes.ListAllocations(ctx, c.API, s.NodeID, nil)
	if err != nil {
		return err
	}

	var rows command.Grid
	for _, a := range allocs {
		hasClaim := slices.ContainsFunc(s.Claims,
			func(l *cluster.LostClaim) bool { return l.AllocID == a.ID })
		if !hasClaim && !a.ClientTerminal() {
			rows.AddRow(show.ShortID(a.ID), a.Namespace, a.JobID, a.TaskGroup, a.DesiredStatus,
				a.ClientStatus)
		}
	}

	titles := "Allocation|Namespace|Job|Task group|Desired|Status"
	command.PrintSome(c, "Other allocations that count as lost", titles, rows)
	return nil
}

// askName has the user type the name of the node. Only a terminal is asked.
func askName(c *command.Call, name string) error {
	f, isFile := c.In.(*os.File)
	if isFile && !term.IsTerminal(int(f.Fd())) {
		return command.BadUsage("the input is no terminal: set -yes if the machine is off")
	}

	c.Printf("\nIf the machine runs, its data may be destroyed. Type the name of the node: ")
	typed, err := bufio.NewReader(io.LimitReader(c.In, structs.MaxName)).ReadString('\n')
	if err != nil && err != io.EOF {
		return structs.Internalf("reading the name: %w", err)
	}

	if strings.TrimSpace(typed) != name {
		return structs.Preconditionf("that is not the name %q: nothing is released", name)
	}

	return nil
}
