// Package external is a task driver that runs as a process of its own: an external driver plugin. It passes
// the calls of the agent on, and hides that the process may end: tasks outlive it, and the next process
// takes them up again by their handles. While no process runs, calls are unavailable, and Wait waits on. A
// call to a process that hangs has a bound, except for Wait.
//
// The plugin writes the output of a task into two named pipes. A helper process, which outlives the agent and
// the plugin, keeps it in files of bounded size, as for the drivers that are built in.
package external

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/catalog"
	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	protocol "berth/client/drivers/protocol/driver"
	"berth/client/store"
	"berth/structs"
)

// Tests shorten the times.
var (
	// callTimeout bounds a call that takes no time in a healthy plugin.
	callTimeout = 10 * time.Second
	// probeInterval is the time between two questions whether a plugin answers.
	probeInterval = 5 * time.Second
	// reportTimeout is the time after which a plugin that has not reported its health counts as unhealthy.
	// A node waits longer for its first registration.
	reportTimeout = 30 * time.Second
)

// Config has the parts of the agent that a driver needs.
type Config struct {
	Catalog *catalog.Catalog
	Records *store.DB
	Version string // of the plugin, an attribute of the node; "" if it is not known
	Node    Node
	MHz     int // of the node, over all cores
	Logs    Logs
	Users   UserRange
	// Chroot maps paths of the host to the paths at which a task sees them, read-only, if its driver makes a
	// root of the directory of the task.
	Chroot map[string]string
	// Covers returns mounts over the paths below Chroot's that a task must not see. nil hides nothing.
	Covers func() ([]driver.Mount, error)
	// Events takes the events of tasks. It must not block.
	Events func(driver.TaskEvent)
}

// Node names the node in the configuration of a task.
type Node struct{ ID, Name string }

// Driver is one external driver plugin. Run must be running.
type Driver struct {
	name       string
	cfg        Config
	logger     hclog.Logger
	supervisor catalog.Supervisor
	machine    *cgroups.Machine
	starts     sync.WaitGroup // the calls that start tasks

	// report is set by Run before anything calls it, and does not change.
	report func(*structs.DriverInfo)

	mu      sync.Mutex                   // guards the fields below
	process *process                     // nil: no process runs
	can     *protocol.DriverCapabilities // of the last process: it answers while none runs, too
	changed chan struct{}                // closed at the next change of process
	info    *structs.DriverInfo          // the last report, nil before the first
	tasks   map[string]*task             // by ID: started or recovered, until Destroy
	// unanswered are the starts of tasks without an answer of the plugin, by ID, until Destroy.
	unanswered map[string]*start
}

// process is a running process of the plugin.
type process struct {
	service protocol.DriverClient
	schema  *catalog.Schema
	can     *protocol.DriverCapabilities
}

// New makes the driver of the plugin with that name.
func New(name string, cfg Config, logger hclog.Logger) *Driver {
	d := &Driver{
		name:       name,
		cfg:        cfg,
		machine:    cgroups.Detect(),
		logger:     logger.Named(name),
		changed:    make(chan struct{}),
		tasks:      map[string]*task{},
		unanswered: map[string]*start{},
	}

	d.supervisor = catalog.Supervisor{
		Catalog: cfg.Catalog,
		Records: cfg.Records,
		Name:    name,
		// Tasks of a driver that has no helpers of its own would end with its process (ADR 26).
		Outlives: true,
		Session:  d.session,
		Failed:   d.fail,
	}
	return d
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return d.name }

// HostPaths reports whether tasks see the paths of the host, because the driver gives them no root. It is not
// known before the first process of the plugin runs.
func (d *Driver) HostPaths() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.can != nil && seesHost(d.can)
}

// Fingerprint implements driver.Driver: the last report. Run passes each of them on.
func (d *Driver) Fingerprint(context.Context) *structs.DriverInfo {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.info == nil {
		return &structs.DriverInfo{HealthDescription: "the driver plugin has not reported yet"}
	}
	return d.info
}

// Run keeps a process of the plugin running until ctx ends, and reports each change of its health. The
// process itself runs on after that.
func (d *Driver) Run(ctx context.Context, report func(*structs.DriverInfo)) {
	d.report = report
	d.supervisor.Run(ctx)
	d.setProcess(nil)
	// A start ends with the connection, which the supervisor has closed.
	d.starts.Wait()
}

// session uses one process.
func (d *Driver) session(ctx context.Context, running *catalog.Process) error {
	p, err := readProcess(ctx, protocol.NewDriverClient(running.Conn()))
	if err != nil {
		return err
	}
	d.setProcess(p)
	defer d.setProcess(nil)
	// All three end with ctx, which the supervisor ends with the process. A plugin that closes a stream does
	// not end the session: the stream is opened again.
	h := &health{publish: d.setInfo, began: time.Now()}
	var all sync.WaitGroup
	all.Go(func() { d.followEvents(ctx, p.service) })
	all.Go(func() { probe(ctx, p.service, h) })
	err = d.followFingerprints(ctx, p.service, h)
	all.Wait()
	return err
}

// readProcess reads all that does not change while the process runs.
func readProcess(ctx context.Context, service protocol.DriverClient) (*process, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	announced, err := service.TaskConfigSchema(ctx, &protocol.TaskConfigSchemaRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking for the schema of tasks: %w", err)
	}
	parsed, err := catalog.ParseSchema(announced.GetSpec())
	if err != nil {
		return nil, err
	}
	answer, err := service.Capabilities(ctx, &protocol.CapabilitiesRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking for its capabilities: %w", err)
	}
	return &process{service: service, schema: parsed, can: answer.GetCapabilities()}, nil
}

// setProcess makes p the process that calls go to, nil for none.
func (d *Driver) setProcess(p *process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.process = p
	if p != nil {
		d.can = p.can
	}

	// All that wait in await look again. Those that come later wait for the next change.
	close(d.changed)
	d.changed = make(chan struct{})
}

// fail reports a plugin that has no process.
func (d *Driver) fail(err error) {
	d.setInfo(unhealthy("the driver plugin does not run: %v", err))
}

// setInfo keeps a report for Fingerprint and passes it on. The callers keep the order of reports.
func (d *Driver) setInfo(info *structs.DriverInfo) {
	d.mu.Lock()
	d.info = info
	d.mu.Unlock()
	// The lock is not held: report is the manager's, and may call the driver.
	d.report(info)
}

// current returns the process that runs now. It is unavailable if there is none.
func (d *Driver) current() (*process, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process == nil {
		return nil, structs.Unavailablef("the driver plugin %q does not run now", d.name)
	}
	return d.process, nil
}

// await returns the process when there is one.
func (d *Driver) await(ctx context.Context) (*process, error) {
	for {
		d.mu.Lock()
		p := d.process
		changed := d.changed
		d.mu.Unlock()
		if p != nil {
			return p, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Validate implements driver.Driver. Without a process the schema is not known, and the start decides.
func (d *Driver) Validate(config map[string]any) error {
	p, err := d.current()
	if err != nil {
		return nil
	}
	return p.schema.Check(config)
}

// errEnded is the reason for a stream that the plugin has closed.
var errEnded = errors.New("the plugin has closed the stream")
