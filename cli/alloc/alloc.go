// Package alloc has the commands on allocations, on the evaluations that place them, and on the services that
// they offer.
package alloc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/api/allocs"
	"berth/api/show"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

// Commands are the verbs of berth alloc.
var Commands = []command.Command{
	{
		Name:     "status",
		Args:     "[alloc]",
		Synopsis: "List allocations, or show one with its tasks and volumes",
		Renders:  true,
		Flags:    []command.Flag{command.StatsFlag},
		Run:      allocStatus,
		Examples: "berth alloc status\n" +
			"berth alloc status 53b92b20",
	},
	{
		Name:     "logs",
		Args:     "<alloc> [task]",
		Synopsis: "Show the output of a task",
		Help:     helpLogs,
		Flags:    logsFlags,
		Run:      allocLogs,
		Examples: "berth alloc logs 53b92b20\n" +
			"berth alloc logs -f -stderr 53b92b20 server\n" +
			"berth alloc logs -tail -n 20 -job web",
	},
	{
		Name:     "fs",
		Args:     "<alloc> [path]",
		Synopsis: "List a directory of an allocation, or show a file",
		Help:     helpFiles,
		Renders:  true,
		Flags:    filesFlags,
		Run:      allocFiles,
		Examples: "berth alloc fs 53b92b20\n" +
			"berth alloc fs 53b92b20 alloc/logs\n" +
			"berth alloc fs -tail -f 53b92b20 server/local/access.log\n" +
			"berth alloc fs -stat -job web alloc/data",
	},
	{
		Name:     "exec",
		Args:     "<alloc> <command> [args]...",
		Synopsis: "Run a command in a running task",
		Help:     helpExec,
		Verbatim: true,
		Flags:    execFlags,
		Run:      allocExec,
		Examples: "berth alloc exec 53b92b20 ls -l /local\n" +
			"berth alloc exec -task server 53b92b20 sh\n" +
			"berth alloc exec -t=false 53b92b20 cat /etc/hosts",
	},
	restartCommand,
	signalCommand,
	gcCommand,
	{
		Name:     "checks",
		Args:     "<alloc>",
		Synopsis: "Show the checks of an allocation's services",
		Renders:  true,
		Run:      showAllocChecks,
		Examples: "berth alloc checks 53b92b20",
	},
	{
		Name:     "stop",
		Args:     "<alloc>",
		Synopsis: "Stop an allocation; the scheduler replaces it",
		Acts:     true,
		Flags:    append([]command.Flag{NoShutdownDelay}, command.DetachFlags...),
		Run:      allocStop,
		Examples: "berth alloc stop 53b92b20\n" +
			"berth alloc stop -no-shutdown-delay 53b92b20",
	},
}

// SheetOfJob shows the allocations of one job, and Sheet of several.
var (
	SheetOfJob = command.SheetOf(show.Allocs, titlesOfJob, NewestFirst)
	Sheet      = command.SheetOf(show.Allocs, "Job|"+titlesOfJob, NewestFirst)
)

const titlesOfJob = "ID|Node|Group|Version|Desired|Status|Created|Modified"

// NewestFirst orders allocations by the time of their creation.
func NewestFirst(a, b *structs.AllocListStub) int {
	return cmp.Or(
		cmp.Compare(b.CreateIndex, a.CreateIndex),
		cmp.Compare(a.Name, b.Name))
}

// allocStatus shows one allocation, or lists all.
func allocStatus(ctx context.Context, c *command.Call) error {
	err := command.CheckStats(c)
	if err != nil {
		return err
	}
	return oneOrAllAllocs.Run(ctx, c)
}

var oneOrAllAllocs = command.Status[*structs.AllocListStub, structs.Allocation]{
	Kind:  "alloc",
	Sheet: Sheet,
	List:  allocs.List,
	Get:   allocs.Get,
	Print: printAlloc,
}

