// Package docker is the task driver that runs containers with a docker daemon of this machine. A container
// outlives the agent; it outlives the daemon, too, if the daemon's live-restore is on. Otherwise it ends with
// the daemon, and the end of the task says so.
//
// A container sees its task's directories as /alloc, /local and /secrets. It has the name <task>-<allocation>
// and labels with which the driver finds it again without any record. A helper process beside each container
// copies its output from the daemon to the task's log files: see package follow.
//
// Every call of the daemon is bounded in time. A daemon that is away makes the driver unhealthy: no task is
// placed. Tasks that are to start wait until the daemon is back, and the driver keeps waiting for the running
// ones.
package docker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/docker/engine"
	"berth/client/drivers/docker/images"
	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/driver"
	"berth/client/drivers/executor"
	"berth/client/machine/netns"
	"berth/structs"
)

// Name is the driver's name in jobs.
const Name = "docker"

// Options are the parts of the agent that the driver needs.
type Options struct {
	// Dir has the records of the helper processes. It must not change while tasks run.
	Dir string
	// Command runs executor.Main with the duty follow.Arg, and Supervisor the supervisors (see
	// executor.Config).
	Command    []string
	Supervisor []string
	// Pause runs netns.PauseMain in a container without files: a static program. nil is Supervisor, or Command.
	Pause  []string
	NodeID string
	// NodeName is shown in the labels of containers.
	NodeName string
	// MHz is the node's, over all cores. A hard limit of a task's processor time is a share of them.
	MHz int
	// Events takes the messages about tasks. It must not block. It may be nil.
	Events func(driver.TaskEvent)
	Logger hclog.Logger
}

// Driver implements driver.Driver. Run must be running.
type Driver struct {
	placedDaemon
	// The settings have their defaults.
	cfg     taskconfig.Settings
	options Options
	logger  hclog.Logger
	engine  *engine.Engine
	images  *images.Coordinator
	output  outputs
	// The channel has a buffer of one: a failed call notes a doubt and never waits.
	doubtful chan struct{} // a call has found that the daemon is away

	pauses *pauses

	tasks      *taskSet
	runtimes   *runtimes
	containers *containers

	// The lock guards the two fields below: each look at the daemon writes them, the ends of tasks read them.
	mu          sync.Mutex
	detected    bool // a daemon has answered once
	liveRestore bool // of the last daemon that answered
}

// New makes the driver. It does not connect to the daemon.
func New(cfg taskconfig.Settings, o Options) *Driver {
	helpers := executor.Config{
		Dir:        filepath.Join(o.Dir, "output"),
		Command:    o.Command,
		Supervisor: o.Supervisor,
	}
	d := newDriver(cfg, o)
	d.output = &helperProcesses{
		tasks:     executor.NewTasks("docker-output", helpers, executor.DefaultCgroupConfig()),
		endpoint:  d.cfg.Endpoint,
		positions: filepath.Join(o.Dir, "positions"),
	}
	return d
}

// newDriver makes the driver without its outputs, which tests replace.
func newDriver(cfg taskconfig.Settings, o Options) *Driver {
	cfg = cfg.WithDefaults()
	if o.Pause == nil {
		run := o.Supervisor
		if run == nil {
			run = o.Command
		}

		o.Pause = append(slices.Clone(run), netns.PauseArg)
	}

	e := engine.New(cfg.Endpoint)
	logger := o.Logger.Named(Name)
	d := &Driver{
		cfg:      cfg,
		options:  o,
		logger:   logger,
		engine:   e,
		doubtful: make(chan struct{}, 1),
		tasks:    newTaskSet(),
		images: images.New(images.Config{
			Engine:          e,
			Remove:          cfg.GC.Image,
			Delay:           cfg.GC.ImageDelay,
			ActivityTimeout: cfg.PullActivityTimeout,
			Logger:          logger,
		}),
	}
	d.containers = &containers{
		cfg:     cfg,
		options: &d.options,
		hosts:   hostFiles{filepath.Join(o.Dir, "hosts")},
	}
	d.runtimes = &runtimes{
		engine:  e,
		allowed: cfg.AllowRuntimes,
		emit:    d.emit,
	}
	d.pauses = &pauses{
		engine:  e,
		options: &d.options,
		tasks:   d.tasks,
		logger:  logger,
	}
	return d
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return Name }

// Validate implements driver.Driver. Start checks what the node allows: it depends on the rest of the task,
// too.
func (d *Driver) Validate(config map[string]any) error {
	_, err := taskconfig.Check(config)
	return err
}

// emit sends a message about a task.
func (d *Driver) emit(id, format string, args ...any) {
	if d.options.Events == nil {
		return
	}
	allocID, name := splitID(id)
	d.options.Events(driver.TaskEvent{
		AllocID: allocID,
		Task:    name,
		// A text of the daemon has no bound of its own.
		Message: structs.Cut(fmt.Sprintf(format, args...), structs.MaxText),
		Time:    time.Now(),
	})
}

// noteFailure makes Run look at the daemon now if a call has found it away.
func (d *Driver) noteFailure(err error) {
	if !structs.IsKind(err, structs.KindUnavailable) {
		return
	}
	select {
	case d.doubtful <- struct{}{}:
	default: // a look is pending already
	}
}

// isGone reports whether an error means that a container does not exist.
func isGone(err error) bool { return structs.IsKind(err, structs.KindNotFound) }

// withoutNotFound drops errors of things that are gone.
func withoutNotFound(errs ...error) error {
	for i, err := range errs {
		if isGone(err) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

// cleanupTimeout bounds the removal of the remains of a failed start. The task's next start or its end
// removes what is left then.
var cleanupTimeout = 10 * time.Second

// detached returns a context for clean-up, which the end of ctx does not cut short.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
}
