package interop

import (
	"context"
	"strings"
	"testing"

	public "github.com/hashicorp/nomad/api"
)

// eventsUntil reads a stream until done is true of an event.
func eventsUntil(t *testing.T, events <-chan *public.Events, done func(e *public.Event) bool) {
	t.Helper()
	for line := range events {
		if line.Err != nil {
			t.Fatalf("the stream ends with %v", line.Err)
		}
		for n := range line.Events {
			if line.Events[n].Index != line.Index {
				t.Errorf("the line %d has an event of the index %d", line.Index, line.Events[n].Index)
			}
			if done(&line.Events[n]) {
				return
			}
		}
	}
	t.Fatalf("the event is not in the stream within %s", patience)
}

// decoded has the IDs of the rows that the client has read in the events of a stream.
type decoded struct{ job, eval, alloc, deployment, node string }

// add reads the row of an event. It returns false for one that the client does not read.
func (d *decoded) add(t *testing.T, e *public.Event) {
	t.Helper()
	id := ""
	var err error
	switch e.Topic {
	case public.TopicJob:
		job, failed := e.Job()
		err = failed
		if err == nil {
			id = *job.ID
			d.job = id
		}
	case public.TopicEvaluation:
		eval, failed := e.Evaluation()
		err = failed
		if err == nil {
			id = eval.ID
			d.eval = id
		}
	case public.TopicAllocation:
		alloc, failed := e.Allocation()
		err = failed
		if err == nil {
			id = alloc.ID
			d.alloc = id
		}
	case public.TopicDeployment:
		deployment, failed := e.Deployment()
		err = failed
		if err == nil {
			id = deployment.ID
			d.deployment = id
		}
	case public.TopicNode:
		node, failed := e.Node()
		err = failed
		if err == nil {
			id = node.ID
			d.node = id
		}
	default:
		return
	}
	if err != nil || id != e.Key {
		t.Errorf("the client reads %q (%v) in the event %s %s of %q", id, err, e.Topic, e.Type, e.Key)
	}
}

// TestClient_StreamsEvents runs a job while the unmodified client reads the stream of an agent, drains its
// node, and reads the stream again from the middle.
func TestClient_StreamsEvents(t *testing.T) {
	t.Parallel()
	c := connectToAgent(t)
	node := awaitReadyNode(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	events, err := c.EventStream().Stream(ctx, nil, 0, nil)
	if err != nil {
		t.Fatal(err)
	}

	job := quickJob("interop-events", "sleep 600")
	alloc := runJob(t, c, job)
	var seen decoded
	registered := uint64(0)
	eventsUntil(t, events, func(e *public.Event) bool {
		seen.add(t, e)
		if e.Topic == public.TopicJob && e.Key == *job.ID && e.Type == "JobRegistered" && registered == 0 {
			registered = e.Index
		}
		return e.Topic == public.TopicAllocation && e.Key == alloc.ID && e.Type == "AllocationUpdated" &&
			seen.deployment != "" && seen.node != ""
	})
	want := decoded{*job.ID, seen.eval, alloc.ID, seen.deployment, node.ID}
	if seen != want || seen.eval == "" {
		t.Errorf("the client has read %+v, want %+v", seen, want)
	}

	topics := map[public.Topic][]string{public.TopicJob: {*job.ID}}
	again, err := c.EventStream().Stream(ctx, topics, registered, nil)
	if err != nil {
		t.Fatal(err)
	}
	first := <-again
	if first.Err != nil || first.Index != registered || first.Events[0].Key != *job.ID {
		t.Errorf("a stream from the index %d begins with %+v", registered, first)
	}

	_, err = c.EventStream().Stream(ctx, map[public.Topic][]string{"Jib": {"*"}}, 0, nil)
	if err == nil || !strings.Contains(err.Error(), `there is no topic "Jib"`) {
		t.Errorf("an unknown topic: %v", err)
	}

	drained, err := c.Nodes().UpdateDrain(node.ID, &public.DrainSpec{IgnoreSystemJobs: true}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	eventsUntil(t, events, func(e *public.Event) bool {
		return e.Type == "NodeDrain" && e.Index >= drained.EvalCreateIndex
	})
	_, err = c.Nodes().UpdateDrain(node.ID, nil, true, nil)
	checkNoError(t, "the end of the drain", err)
}
