package events

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strconv"

	"berth/api"
	"berth/structs"
)

// maxLine bounds a line in bytes. An answer of a server has 1 MiB and the rest of one event.
const maxLine = 64 << 20

// Options select events.
type Options struct {
	Topics    []string // Topic or Topic:KEY; none: all
	Namespace string   // "": the client's; "*": all
	Filter    string   // an expression over the fields of Header, "" for all
	Index     uint64   // of the first log entry; 0: the oldest one that the servers have
	Follow    bool     // beyond the events that there are
}

// Stream is a stream of events from an agent. One goroutine uses it.
type Stream struct {
	body  io.ReadCloser
	lines *bufio.Scanner
}

// Open opens a stream. Its errors come from the agent: invalid for a topic or filter that is wrong, denied
// for a topic that the caller may not read. The caller closes the stream, or ends its context.
func Open(ctx context.Context, c *api.Client, o Options) (*Stream, error) {
	query := url.Values{
		"topic":  o.Topics,
		"index":  {strconv.FormatUint(o.Index, 10)},
		"follow": {strconv.FormatBool(o.Follow)},
	}
	for name, value := range map[string]string{"filter": o.Filter, "namespace": o.Namespace} {
		if value != "" {
			query.Set(name, value)
		}
	}

	resp, err := api.Raw(ctx, c, route, api.Request{Query: query})
	if err != nil {
		return nil, err
	}
	s := &Stream{body: resp.Body, lines: bufio.NewScanner(resp.Body)}
	s.lines.Buffer(nil, maxLine)
	return s, nil
}

// Next returns the next line with events. At the end of the stream the error is io.EOF, and unavailable if it
// broke off.
func (s *Stream) Next() (*Line, error) {
	for s.lines.Scan() {
		var line Line
		err := json.Unmarshal(s.lines.Bytes(), &line)
		if err != nil {
			return nil, structs.Internalf("the agent has sent a line that is no line of events: %w", err)
		}
		if len(line.Events) > 0 {
			return &line, nil
		}
	}
	err := s.lines.Err()
	if err != nil {
		return nil, structs.Unavailablef("the stream of events broke off: %w", err)
	}
	return nil, io.EOF
}

// Close ends the stream.
func (s *Stream) Close() error { return s.body.Close() }