func printAlloc(ctx context.Context, c *command.Call, a *structs.Allocation) error {
	c.Pairs(
		"ID", a.ID,
		"Name", a.Name,
		"Job", fmt.Sprintf("%s, version %d", a.JobID, a.JobVersion),
		"Node", show.NodeName(a.NodeName, c.ID(a.NodeID)),
		"Evaluation", show.ShortID(a.EvalID),
		"Desired", show.WithDescription(a.DesiredStatus, a.DesiredDescription),
		"Status", a.ClientStatus,
		"Deployment", show.ShortID(a.DeploymentID),
		"Health", rolloutHealth(a),
		"Description", a.ClientDescription,
		"Created", show.Nanos(a.CreateTime),
		"Modified", show.Nanos(a.ModifyTime),
		"Replaces", show.ShortID(a.PreviousAllocation),
		"Replaced by", show.ShortID(a.NextAllocation),
		"Preempted by", show.ShortID(a.PreemptedByAllocation),
		"Preempted allocs", shortIDs(a.PreemptedAllocations),
	)

	printAllocHostVolumes(c, a)
	printInlineVolumes(c, a)
	err := printAllocVolumes(ctx, c, a)
	if err != nil {
		return err
	}

	printAllocPorts(c, a.AllocatedResources)
	printAllocNetwork(c, a)
	printAllocDevices(c, a.AllocatedResources)
	for name, state := range show.Sorted(a.TaskStates) {
		printTask(c, taskTitle(watch.GroupOf(a), name), state, a.ClientStatus)
	}

	if c.Bool("stats") {
		return printAllocStats(ctx, c, a.ID)
	}

	return nil
}

// shortIDs formats a list of IDs.
func shortIDs(ids []string) string {
	var short []string
	for _, id := range ids {
		short = append(short, show.ShortID(id))
	}
	return strings.Join(short, ", ")
}

func printAllocVolumes(ctx context.Context, c *command.Call, a *structs.Allocation) error {
	claims, err := watch.AllocClaims(ctx, c.API, a)
	if err != nil || len(claims) == 0 {
		return err
	}

	var rows command.Grid
	for _, v := range claims {
		state, why := "none", ""
		switch {
		case v.Missing:
			why = "there is no such volume"
		case v.Claim != nil:
			state, why = v.Claim.State, v.Claim.Reason
		}

		if v.Claim != nil &&
			a.ClientTerminal() &&
			state == structs.ClaimGranted {
			state = "granted, not released yet"
			why = watch.WhyHeld(v.Claim)
		}

		rows.AddRow(
			v.Alias,
			v.Volume,
			string(v.Request.AccessMode),
			show.YesNo(v.Request.ReadOnly),
			state,
			why,
		)
	}

	c.Section("Volumes", "Alias|Volume|Access Mode|Read Only|Claim|Waits For", rows)
	printIllMounts(ctx, c, a, claims)
	return nil
}

// printIllMounts shows the mounts of a running allocation that are ill. The node tells, so a failure is
// none of the status.
func printIllMounts(ctx context.Context, c *command.Call, a *structs.Allocation, claims []watch.AllocClaim) {
	if a.ClientTerminal() {
		return
	}
	for _, v := range claims {
		if v.Claim == nil || v.Claim.State != structs.ClaimGranted {
			continue
		}
		lines, err := PrintAllocHealth(ctx, c.API, v.Volume, a)
		if err != nil {
			fmt.Fprintf(c.Err, "Warning: volume %s: the state of its mount is not known: %s\n",
				v.Volume, show.OneLine(err.Error()))
		}
		for _, line := range lines {
			c.Printf("%s\n", line)
		}
	}
}

// eventsShown bounds the number of events of a task.
const eventsShown = 10

// taskTitle names a task of a group, which may be nil, with its lifecycle.
func taskTitle(g *structs.TaskGroup, name string) string {
	title := fmt.Sprintf("Task %q", name)
	if g == nil {
		return title
	}

	t := g.Task(name)
	switch {
	case t == nil || t.Lifecycle == nil:
		return title
	case t.Lifecycle.Sidecar:
		return fmt.Sprintf("%s (%s sidecar)", title, t.Lifecycle.Hook)
	}

	return fmt.Sprintf("%s (%s)", title, t.Lifecycle.Hook)
}

