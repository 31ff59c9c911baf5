package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"berth/api/events"
	"berth/api/show"
	"berth/cli/command"
	"berth/internal/backoff"
	"berth/structs"
	"berth/structs/event"
)

const eventHelp = `
Shows the events that the servers still have: one line for each, with the
time at which this command got it, the index of its log entry, its topic,
its type, its key and the reason. With -f it then follows the events until
it is interrupted, over the loss of servers and agents. It says which events
it has missed. docs/events.md lists the topics.

-filter selects by the fields Topic, Type, Key, Namespace, FilterKeys, Index
and Reason. -json writes a line for each log entry, with the rows, and -t
shows each of these lines.`

// EventCommand shows the events of the cluster.
var EventCommand = command.Command{
	Name:     "events",
	Group:    command.GroupCluster,
	Synopsis: "Show what happens in the cluster, and follow it",
	Help:     eventHelp,
	Flags: []command.Flag{
		{Name: "f", Usage: "Follow the events until interrupted"},
		{
			Name:  "topic",
			Kind:  command.Strings,
			Value: "topic[:key]",
			Usage: "Only the events of a topic, such as Job or Job:web; may be repeated",
		},
		{Name: "filter", Kind: command.String, Value: "expr", Usage: "Only the events that an expression selects"},
		{
			Name:  "index",
			Kind:  command.Number,
			Value: "index",
			Usage: "Begin with the events of this log entry. Default: with the oldest ones",
		},
		command.VerboseFlag,
	},
	Renders: true,
	Run:     showEvents,
	Examples: "berth events\n" +
		"berth events -f -topic Job:web -topic Claim\n" +
		"berth events -f -namespace \"*\" -filter \"Type == NodeDrain\" -json",
}

// outage bounds the time for which the command waits for an agent that does not answer. pause is the delay
// between two attempts.
const (
	eventOutage = time.Minute
	eventPause  = time.Second
)

// eventReader reads events, and goes on where it was after a break.
type eventReader struct {
	call  *command.Call
	from  events.Options
	index uint64 // of the last event shown
	shown int    // events of this index that are shown
	alive time.Time
}

func showEvents(ctx context.Context, c *command.Call) error {
	r := &eventReader{
		call:  c,
		alive: time.Now(),
		from: events.Options{
			Topics:    eventTopics(c.Strings("topic")),
			Namespace: c.Namespace(),
			Filter:    c.String("filter"),
			Index:     uint64(c.Number("index")),
			Follow:    c.Bool("f"),
		},
	}

	told := false
	for {
		err := r.read(ctx)
		switch {
		case err == nil, r.from.Follow && errors.Is(ctx.Err(), context.Canceled):
			return nil
		case !r.from.Follow || !isPassing(err) || time.Since(r.alive) > eventOutage:
			return err
		case !told:
			fmt.Fprintf(c.Err, "waits for the agent: %s\n", err)
		}
		told = time.Since(r.alive) > eventPause
		if !backoff.Sleep(ctx, eventPause) {
			return nil
		}
	}
}

// eventTopics adds the topic of events about the stream, which tell what was missed.
func eventTopics(wanted []string) []string {
	if len(wanted) == 0 {
		return nil
	}
	return append(wanted, string(event.Stream))
}

// isPassing reports whether a fault may pass: another server, or a new agent, goes on.
func isPassing(err error) bool {
	return structs.IsKind(err, structs.KindUnavailable) || structs.IsKind(err, structs.KindTimeout)
}

// read shows the events of one stream. It returns nil once all are shown, and an error if the stream breaks.
func (r *eventReader) read(ctx context.Context) error {
	s, err := events.Open(ctx, r.call.API, r.from)
	if err != nil {
		return err
	}
	defer command.CloseRead(s)

	seen := r.shown // the stream begins with the events of the last index
	last := r.index
	for {
		line, err := s.Next()
		switch {
		case errors.Is(err, io.EOF) && r.from.Follow:
			return structs.Unavailablef("the agent has ended the stream of events")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}

		r.alive = time.Now()
		if line.Index == last {
			known := min(seen, len(line.Events))
			seen -= known
			line.Events = line.Events[known:]
		}
		err = r.show(line)
		if err != nil {
			return err
		}
	}
}

// show writes the events of a line, and notes where to go on.
func (r *eventReader) show(line *events.Line) error {
	if len(line.Events) == 0 {
		return nil
	}
	if line.Index != r.index {
		r.index = line.Index
		r.shown = 0
	}
	r.from.Index = r.index
	for _, e := range line.Events {
		if e.Topic != event.Stream {
			r.shown++
		}
	}
	if r.call.Bool("json") {
		return writeEventLine(r.call.Out, line)
	}
	return r.call.Show(line, func() error {
		for _, e := range line.Events {
			r.write(e)
		}
		return nil
	})
}

// uuidTopics has the topics whose keys are UUIDs. Users see and type their first characters.
var uuidTopics = []event.Topic{event.Node, event.Evaluation, event.Allocation, event.Deployment,
	event.ACLToken, event.ACLRole}

// write writes an event for users.
func (r *eventReader) write(e *events.Event) {
	name := e.Key
	if slices.Contains(uuidTopics, e.Topic) {
		name = r.call.ID(name)
	}
	if e.Namespace != "" && e.Namespace != structs.DefaultNamespace {
		name = e.Namespace + "/" + name
	}
	reason := ""
	if e.Reason != "" {
		reason = "  " + show.OneLine(e.Reason)
	}
	r.call.Printf("%s  %d  %-10s  %-22s  %s%s\n", show.Now().Local().Format(time.TimeOnly), e.Index, e.Topic,
		e.Type, name, reason)
}

// writeEventLine writes a line as the API sends it.
func writeEventLine(w io.Writer, line *events.Line) error {
	b, err := json.Marshal(line)
	if err != nil {
		return structs.Internalf("encoding a line: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}
