// Package debug has the command that packs into one archive what an expert needs to understand a cluster:
// its state, the logs and the profiles of its agents. It keeps only the fields of answers that a list allows
// (see captures.go), so the archive may leave the house.
package debug

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"berth/api/show"
	"berth/cli/command"
	"berth/internal/backoff"
	"berth/internal/version"
	"berth/structs"
)

const help = `
Writes an archive with the state of the cluster at each interval, the logs of
agents during the time, their hosts, and their profiles if the token may have
them. The archive has only fields that a list in the program allows: no
variables, no environment, no templates, no configuration of tasks, no
metadata, no parameters and no texts of plugins and drivers. Logs name jobs,
volumes and machines: read them before you pass the archive on.

A part that an agent does not give is left out, and index.json has the reason.
The rights are node: read, agent: read, operator: read, plugin: read and, of
namespaces, list-jobs, read-job and csi-read-volume. Profiles need
agent: write.`

// The bounds of the options.
const (
	maxDuration = 24 * time.Hour
	minInterval = time.Second
)

// Command is berth operator debug.
var Command = command.Command{
	Name:     "debug",
	Synopsis: "Write an archive for experts, without secrets",
	Help:     help,
	Acts:     true,
	Flags: []command.Flag{
		{Name: "duration", Kind: command.Duration, Value: "time", Default: "2m", Usage: "How long to capture logs"},
		{
			Name:    "interval",
			Kind:    command.Duration,
			Value:   "time",
			Default: "30s",
			Usage:   "The time between two captures of the state",
		},
		{
			Name:    "log-level",
			Kind:    command.String,
			Value:   "level",
			Default: "debug",
			Usage:   "The level of the captured logs",
		},
		{
			Name:    "node-id",
			Kind:    command.String,
			Value:   "nodes",
			Default: "all",
			Usage:   "The nodes, comma-separated IDs or names; none: no nodes",
		},
		{Name: "node-class", Kind: command.String, Value: "class", Usage: "Only nodes of this class"},
		{
			Name:    "max-nodes",
			Kind:    command.Number,
			Value:   "number",
			Default: "10",
			Usage:   "The most nodes; 0 is no bound",
		},
		{
			Name:    "server-id",
			Kind:    command.String,
			Value:   "servers",
			Default: "all",
			Usage:   "The servers, comma-separated names or IDs, or leader; none: no servers",
		},
		{
			Name:    "pprof-duration",
			Kind:    command.Duration,
			Value:   "time",
			Default: "1s",
			Usage:   "The time of the profiles of processors; 0s: no profiles",
		},
		{
			Name:  "output",
			Kind:  command.String,
			Value: "dir",
			Usage: "Write a directory below this one, and no archive",
		},
	},
	Run: run,
	Examples: "berth operator debug\n" +
		"berth operator debug -duration 10s -interval 10s -node-id n1,n2",
}

// collector writes the files of one run. Its methods are safe for concurrent use.
type collector struct {
	call  *command.Call
	dir   string
	began time.Time

	dirs map[string]bool // of the agents

	mu    sync.Mutex
	index index
}

// index is the file index.json: it says how the archive was made, and which parts it lacks.
type index struct {
	Version string
	Begin   time.Time
	End     time.Time
	Options map[string]string
	Files   []string
	Missing map[string]string // the reasons, by the file
}

func run(ctx context.Context, c *command.Call) error {
	duration := c.Duration("duration")
	interval := c.Duration("interval")
	switch {
	case duration < minInterval || duration > maxDuration:
		return command.BadUsage("-duration is %s; expected %s to %s", duration, minInterval, maxDuration)
	case interval < minInterval || interval > duration:
		return command.BadUsage("-interval is %s; expected %s to the duration, %s", interval, minInterval, duration)
	}

	d, err := newCollector(c)
	if err != nil {
		return err
	}
	agents, err := d.agents(ctx)
	if err != nil {
		return errors.Join(err, os.Remove(d.dir)) // it is empty
	}
	c.Printf("captures the state and %d agents for %s\n", len(agents), duration)
	d.collect(ctx, agents, duration, interval)
	if ctx.Err() != nil {
		c.Printf("interrupted: the capture ends early\n")
	}
	path, err := d.finish(c.String("output") == "")
	if err != nil {
		return err
	}
	return c.Report(command.Changed{"File": path}, "wrote %s", path)
}

// newCollector makes the directory of a run. It is of this user alone.
func newCollector(c *command.Call) (*collector, error) {
	now := show.Now()
	d := &collector{call: c, began: now, dirs: map[string]bool{}}
	d.index = index{
		Version: version.Version,
		Begin:   now.UTC(),
		Options: map[string]string{},
		Missing: map[string]string{},
	}
	for _, f := range c.Command.Flags {
		d.index.Options[f.Name] = c.String(f.Name)
	}

	parent := c.String("output")
	if parent == "" {
		parent = "."
	}
	d.dir = filepath.Join(parent, "berth-debug-"+now.UTC().Format("2006-01-02-150405Z"))
	err := os.Mkdir(d.dir, 0o700)
	if err != nil {
		return nil, structs.Preconditionf("-output: %w", err)
	}
	return d, nil
}

// collect captures the state at each interval, and all agents meanwhile, until the duration is over or ctx
// ends.
func (d *collector) collect(ctx context.Context, agents []agent, duration, interval time.Duration) {
	during, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	var captures sync.WaitGroup
	for _, a := range agents {
		captures.Go(func() { d.captureLog(during, a) })
	}
	captures.Go(func() {
		for _, a := range agents { // one after the other: a profile costs its agent time
			d.captureAgent(ctx, a)
		}
	})
	for n := 0; during.Err() == nil; n++ {
		d.captureState(ctx, fmt.Sprintf("%04d", n))
		if !backoff.Sleep(during, interval) {
			break
		}
	}
	captures.Wait()
}

// missing notes the reason that the archive lacks a file. The error is of an agent and names no secret; it is
// cut, because it may quote much.
func (d *collector) missing(file string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.index.Missing[file] = string(structs.KindOf(err)) + ": " + structs.Printable(structs.Cut(err.Error(), 300))
}

// has notes a file.
func (d *collector) has(file string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.index.Files = append(d.index.Files, file)
}

// create makes a file of the archive, with its directory.
func (d *collector) create(name string) (*os.File, error) {
	path := filepath.Join(d.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// ownDir returns a directory of an agent that no other one has: names of servers may differ in a character
// that no file name has.
func (d *collector) ownDir(of, name string) string {
	dir := filepath.Join(of, name)
	for n := 2; d.dirs[dir]; n++ {
		dir = filepath.Join(of, fmt.Sprintf("%s-%d", name, n))
	}
	d.dirs[dir] = true
	return dir
}

// fileName returns a part of a path for a name that users choose.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, structs.Cut(name, structs.MaxQuoted))
}