func printTask(c *command.Call, title string, s *structs.TaskState, alloc string) {
	c.Printf("\n%s\n", title)
	state := s.State
	if s.Failed {
		state += ", failed"
	}

	away := alloc == structs.AllocLost || alloc == structs.AllocUnknown
	if away && s.State != structs.TaskDead {
		state = "unknown; it was " + s.State + " at the last heartbeat of its node"
	}

	c.Pairs(
		"State", state,
		"Started", show.Time(s.StartedAt),
		"Finished", show.Time(s.FinishedAt),
		"Restarts", restartsText(s),
	)

	first := max(0, len(s.Events)-eventsShown)
	var rows command.Grid
	for _, e := range slices.Backward(s.Events[first:]) {
		rows.AddRow(show.Age(e.Time), e.Type, watch.EventText(e))
	}

	if len(rows) > 0 {
		c.Table("Time|Event|Description", rows)
	}
}

func restartsText(s *structs.TaskState) string {
	if s.Restarts == 0 {
		return ""
	}
	return fmt.Sprintf("%d, the last %s", s.Restarts, show.Ago(s.LastRestart))
}

// NoShutdownDelay is the flag of the commands that stop allocations.
var NoShutdownDelay = command.Flag{
	Name:  "no-shutdown-delay",
	Usage: "Skip the shutdown_delay of groups and tasks, also one that has begun",
}

// StopOptions returns the options of a request that stops an allocation.
func StopOptions(c *command.Call) allocs.StopOptions {
	return allocs.StopOptions{NoShutdownDelay: c.Bool(NoShutdownDelay.Name)}
}

// allocStop stops an allocation and waits for its end, unless -detach is given. It does not wait for the one
// that replaces it.
func allocStop(ctx context.Context, c *command.Call) error {
	id, err := c.Resolve(ctx, "alloc", c.Arg(0))
	if err != nil {
		return err
	}

	answer, err := allocs.Stop(ctx, c.API, id, StopOptions(c))
	if err != nil {
		return err
	}

	return watch.New(c).Follow(ctx, answer, answer.EvalID, func(ctx context.Context, w *watch.Watch) error {
		w.WriteChange("request", "Allocation %s is stopping", show.ShortID(id))
		return w.AwaitAllocEnd(ctx, id)
	})
}

// showAllocChecks waits for the node of the allocation, which knows the results of its checks.
func showAllocChecks(ctx context.Context, c *command.Call) error {
	id, err := c.Resolve(ctx, "alloc", c.Arg(0))
	if err != nil {
		return err
	}

	var checks map[string]*structs.CheckResult
	err = watch.New(c).Await(ctx, NodeOf(id), watch.SeeAlloc(c, id), func() (err error) {
		checks, err = allocs.ListChecks(ctx, c.API, id)
		return err
	})
	if err != nil {
		return err
	}

	return c.Show(checks, func() error {
		var rows command.Grid
		for _, check := range show.Sorted(checks) {
			rows.AddRow(check.Service, check.Task, check.Check, check.Status, check.Output)
		}

		if len(rows) == 0 {
			c.Printf("Allocation %s has no checks\n", show.ShortID(id))
			return nil
		}

		c.Table("Service|Task|Name|Status|Message", rows)
		return nil
	})
}

// rolloutHealth describes the health of an allocation in its deployment, "" if it is in none.
func rolloutHealth(a *structs.Allocation) string {
	text := ""
	switch {
	case a.DeploymentID == "":
		return ""
	case a.DeploymentStatus.IsHealthy():
		text = "healthy"
	case a.DeploymentStatus.IsUnhealthy():
		text = "unhealthy"
	default:
		text = "not known yet"
	}

	if a.DeploymentStatus.IsCanary() {
		text += ", a canary"
	}

	return text
}
