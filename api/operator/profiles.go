package operator

import (
	"context"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/api"
	"berth/internal/backoff"
	"berth/structs"
	"berth/structs/access"
)

// maxProfileSeconds bounds the time of a profile: a trace is about a megabyte in a second.
const maxProfileSeconds = 120

// maxProfile bounds the bytes that the client reads of a profile.
const maxProfile = 1 << 30

var _ = table.Handle(api.Get, "/v1/agent/pprof/{id}", serveProfile,
	api.Needs(access.NeedsAgentWrite), api.Streams)

// serveProfile sends a profile of the process of an agent: of its processors ("profile"), a trace ("trace"),
// the command line ("cmdline"), or a profile that the runtime keeps.
func serveProfile(c *api.Call) (any, error) {
	seconds, err := number(c, "seconds", 1)
	if err != nil {
		return nil, err
	}
	seconds = max(seconds, 1)
	if seconds > maxProfileSeconds {
		return nil, structs.Invalidf("the parameter seconds is %d, expected at most %d", seconds, maxProfileSeconds)
	}

	return at(c, func(api.AgentPlace) (any, error) {
		err := allowDebug(c)
		if err != nil {
			return nil, err
		}
		during := time.Duration(seconds) * time.Second
		switch c.ID() {
		case "profile":
			return nil, record(c, during, pprof.StartCPUProfile, pprof.StopCPUProfile)
		case "trace":
			return nil, record(c, during, trace.Start, trace.Stop)
		case "cmdline":
			return nil, writeText(c, strings.Join(os.Args, "\x00"))
		}
		return nil, lookUp(c)
	})
}

// number reads a parameter that is a number of at least 0.
func number(c *api.Call, name string, otherwise int) (int, error) {
	text := c.Param(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, structs.Invalidf("the parameter %s is %q, expected a number that is not negative",
			name, structs.Cut(text, structs.MaxQuoted))
	}
	return n, nil
}

// record sends a profile of the time until the duration is over or the client goes. A process has one of each
// kind at a time.
func record(c *api.Call, during time.Duration, start func(io.Writer) error, stop func()) error {
	release, err := c.TakeStream()
	if err != nil {
		return err
	}
	defer release()

	c.SetHeader("Content-Type", "application/octet-stream")
	to := &sharedWriter{call: c}
	err = start(to)
	if err != nil {
		return structs.Unavailablef("%w; end the other profile, or repeat this later", err)
	}
	// The status goes first: a forwarding agent waits for it for a bounded time.
	_, err = to.Write(nil)
	backoff.Sleep(c.Ctx(), during)
	stop()
	return err
}

// sharedWriter passes the bytes of a profile to the client. The runtime writes a trace in a goroutine of its
// own, beside the one of the request.
type sharedWriter struct {
	mu   sync.Mutex
	call *api.Call
}

func (w *sharedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.call.Write(p)
}

// lookUp sends one of the profiles that the runtime keeps.
func lookUp(c *api.Call) error {
	debug, err := number(c, "debug", 0)
	if err != nil {
		return err
	}
	collect, err := number(c, "gc", 0)
	if err != nil {
		return err
	}
	p := pprof.Lookup(c.ID())
	if p == nil {
		names := []string{"cmdline", "profile", "trace"}
		for _, known := range pprof.Profiles() {
			names = append(names, known.Name())
		}
		return structs.NotFoundf("there is no profile %q, only %s",
			structs.Cut(c.ID(), structs.MaxQuoted), strings.Join(names, ", "))
	}
	if collect > 0 && c.ID() == "heap" {
		runtime.GC()
	}

	c.SetHeader("Content-Type", "application/octet-stream")
	if debug > 0 {
		c.SetHeader("Content-Type", "text/plain; charset=utf-8")
	}
	c.SetHeader("X-Content-Type-Options", "nosniff")
	return p.WriteTo(c, debug)
}

func writeText(c *api.Call, text string) error {
	c.SetHeader("Content-Type", "text/plain; charset=utf-8")
	c.SetHeader("X-Content-Type-Options", "nosniff")
	_, err := io.WriteString(c, text)
	return err
}

// ProfileOptions select a profile.
type ProfileOptions struct {
	Target  Target
	Name    string // profile, trace, cmdline, or a profile that the runtime keeps, such as heap
	Seconds int    // of "profile" and "trace"
}

// Profile writes a profile of the process of an agent to w.
func Profile(ctx context.Context, c *api.Client, o ProfileOptions, w io.Writer) error {
	query := o.Target.values()
	query.Set("seconds", strconv.Itoa(o.Seconds))
	to := &api.Route{Methods: http.MethodGet, Path: "/v1/agent/pprof/" + o.Name}
	resp, err := api.Raw(ctx, c, to, api.Request{Query: query})
	if err != nil {
		return err
	}
	_, err = io.Copy(w, io.LimitReader(resp.Body, maxProfile))
	_ = resp.Body.Close() // it was read
	if err != nil {
		return structs.Unavailablef("the profile %s is incomplete: %w", o.Name, err)
	}
	return nil
}
