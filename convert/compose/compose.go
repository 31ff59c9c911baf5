package compose

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"berth/client/drivers/docker/taskconfig"
	"berth/convert/jobfile"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate"
)

// Options are the choices of the user.
type Options struct {
	Class string   // of the volumes
	Size  int64    // of each volume, in bytes
	Env   []string // NAME=value: for variables in the compose file outside of environments
}

// DefaultClass and DefaultSize count for volumes of which the compose file says neither.
const (
	DefaultClass = "default"
	DefaultSize  = 10 << 30 // bytes
)

// Result is a job file.
type Result struct {
	Job  *structs.Job
	Text []byte
	// Notes say which parts of the compose file the job does not have, and what is to do.
	Notes []string
}

// Convert makes a job file of a compose file. filename is its path, next to which its other files are. An
// error is of kind invalid.
func Convert(ctx context.Context, filename string, src []byte, o Options) (*Result, error) {
	c := &converter{
		Options: o,
		notes:   jobfile.Notes{},
		inside:  map[string]int{},
		groupOf: map[string]string{},
		items:   map[string]bool{},
	}
	err := c.load(ctx, filename, src)
	if err != nil {
		return nil, err
	}

	c.job = &structs.Job{ID: c.project.Name}
	c.findPorts()
	for _, members := range c.groups() {
		c.job.TaskGroups = append(c.job.TaskGroups, c.group(members))
	}
	c.wholeFile()
	text, err := jobfile.Job(c.job, c.notes)
	if err != nil {
		return nil, err
	}

	// The text has the job as it is written here, and this completes it for its reader.
	defaults.Canonicalize(c.job)
	err = validate.Job(c.job)
	if err != nil {
		return nil, structs.Invalidf("%s: the job of it has faults; correct the compose file: %w", filename, err)
	}
	return &Result{Job: c.job, Text: text, Notes: c.report}, nil
}

// converter converts one compose file.
type converter struct {
	Options
	project *types.Project
	written map[string]map[string]string // the environments before interpolation, by service
	job     *structs.Job
	notes   jobfile.Notes
	report  []string
	inside  map[string]int    // the port in the container by which others reach a service
	groupOf map[string]string // by service
	items   map[string]bool   // of the variable that the tasks read
	volumes bool              // a volume is asked for
}

// note adds a comment at a place of the job file (see jobfile.Notes), and a line of the report.
func (c *converter) note(place, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if slices.Contains(c.notes[place], text) {
		return
	}
	c.notes[place] = append(c.notes[place], text)
	if place != "" {
		text = place + ": " + text
	}
	c.report = append(c.report, text)
}

// lost notes a part of a service that the job does not have.
func (c *converter) lost(place, name, remedy string) {
	c.note(place, "not carried: %s: %s", name, remedy)
}

// group converts the services of one group.
func (c *converter) group(members []string) *structs.TaskGroup {
	g := &structs.TaskGroup{Name: c.groupOf[members[0]], Count: 1}
	c.count(g, members)
	for _, name := range members {
		s := c.project.Services[name]
		place := g.Name + "/" + name
		t := &structs.Task{Name: name, Driver: "docker", Config: map[string]any{}}
		g.Tasks = append(g.Tasks, t)
		c.prestart(g, t, &s)
		c.deploy(g, &s)
		c.image(place, t, &s)
		c.settings(place, t, &s)
		c.resources(place, t, &s)
		c.restart(place, t, &s)
		c.network(g, t, &s)
		c.environment(place, t, &s)
		c.mounts(g, t, &s)
		c.files(place, t, &s)
		c.dependencies(place, &s)
		c.leftOver(place, &s)
		_, err := taskconfig.Check(t.Config)
		if err != nil {
			c.note(place, "the docker driver rejects this: %v", err)
		}
	}
	return g
}

// wholeFile adds the notes on the file as a whole, before all others.
func (c *converter) wholeFile() {
	if len(c.items) > 0 {
		var words []string
		for _, name := range slices.Sorted(maps.Keys(c.items)) {
			words = append(words, name+"=@FILE")
		}
		c.note("", "The tasks read a variable. Write it before: berth var put %s %s", c.variable(),
			strings.Join(words, " "))
	}
	if c.volumes {
		c.note("", "The volumes need the class %q, see `berth volume class list`. A new volume is empty: docker "+
			"copies the files of the image into it, berth does not.", c.Class)
	}
	for name := range c.project.DisabledServices {
		c.note("", "not carried: the service %s: it has a profile; make a file without profiles", name)
	}
}

// variable is the path of the variable of the job.
func (c *converter) variable() string { return "nomad/jobs/" + c.job.ID }
