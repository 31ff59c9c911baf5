package job

import (
	"berth/api/jobs"
	"cmp"
	"context"
	"fmt"
	"time"

	"berth/api/show"
	"berth/cli/command"
	"berth/structs"
)

// scalingEventsCommand is the verb scaling-events of berth job.
var scalingEventsCommand = command.Command{
	Name:     "scaling-events",
	Args:     "<job>",
	Synopsis: "List the requests that scaled the groups of a job",
	Help: `
Lists the newest 20 events of each group: changes of its count, and what an
autoscaler told about it. With -verbose also the messages and evaluations.`,
	Renders: true,
	Flags:   []command.Flag{command.VerboseFlag},
	Run:     jobScalingEvents,
	Examples: "berth job scaling-events web\n" +
		"berth job scaling-events -verbose web",
}

// groupScaling is an event with its group.
type groupScaling struct {
	Group string
	*structs.ScalingEvent
}

var scalingEventSheet = command.Sheet[groupScaling]{
	Titles: "Task Group|Count|PrevCount|Date",
	Row: func(_ *command.Call, e groupScaling) []string {
		return []string{e.Group, scalingCountText(e.Count), fmt.Sprint(e.PreviousCount), scalingEventTime(e)}
	},
	Order: newestScaling,
}

var verboseScalingEventSheet = command.Sheet[groupScaling]{
	Titles: "Task Group|Count|PrevCount|Error|Message|Eval ID|Date",
	Row: func(_ *command.Call, e groupScaling) []string {
		eval := ""
		if e.EvalID != nil {
			eval = *e.EvalID
		}
		return []string{
			e.Group,
			scalingCountText(e.Count),
			fmt.Sprint(e.PreviousCount),
			fmt.Sprint(e.Error),
			e.Message,
			eval,
			scalingEventTime(e),
		}
	},
	Order: newestScaling,
}

func newestScaling(a, b groupScaling) int {
	return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Group, b.Group))
}

func scalingEventTime(e groupScaling) string { return show.Time(time.Unix(0, e.Time)) }

// scalingCountText is empty for an event without a count.
func scalingCountText(n *int64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

// jobScalingEvents shows the events of all groups of a job in one list.
func jobScalingEvents(ctx context.Context, c *command.Call) error {
	id, err := c.Resolve(ctx, "job", c.Arg(0))
	if err != nil {
		return err
	}

	status, err := jobs.ScaleStatus(ctx, c.API, id)
	if err != nil {
		return err
	}

	var all []groupScaling
	for name, group := range status.TaskGroups {
		for _, e := range group.Events {
			all = append(all, groupScaling{name, e})
		}
	}

	if c.Bool("verbose") {
		return verboseScalingEventSheet.List(c, "scaling event", all)
	}

	return scalingEventSheet.List(c, "scaling event", all)
}
