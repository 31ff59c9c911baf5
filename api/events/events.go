// Package events has the route of the event stream, with the call of the client. The route reads events from
// any server again and again, each time after the last ones, so a slow client and a new leader cost no more
// than time. A line of the answer has the events of one log entry, or is {} to show that the stream is alive.
package events

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/internal/backoff"
	"berth/internal/fastjson"
	"berth/rpc"
	"berth/structs"
	"berth/structs/event"
)

// table has the routes of this area.
var table api.Table

// Routes returns the routes of this area.
func Routes() []*api.Route { return table.Routes() }

// heartbeat is the interval of the lines of an idle stream.
const heartbeat = 10 * time.Second

// firstWait is the wait for the first events. It is short, so that a client soon sees the status of its
// request. It is also the wait of a client that wants no more than the events that there are.
const firstWait = time.Millisecond

// outage bounds the time for which a stream waits for servers that cannot answer. pause is the least delay
// between two attempts.
const (
	outage = time.Minute
	pause  = 500 * time.Millisecond
)

// part is the size in bytes from which lines are sent. A client takes each part within the stall time of
// streams.
const part = 64 << 10

// headerMissed tells the log indexes of the events before a stream that the servers no longer have.
const headerMissed = "X-Berth-Events-Missed"

// Missed is the type of the event of the topic event.Stream that tells of a gap.
const Missed = "EventsMissed"

var route = table.Handle(api.Get, "/v1/event/stream", serve, api.Streams)

// sender sends the events of one request.
type sender struct {
	call     *api.Call
	req      event.ListRequest
	follows  bool      // beyond the events that there are
	tells    bool      // the client asks for events about the stream
	began    bool      // the status is sent
	release  func()    // gives the slot of the stream back
	answered time.Time // zero before the first answer
	lines    []byte
	headers  fastjson.Encoder
}

// serve sends events until the client goes, or has all that there are.
func serve(c *api.Call) (any, error) {
	s, err := bind(c)
	if err != nil {
		return nil, err
	}

	defer func() { s.release() }()
	return nil, s.run(c.Ctx())
}

// bind reads the parameters. index names the first log entry, as in the dialect: 0 is the oldest one
// that the servers have.
func bind(c *api.Call) (*sender, error) {
	index, err := strconv.ParseUint(cmp.Or(c.Param("index"), "0"), 10, 64)
	if err != nil {
		return nil, structs.Invalidf("the parameter index is %q, expected the index of a log entry",
			structs.Cut(c.Param("index"), structs.MaxQuoted))
	}

	topics := topicsOf(c.Params()["topic"])
	s := &sender{
		call:    c,
		follows: true,
		release: func() {},
		tells:   len(topics[event.All])+len(topics[event.Stream]) > 0,
		req: event.ListRequest{
			Topics: topics,
			After:  max(index, 1) - 1,
			QueryOptions: structs.QueryOptions{
				Region:     c.Param("region"),
				Namespace:  c.Param("namespace"),
				Filter:     c.Param("filter"),
				AuthToken:  c.Token(),
				AllowStale: true, // each server has the same events
				MaxWait:    firstWait,
			},
		},
	}
	if c.Param("follow") != "" {
		s.follows, err = c.Flag("follow")
	}
	return s, err
}

// topicsOf reads topics of the form Topic:Key or Topic. None is each topic. The servers check them.
func topicsOf(params []string) map[event.Topic][]string {
	topics := map[event.Topic][]string{}
	for _, p := range params {
		name, key, _ := strings.Cut(p, ":")
		t := event.Topic(name)
		topics[t] = append(topics[t], cmp.Or(key, event.AllKeys))
	}
	if len(params) == 0 {
		topics[event.All] = []string{event.AllKeys}
	}
	return topics
}

