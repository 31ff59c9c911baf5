package allocs

import (
	"cmp"
	"context"
	"io"
	"net/url"
	"strconv"

	"berth/api"
	"berth/internal/allocdir"
	"berth/internal/logfile"
	"berth/structs/access"
)

var allocLogs = api.NewEndpoint[[]byte](&table, api.Get, "/v1/client/fs/logs/{id}",
	serveLogs, api.Streams, api.Needs(access.NeedsReadLogs))

// serveLogs streams the log of a task as JSON frames, the format of the dialect, or as bytes (plain). Only
// the agent that runs the allocation serves it. Another agent forwards the request.
func serveLogs(c *api.Call) (any, error) {
	o, plain, err := bindLogs(c)
	if err != nil {
		return nil, err
	}

	dir, err := c.Agent.LogFiles(c.ID(), o.Task, o.Kind)
	if err != nil {
		// The agent of another node answers with the same code.
		return nil, c.ForwardIfFar(err)
	}

	o.Dir = dir.Path
	o.Ended = dir.Ended
	return nil, c.Stream(api.Stream{
		Name:  o.Task + "." + o.Kind,
		Plain: plain,
		Open: func(ctx context.Context) (api.Parts, error) {
			log, err := logfile.Open(ctx, o)
			return &logSource{ReadCloser: log}, err
		},
	})
}

// logSource is a log as a source. Its offsets count from where the stream begins. The files of a log rotate,
// so an offset in one of them would mean nothing.
type logSource struct {
	io.ReadCloser
	offset int64
}

func (s *logSource) Next(p []byte) (allocdir.Part, error) {
	n, err := s.Read(p)
	s.offset += int64(n)
	return allocdir.Part{Data: p[:n], Offset: s.offset}, err
}

// bindLogs reads the options of a log except its directory. plain asks for bytes instead of frames.
func bindLogs(c *api.Call) (o logfile.Options, plain bool, err error) {
	o.Task = c.Param("task")
	o.Kind = c.Param("type")
	if o.Task == "" {
		return o, false, api.BadParam("task", "", "the name of a task")
	}

	if o.Kind != logfile.Stdout && o.Kind != logfile.Stderr {
		return o, false, api.BadParam("type", o.Kind, "stdout or stderr")
	}

	place, err := bindPlace(c)
	if err != nil {
		return o, false, err
	}

	o.Origin = logfile.FromStart
	if place.FromEnd {
		o.Origin = logfile.FromEnd
	}

	o.Offset = place.Offset
	o.Lines = place.Lines
	var faults [2]error
	o.Follow, faults[0] = c.Flag("follow")
	plain, faults[1] = c.Flag("plain")
	return o, plain, cmp.Or(faults[:]...)
}

// LogOptions select a log and a position in it. Offset counts bytes from the start, or back from the end with
// FromEnd. If Lines is above 0, it is the number of last lines to begin with, in place of Offset.
type LogOptions struct {
	Task    string
	Stderr  bool
	Follow  bool
	FromEnd bool
	Offset  int64
	Lines   int64
}

// Logs streams the log of a task as bytes. With Follow it ends with the task. The caller closes the
// stream.
func Logs(ctx context.Context, c *api.Client, id string, o LogOptions) (
	io.ReadCloser, error,
) {
	kind := "stdout"
	if o.Stderr {
		kind = "stderr"
	}
	query := url.Values{
		"task":   {o.Task},
		"type":   {kind},
		"plain":  {"true"},
		"follow": {strconv.FormatBool(o.Follow)},
	}
	setPlace(query, o.FromEnd, o.Offset, o.Lines)
	return openBody(allocLogs.Open(ctx, c, api.Request{ID: id, Query: query}))
}
