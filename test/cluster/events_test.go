package cluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/structs"
	"berth/structs/event"
	"berth/test/cluster"
)

// jobEvents reads the events of jobs at a server until one of a job comes. It returns the indexes and keys.
func jobEvents(
	c *cluster.Cluster, s *cluster.Server, at *event.ListRequest, last string,
) (found []string) {
	c.T.Helper()
	c.Await("the event of job "+last+" at "+s.Name, func() bool {
		req := &event.ListRequest{
			Topics:       map[event.Topic][]string{event.Job: {event.AllKeys}},
			After:        at.After,
			Skip:         at.Skip,
			QueryOptions: structs.QueryOptions{AllowStale: true, MaxWait: 100 * time.Millisecond},
		}
		resp, err := callWithin(s, 10*time.Second, event.List, req)
		if err != nil {
			return false
		}
		if resp.Missed != nil {
			c.T.Errorf("%s tells of the gap %v after index %d", s.Name, resp.Missed, at.After)
		}
		at.After = resp.Next
		at.Skip = resp.NextSkip
		for _, e := range resp.Events {
			if e.Type == "JobRegistered" {
				found = append(found, fmt.Sprintf("%d %s", e.Index, e.Key))
			}
		}
		return slices.ContainsFunc(resp.Events, func(e *event.Event) bool { return e.Key == last })
	})
	return found
}

// A reader goes from server to server with the index that it has reached, also when the leader is killed and
// when a server restarts. It gets each event once and in order, and misses none.
func TestEvents_ContinueAtAnotherServer(t *testing.T) {
	c := cluster.New(t, 3)
	at := &event.ListRequest{}
	var found, jobs []string
	register := func(id string) {
		c.AtLeader("registering "+id, func(s *cluster.Server) error {
			_, err := callWithin(s, 10*time.Second, structs.JobRegister, jobRequest(id))
			return err
		})
		jobs = append(jobs, id)
	}

	for n, s := range c.Servers {
		register(fmt.Sprint("a", n))
		found = append(found, jobEvents(c, s, at, jobs[len(jobs)-1])...)
	}
	old := c.Leader()
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	for n, s := range c.Others(old) {
		register(fmt.Sprint("b", n))
		found = append(found, jobEvents(c, s, at, jobs[len(jobs)-1])...)
	}
	c.Restart(old)
	register("c")
	found = append(found, jobEvents(c, old, at, "c")...)

	// The whole stream of each server is the same. A write that was sent twice has two events.
	var whole []string
	for _, s := range c.Servers {
		list := jobEvents(c, s, &event.ListRequest{}, "c")
		if whole == nil {
			whole = list
		}
		if !slices.Equal(list, whole) {
			t.Errorf("%s has the events %v, another server %v", s.Name, list, whole)
		}
	}
	if !slices.Equal(found, whole) {
		t.Errorf("the reader got %v, want %v", found, whole)
	}
	for _, id := range jobs {
		if !slices.ContainsFunc(whole, func(e string) bool { return e[len(e)-len(id):] == id }) {
			t.Errorf("job %s has no event: %v", id, whole)
		}
	}
}