// run reads and sends until ctx ends, or all events are sent. An error before the first line has a status.
func (s *sender) run(ctx context.Context) error {
	for {
		req := s.req // the last one may still be in use
		resp, err := rpc.Call(ctx, s.call.Caller, event.List, &req)
		if err == nil && s.answered.IsZero() {
			// The caller has the right, so it holds a slot from now on.
			err = s.take()
		}
		if err != nil {
			err = s.waitOut(ctx, err)
			if err != nil {
				return err
			}
			continue
		}

		err = s.send(resp)
		if err != nil {
			return err
		}
		if !s.follows && len(resp.Events) == 0 {
			return nil
		}
		if s.follows {
			s.req.MaxWait = heartbeat
		}
	}
}

// take takes the slot of the stream.
func (s *sender) take() error {
	release, err := s.call.TakeStream()
	if err == nil {
		s.release = release
	}
	return err
}

// waitOut returns the error of servers that will not answer, and any error before the first answer. Otherwise
// it waits for the next attempt.
func (s *sender) waitOut(ctx context.Context, err error) error {
	passes := structs.IsKind(err, structs.KindUnavailable) || structs.IsKind(err, structs.KindTimeout)
	if !passes || time.Since(s.answered) > outage {
		return err
	}

	alive := s.write(nil)
	if alive != nil {
		return alive
	}
	if !backoff.Sleep(ctx, max(pause, structs.RetryAfter(err))) {
		return ctx.Err()
	}
	return nil
}

// send sends the lines of an answer.
func (s *sender) send(resp *event.ListResponse) error {
	s.answered = time.Now()
	s.req.After = resp.Next
	s.req.Skip = resp.NextSkip
	err := s.tellGap(resp.Missed)
	if err != nil {
		return err
	}

	for rest := resp.Events; len(rest) > 0; {
		n := sameIndex(rest)
		s.lines, err = appendLine(s.lines, rest[:n], &s.headers)
		if err != nil {
			return err
		}
		rest = rest[n:]
		if len(s.lines) >= part {
			err = s.flush()
			if err != nil {
				return err
			}
		}
	}
	return s.flush()
}

// tellGap tells the client which events it has missed. One that knows no such event learns it as from the
// dialect: not at all before the stream, and by the end of a stream that it did not read fast enough.
func (s *sender) tellGap(gap *event.Gap) error {
	switch {
	case gap == nil:
		return nil
	case s.tells:
		e, err := missed(gap)
		if err != nil {
			return err
		}
		s.lines, err = appendLine(s.lines, []*event.Event{e}, &s.headers)
		return err
	case s.began:
		return structs.Unavailablef("the servers no longer have the events %d to %d, which the client has not "+
			"read: read the state again, and the events from index %d", gap.From, gap.To, gap.To+1)
	}
	s.call.SetHeader(headerMissed, fmt.Sprintf("%d-%d", gap.From, gap.To))
	return nil
}

// missed returns the event of a gap.
func missed(gap *event.Gap) (*event.Event, error) {
	payload, err := json.Marshal(map[string]*event.Gap{"Missed": gap})
	if err != nil {
		return nil, structs.Internalf("encoding a gap: %w", err)
	}
	return &event.Event{
		Topic: event.Stream,
		Type:  Missed,
		Key:   Missed,
		Index: gap.To,
		Reason: fmt.Sprintf("the servers no longer have the events %d to %d: read the state again",
			gap.From, gap.To),
		Payload: payload,
	}, nil
}

// sameIndex returns how many events at the start of a list have the same index.
func sameIndex(list []*event.Event) int {
	n := 1
	for n < len(list) && list[n].Index == list[0].Index {
		n++
	}
	return n
}

// flush sends the lines, or the line of an idle stream.
func (s *sender) flush() error {
	lines := s.lines
	s.lines = s.lines[:0]
	return s.write(lines)
}

// write sends lines at once. Without any it sends the line of an idle stream.
func (s *sender) write(lines []byte) error {
	if !s.began {
		s.call.SetHeader("Content-Type", "application/json")
		s.began = true
	}
	if len(lines) == 0 {
		lines = []byte("{}\n")
	}
	_, err := s.call.Write(lines)
	return err
}
