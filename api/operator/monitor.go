package operator

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/internal/agentlog"
	"berth/structs"
	"berth/structs/access"
)

// heartbeat is the interval of the empty frames of an idle stream.
const heartbeat = 10 * time.Second

// logsSince is the age of the oldest log file that is sent if the request names no other, as in the dialect.
const logsSince = 72 * time.Hour

// frame is a part of a log, in the shape of the dialect. One without a field shows that the stream is alive.
type frame struct {
	Data []byte `json:",omitempty"`
}

var monitor = table.Handle(api.Get, "/v1/agent/monitor", serveMonitor,
	api.Needs(access.NeedsAgentRead), api.Streams)

// serveMonitor sends the lines of the log from now on, until the client goes.
func serveMonitor(c *api.Call) (any, error) {
	var o agentlog.TapOptions
	level := c.Param("log_level")
	o.Level = hclog.Info
	if level != "" {
		o.Level = hclog.LevelFromString(level)
	}
	if o.Level == hclog.NoLevel || o.Level == hclog.Off {
		return nil, structs.Invalidf("the parameter log_level is %q, expected trace, debug, info, warn or error",
			structs.Cut(level, structs.MaxQuoted))
	}
	var err error
	o.JSON, err = c.Flag("log_json")
	if err != nil {
		return nil, err
	}

	public := o.Level >= hclog.Info
	err = allowLog(c, public)
	if err != nil {
		return nil, err
	}
	return at(c, func(api.AgentPlace) (any, error) {
		err := allowLog(c, public)
		if err != nil {
			return nil, err
		}
		tap, err := c.Agent.Tap(o)
		if err != nil {
			return nil, err
		}
		defer tap.Close()
		return nil, send(c, func(ctx context.Context) ([]byte, error) { return tap.Next(ctx, heartbeat), nil })
	})
}

var export = table.Handle(api.Get, "/v1/agent/monitor/export", serveExport,
	api.Needs(access.NeedsAgentRead), api.Streams)

// serveExport sends the log files of an agent, the oldest one first.
func serveExport(c *api.Call) (any, error) {
	if name := c.Param("service_name"); name != "" {
		return nil, structs.Invalidf("the journal of %q is read on its machine: journalctl -u NAME; "+
			"without service_name this is the log file", structs.Cut(name, structs.MaxQuoted))
	}
	age := logsSince
	if text := c.Param("logs_since"); text != "" {
		var err error
		age, err = time.ParseDuration(text)
		if err != nil || age < 0 {
			return nil, structs.Invalidf("the parameter logs_since is %q, expected a duration such as 72h",
				structs.Cut(text, structs.MaxQuoted))
		}
	}

	err := allowLog(c, false)
	if err != nil {
		return nil, err
	}
	return at(c, func(api.AgentPlace) (any, error) {
		err := allowLog(c, false)
		if err != nil {
			return nil, err
		}
		paths, err := c.Agent.OwnLogFiles(time.Now().Add(-age))
		if err != nil {
			return nil, err
		}
		files := &fileParts{paths: paths, buffer: make([]byte, 64<<10)}
		defer files.close()
		return nil, send(c, files.next)
	})
}

// send sends parts until ctx ends or next returns io.EOF: frames, or with ?plain bytes. An empty part is a
// heartbeat.
func send(c *api.Call, next func(ctx context.Context) ([]byte, error)) error {
	plain, err := c.Flag("plain")
	if err != nil {
		return err
	}
	release, err := c.TakeStream()
	if err != nil {
		return err
	}
	defer release()

	write := func(part []byte) error { return json.NewEncoder(c).Encode(frame{Data: part}) }
	contentType := "application/json"
	if plain {
		write = func(part []byte) error {
			_, err := c.Write(part)
			return err
		}
		contentType = "text/plain; charset=utf-8"
	}
	c.SetHeader("Content-Type", contentType)
	c.SetHeader("X-Content-Type-Options", "nosniff")

	err = write(nil) // the status, before the first line
	for err == nil && c.Ctx().Err() == nil {
		var part []byte
		part, err = next(c.Ctx())
		if err == nil {
			err = write(part)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return errors.Join(err, api.LostRight(c.Ctx()))
}

// fileParts has the parts of several files, each as long as it is when it is opened. A file that was deleted
// meanwhile is left out.
type fileParts struct {
	paths  []string
	open   *os.File
	rest   io.Reader
	buffer []byte
}

func (f *fileParts) next(context.Context) ([]byte, error) {
	for {
		if f.open == nil && len(f.paths) == 0 {
			return nil, io.EOF
		}
		if f.open == nil {
			err := f.openNext()
			if err != nil {
				return nil, err
			}
			continue
		}

		n, err := f.rest.Read(f.buffer)
		if n > 0 {
			return f.buffer[:n], nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, structs.Internalf("reading a log file: %w", err)
		}
		f.close()
	}
}

// openNext opens the next file, if it is still there.
func (f *fileParts) openNext() error {
	path := f.paths[0]
	f.paths = f.paths[1:]
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return structs.Internalf("opening a log file: %w", err)
	}
	f.open = file
	info, err := file.Stat()
	if err != nil {
		return structs.Internalf("opening a log file: %w", err)
	}
	f.rest = io.LimitReader(file, info.Size())
	return nil
}

func (f *fileParts) close() {
	if f.open != nil {
		_ = f.open.Close() // it was only read
		f.open = nil
	}
}

// MonitorOptions select the lines of a log.
type MonitorOptions struct {
	Level string // trace, debug, info, warn or error; "": info
	JSON  bool   // one object a line
}

// Monitor follows the log of an agent as bytes, until ctx ends. The caller closes the stream.
func Monitor(ctx context.Context, c *api.Client, t Target, o MonitorOptions) (io.ReadCloser, error) {
	query := t.values()
	query.Set("plain", "true")
	query.Set("log_json", strconv.FormatBool(o.JSON))
	if o.Level != "" {
		query.Set("log_level", o.Level)
	}
	return openPlain(ctx, c, monitor, query)
}

// Export reads the log files of an agent that have changed within an age, as bytes. The caller closes the
// stream.
func Export(ctx context.Context, c *api.Client, t Target, age time.Duration) (io.ReadCloser, error) {
	query := t.values()
	query.Set("plain", "true")
	query.Set("on_disk", "true")
	query.Set("logs_since", age.String())
	return openPlain(ctx, c, export, query)
}

func openPlain(ctx context.Context, c *api.Client, to *api.Route, query url.Values) (io.ReadCloser, error) {
	resp, err := api.Raw(ctx, c, to, api.Request{Query: query})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
