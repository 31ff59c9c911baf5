package node

import (
	"context"
	"fmt"
	"time"

	"berth/api"
	"berth/api/nodes"
	"berth/api/show"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
	"berth/structs/cluster"
)

// nodeFenceCommand is berth node fence.
var nodeFenceCommand = command.Command{
	Name:     "fence",
	Args:     "[test] <node> [name=value]...",
	Synopsis: "Fence a lost node, and release its volumes",
	Help: `
Proves by a fence device that the node can no longer write. The leader tries
the devices of its configuration that match the node, one after the other,
until one proves that the machine is off, or cut off from its storage. Then
the volumes that the proof covers are released, whatever their on_node_loss
is. The node must be down. A proof counts only if the node does not come back
before it.

With -dry-run nothing runs: the devices, and the volumes that a proof would
release, are shown. With the word test before the node each device is asked
for its state (monitor), which changes nothing; the node may be up. Given
alone, test is the name of a node.

With -pin the values after the node are kept for it, and with -unpin the pins
with the names after it are removed. The options of a device refer to them as
${pin.NAME}: they say where the machine of the node is at the device. The
servers keep the pins by the name of the node if its join token bound it, and
else by its ID, with which they are deleted. berth node pins lists them. Root
pins over the operator socket of the server that leads.`,
	Acts: true,
	Flags: []command.Flag{
		{Name: "dry-run", Usage: "Only show the devices and the volumes"},
		{
			Name:  "reason",
			Kind:  command.String,
			Value: "text",
			Usage: "The reason; recorded",
		},
		{Name: "pin", Usage: "Keep values of the node for the devices: name=value"},
		{Name: "unpin", Usage: "Remove pins of the node by their names"},
		{Name: "detach", Usage: "Do not wait for the end"},
		{
			Name:    "timeout",
			Kind:    command.Duration,
			Value:   "duration",
			Default: "15m",
			Usage:   "How long to wait",
		},
		command.NoColorFlag,
	},
	Run: nodeFence,
	Examples: "berth node fence -dry-run n1\n" +
		"berth node fence test n1\n" +
		"sudo berth node fence -pin n1 bmc=10.0.9.17\n" +
		`berth node fence -reason "its board is dead" n1`,
}

// nodeFence orders a fence and waits for the end of its attempt, unless -detach is given. The order names the
// epoch that was read, so it is of this loss of the node alone.
func nodeFence(ctx context.Context, c *command.Call) error {
	if c.Bool("pin") || c.Bool("unpin") {
		return changePins(ctx, c)
	}

	tests, err := isFenceTest(c)
	if err != nil {
		return err
	}

	id, err := c.Resolve(ctx, "node", c.Args[len(c.Args)-1])
	if err != nil {
		return err
	}

	if tests {
		return testFence(ctx, c, id)
	}

	s, _, err := nodes.FenceStatus(ctx, c.API, id, nil)
	if err != nil {
		return err
	}

	if c.Bool("dry-run") {
		showFence(c, s)
		return c.WriteOutcome(s)
	}

	err = nodes.Fence(ctx, c.API, id, nodes.FenceOrder{
		Epoch: s.Epoch,
		By:    command.UserAtHost(),
		Why:   c.String("reason"),
	})
	if err != nil {
		return err
	}

	err = c.Report(command.Changed{"NodeID": id}, "Node %s is to be fenced", show.ShortID(id))
	if err != nil || c.Bool("detach") {
		return err
	}

	return watchFence(ctx, c, s)
}

// isFenceTest reports whether the devices are to be tested. The last argument is the node.
func isFenceTest(c *command.Call) (bool, error) {
	switch {
	case len(c.Args) == 1:
		return false, nil
	case c.Arg(0) != "test":
		return false, command.BadUsage("the argument %q is not expected", c.Arg(1))
	case len(c.Args) > 2:
		return false, command.BadUsage("the argument %q is not expected", c.Arg(2))
	case c.Bool("dry-run"):
		return false, command.BadUsage("-dry-run and test exclude each other")
	}

	return true, nil
}

// showFence shows the devices that fence a node, and the claims that a proof releases.
func showFence(c *command.Call, s *cluster.NodeFenceStatusResponse) {
	c.Printf("Node %s (%s) is %s\n", s.Name, show.ShortID(s.NodeID), s.Status)
	var devices command.Grid
	for _, d := range s.Devices {
		devices.AddRow(d.Name, d.Scope, d.Plug, fmt.Sprintf("%d of %d", d.Covers, len(s.Claims)))
	}
	c.Section("Devices, in order", "Name|Scope|Plug|Covers", devices)
	var others command.Grid
	for _, o := range s.Others {
		others.AddRow(o.Name, show.OneLine(o.Reason))
	}
	command.PrintSome(c, "Devices that do not fence it", "Name|Reason", others)
	printLostClaims(c, s)
}

func printLostClaims(c *command.Call, s *cluster.NodeFenceStatusResponse) {
	var claims command.Grid
	for _, l := range s.Claims {
		claims.AddRow(l.VolumeID, l.Namespace, lossRule(l), show.YesNo(l.Waited),
			show.ShortID(l.AllocID), l.JobID, l.Status)
	}
	titles := "Volume|Namespace|On node loss|Waited for|Allocation|Job|Status"
	c.Section("Volumes that are released", titles, claims)
}

// lossRule returns the policy of a claim, with the reason for which the end of a lease does not release it.
func lossRule(l *cluster.LostClaim) string {
	if l.OnNodeLoss == structs.LossLease && !l.Guarded {
		return "lease (not guarded: holds)"
	}
	return l.OnNodeLoss
}

