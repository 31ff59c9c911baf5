package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/api"
	"berth/structs"
)

// allocCommands are the verbs of berth alloc.
var allocCommands = []Command{
	{
		Name:     "status",
		Args:     "[alloc]",
		Synopsis: "List allocations, or show one with its tasks and volumes",
		Renders:  true,
		Flags:    []Flag{statsFlag},
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
		Flags:    append([]Flag{noShutdownDelay}, detachFlags...),
		Run:      allocStop,
		Examples: "berth alloc stop 53b92b20\n" +
			"berth alloc stop -no-shutdown-delay 53b92b20",
	},
}

// jobAllocSheet shows the allocations of one job.
var jobAllocSheet = sheet[*structs.AllocListStub]{
	titles: "ID|Node|Group|Version|Desired|Status|Created|Modified",
	row: func(c *Call, a *structs.AllocListStub) []string {
		return []string{
			c.id(a.ID),
			nodeName(c, a.NodeName, a.NodeID),
			a.TaskGroup,
			fmt.Sprint(a.JobVersion),
			a.DesiredStatus,
			a.ClientStatus,
			age(a.CreateTime),
			age(a.ModifyTime),
		}
	},
	order: newestFirst,
}

var allocSheet = sheet[*structs.AllocListStub]{
	titles: "Job|" + jobAllocSheet.titles,
	row: func(c *Call, a *structs.AllocListStub) []string {
		return append([]string{a.JobID}, jobAllocSheet.row(c, a)...)
	},
	order: newestFirst,
}

// nodeName formats the name of a node with its ID.
func nodeName(c *Call, name, id string) string {
	if name == "" {
		return c.id(id)
	}
	return fmt.Sprintf("%s (%s)", name, c.id(id))
}

// newestFirst orders allocations by the time of their creation.
func newestFirst(a, b *structs.AllocListStub) int {
	return cmp.Or(
		cmp.Compare(b.CreateIndex, a.CreateIndex),
		cmp.Compare(a.Name, b.Name))
}

func allocStatus(ctx context.Context, c *Call) error {
	err := checkStats(c)
	if err != nil {
		return err
	}
	return oneOrAllAllocs.run(ctx, c)
}

var oneOrAllAllocs = status[*structs.AllocListStub, structs.Allocation]{
	kind:  "alloc",
	sheet: allocSheet,
	list:  (*api.Client).Allocations,
	get:   (*api.Client).Allocation,
	print: printAlloc,
}

func printAlloc(ctx context.Context, c *Call, a *structs.Allocation) error {
	c.pairs(
		"ID", a.ID,
		"Name", a.Name,
		"Job", fmt.Sprintf("%s, version %d", a.JobID, a.JobVersion),
		"Node", nodeName(c, a.NodeName, a.NodeID),
		"Evaluation", shortID(a.EvalID),
		"Desired", withDescription(a.DesiredStatus, a.DesiredDescription),
		"Status", a.ClientStatus,
		"Deployment", shortID(a.DeploymentID),
		"Health", rolloutHealth(a),
		"Description", a.ClientDescription,
		"Created", formatNanos(a.CreateTime),
		"Modified", formatNanos(a.ModifyTime),
		"Replaces", shortID(a.PreviousAllocation),
		"Replaced by", shortID(a.NextAllocation),
		"Preempted by", shortID(a.PreemptedByAllocation),
		"Preempted allocs", shortIDs(a.PreemptedAllocations),
	)
	printAllocHostVolumes(c, a)
	err := printAllocVolumes(ctx, c, a)
	if err != nil {
		return err
	}
	printAllocPorts(c, a.AllocatedResources)
	printAllocNetwork(c, a)
	printAllocDevices(c, a.AllocatedResources)
	for name, state := range sorted(a.TaskStates) {
		printTask(c, taskTitle(groupOf(a), name), state, a.ClientStatus)
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
		short = append(short, shortID(id))
	}
	return strings.Join(short, ", ")
}

func printAllocVolumes(ctx context.Context, c *Call, a *structs.Allocation) error {
	claims, err := allocClaims(ctx, c.API, a)
	if err != nil || len(claims) == 0 {
		return err
	}
	var rows grid
	for _, v := range claims {
		state, why := "none", ""
		switch {
		case v.missing:
			why = "there is no such volume"
		case v.claim != nil:
			state, why = v.claim.State, v.claim.Reason
		}
		if v.claim != nil &&
			a.ClientTerminal() &&
			state == structs.ClaimGranted {
			state = "granted, not released yet"
			why = whyHeld(v.claim)
		}
		rows.addRow(
			v.alias,
			v.volume,
			string(v.request.AccessMode),
			yesNo(v.request.ReadOnly),
			state,
			why,
		)
	}
	c.section("Volumes", "Alias|Volume|Access Mode|Read Only|Claim|Waits For", rows)
	return nil
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

func printTask(c *Call, title string, s *structs.TaskState, alloc string) {
	c.Printf("\n%s\n", title)
	state := s.State
	if s.Failed {
		state += ", failed"
	}
	if alloc == structs.AllocLost && s.State != structs.TaskDead {
		state = "unknown; it was " + s.State + " at the last heartbeat of its node"
	}
	c.pairs(
		"State", state,
		"Started", formatTime(s.StartedAt),
		"Finished", formatTime(s.FinishedAt),
		"Restarts", restartsText(s),
	)
	first := max(0, len(s.Events)-eventsShown)
	var rows grid
	for _, e := range slices.Backward(s.Events[first:]) {
		rows.addRow(age(e.Time), e.Type, eventText(e))
	}
	if len(rows) > 0 {
		c.table("Time|Event|Description", rows)
	}
}

func restartsText(s *structs.TaskState) string {
	if s.Restarts == 0 {
		return ""
	}
	return fmt.Sprintf("%d, the last %s", s.Restarts, ago(s.LastRestart))
}

// noShutdownDelay is the flag of the commands that stop allocations.
var noShutdownDelay = Flag{
	Name:  "no-shutdown-delay",
	Usage: "Skip the shutdown_delay of groups and tasks, also one that has begun",
}

func stopOptions(c *Call) api.AllocStopOptions {
	return api.AllocStopOptions{NoShutdownDelay: c.Bool(noShutdownDelay.Name)}
}

func allocStop(ctx context.Context, c *Call) error {
	id, err := c.resolve(ctx, "alloc", c.Arg(0))
	if err != nil {
		return err
	}
	answer, err := c.API.AllocStop(ctx, id, stopOptions(c))
	if err != nil {
		return err
	}
	return newWatch(c).follow(ctx, answer, answer.EvalID, func(ctx context.Context, w *watch) error {
		w.writeChange("request", "Allocation %s is stopping", shortID(id))
		return w.awaitAllocEnd(ctx, id)
	})
}

func showAllocChecks(ctx context.Context, c *Call) error {
	id, err := c.resolve(ctx, "alloc", c.Arg(0))
	if err != nil {
		return err
	}
	var checks map[string]*structs.CheckResult
	err = newWatch(c).await(ctx, nodeOfAlloc(id), seeAlloc(c, id), func() (err error) {
		checks, err = c.API.AllocChecks(ctx, id)
		return err
	})
	if err != nil {
		return err
	}
	return c.show(checks, func() error {
		var rows grid
		for _, check := range sorted(checks) {
			rows.addRow(check.Service, check.Task, check.Check, check.Status, check.Output)
		}
		if len(rows) == 0 {
			c.Printf("Allocation %s has no checks\n", shortID(id))
			return nil
		}
		c.table("Service|Task|Name|Status|Message", rows)
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