func testFence(ctx context.Context, c *command.Call, id string) error {
	var tests *cluster.NodeFenceTestResponse
	err := watch.New(c).Await(ctx, "the fence devices", watch.SeeNode(id), func() (err error) {
		tests, err = nodes.TestFence(ctx, c.API, id)
		return err
	})
	if err != nil {
		return err
	}

	bad := 0
	var rows command.Grid
	for _, r := range tests.Results {
		if !r.OK {
			bad++
		}
		rows.AddRow(r.Device, show.HealthWord(r.OK), fmt.Sprint(r.ExitCode),
			show.OneLine(show.WithDescription(r.Reason, r.Output)))
	}

	c.Section("Devices", "Name|Health|Exit code|Answer", rows)
	err = c.WriteOutcome(tests)
	switch {
	case err != nil:
		return err
	case len(tests.Results) == 0:
		return structs.Preconditionf("no fence device of the servers matches node %s, and berth node fence "+
			"-dry-run %s shows why; to fence it by hand: switch it off, then berth node confirm-lost %s",
			show.ShortID(id), show.ShortID(id), show.ShortID(id))
	case bad > 0:
		return structs.Unavailablef("%d of %d devices do not work; the table has their answers; "+
			"correct the devices or their fence blocks, and test again", bad, len(tests.Results))
	}

	return nil
}

// watchFence follows an order until its attempt has ended. before is the state before the order.
func watchFence(ctx context.Context, c *command.Call, before *cluster.NodeFenceStatusResponse) error {
	w := watch.New(c)
	w.Waits.Step = watch.SeeNode(before.NodeID)
	return w.WithTimeout(ctx, func(ctx context.Context) error {
		return w.RetryOutage(ctx, func(ctx context.Context) error {
			return awaitFence(ctx, w, before)
		})
	})
}

func awaitFence(ctx context.Context, w *watch.Watch, before *cluster.NodeFenceStatusResponse) error {
	var last uint64
	if len(before.Runs) > 0 {
		last = before.Runs[0].Number
	}

	q := &api.Query{MaxWait: watch.ReadWait}
	for {
		s, meta, err := nodes.FenceStatus(ctx, w.API, before.NodeID, q)
		if err != nil {
			return err
		}

		released := 0
		var end *cluster.FenceRun // the newest
		for i := len(s.Runs) - 1; i >= 0; i-- {
			r := s.Runs[i]
			if r.Number <= last || !r.Ordered() {
				continue
			}
			end = r
			released += r.Released
			w.WriteChange(fmt.Sprint("run", r.Number), "%s", show.OneLine(fenceText(r)))
		}
		if s.Order == nil {
			return reportFence(w, s, end, released)
		}
		if end == nil {
			w.WriteChange("order", "waits for the leader, which runs as many fence agents at a time as "+
				"fence_max_parallel allows")
		}

		err = w.AwaitChange(ctx, q, meta)
		if err != nil {
			return err
		}
	}
}

// fenceText describes a run in a line.
func fenceText(r *cluster.FenceRun) string {
	subject := proverOf(r)
	if r.Device != "" {
		subject = "device " + r.Device
	}

	switch r.State {
	case cluster.FenceRunning:
		return subject + " runs"
	case cluster.FenceProved:
		return fmt.Sprintf("%s has proved that the node cannot write: %s released",
			subject, show.Plural(r.Released, "claim"))
	}

	return show.WithDescription(fmt.Sprintf("%s: %s: %s", subject, r.State, r.Reason), r.Output)
}

// reportFence tells how an order ended.
func reportFence(
	w *watch.Watch, s *cluster.NodeFenceStatusResponse, end *cluster.FenceRun, released int,
) error {
	node := show.ShortID(s.NodeID)
	switch {
	case released > 0 || end != nil && end.State == cluster.FenceProved:
		w.WriteLine("Node %s is fenced, and %s released", node, show.Plural(released, "claim"))
		return nil
	case s.Status != structs.NodeDown:
		return structs.Preconditionf("node %s is %s: it came back, and nothing is released", node, s.Status)
	}

	return structs.Unavailablef("no device proved that node %s cannot write; if the machine is off: "+
		"berth node confirm-lost %s", node, node)
}

// printFences shows the newest runs of a node, if it has any.
func printFences(ctx context.Context, c *command.Call, id string) error {
	s, _, err := nodes.FenceStatus(ctx, c.API, id, nil)
	if structs.IsKind(err, structs.KindNotFound) {
		return nil // a server of an earlier version
	}
	if err != nil {
		return err
	}

	var rows command.Grid
	for _, r := range s.Runs {
		rows.AddRow(fmt.Sprint(r.Number), proverOf(r), r.State, show.Age(r.Begun), took(r),
			brief(c, show.WithDescription(r.Reason, r.Output), maxEventText), r.By)
	}

	command.PrintSome(c, "Fence runs", "Run|Device|State|Begun|Took|Answer|By", rows)
	return nil
}

// proverOf returns what proves in a run: its device, or its kind if it has none.
func proverOf(r *cluster.FenceRun) string {
	switch {
	case r.Device != "":
		return r.Device
	case r.Kind == cluster.FenceByWord:
		return "the word of an operator"
	case r.Kind == cluster.FenceByLease:
		return "the end of its lease"
	}

	return "no device"
}

// took returns how long a run took, "" while it runs.
func took(r *cluster.FenceRun) string {
	if r.Ended == 0 {
		return ""
	}
	return time.Duration(r.Ended - r.Begun).Round(time.Second).String()
}
