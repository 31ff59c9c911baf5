// Package drivertest has what the tests of a node run in the place of a driver: a driver whose tasks are
// entries in a Machine, which outlives the drivers (and so the agents) that use it, as a kernel outlives
// processes; and an external Plugin, whose tasks are processes, or which has devices. It also makes the
// directories of an allocation (Tree).
package drivertest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"berth/client/drivers/driver"
	"berth/structs"
)

// Machine is where fake tasks run.
type Machine struct {
	mu        sync.Mutex
	tasks     map[string]*Task
	followers map[string]func(*structs.TaskEvent)
	log       []string
	// Before, if set, is called before the driver acts, After after it has; the point is "start <task id>",
	// "prepare ...", "stop ...", "destroy ..." or "recover ...". An error from Before is the call's.
	Before func(point string) error
	After  func(point string)
	// Usage, if set, answers Stats of a task that the driver holds.
	Usage func(ctx context.Context, id string) (*driver.Stats, error)
	// Command, if set, is each command in a task that runs.
	Command func(ctx context.Context, id string, x *driver.ExecConfig) (*driver.ExitResult, error)
}

// Task is one fake task. Its fields may be read while nothing runs concurrently.
type Task struct {
	Config  driver.TaskConfig
	Starts  int // how often it was started
	Signal  string
	Timeout time.Duration
	Result  *driver.ExitResult // nil while it runs
	held    bool               // the driver has not destroyed it
	waits   bool               // it is prepared and not started
	known   bool               // this agent's driver holds it
	ended   chan struct{}      // closed at its end; each start makes a new one
}

// NewMachine makes a machine on which nothing runs.
func NewMachine() *Machine {
	return &Machine{
		tasks:     map[string]*Task{},
		followers: map[string]func(*structs.TaskEvent){},
	}
}

// Clone returns another machine in the same state, whose driver has no tasks: the state after an agent was
// killed.
func (m *Machine) Clone() *Machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := NewMachine()
	for id, t := range m.tasks {
		d := *t
		d.known = false
		// The end in one machine is none in the other, so they share no channel.
		d.ended = make(chan struct{})
		if d.Result != nil {
			close(d.ended)
		}
		c.tasks[id] = &d
	}
	return c
}

// Forget drops the driver's tasks, as when the agent was killed.
func (m *Machine) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.tasks {
		t.known = false
	}
}

// Reboot ends every task and loses how it ended.
func (m *Machine) Reboot() {
	m.mu.Lock()
	defer m.mu.Unlock()
	// A wait of a driver that is left from before does not end: its agent is gone, too.
	m.tasks = map[string]*Task{}
}

// Exit ends a running task.
func (m *Machine) Exit(id string, res driver.ExitResult) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endTask(id, res)
}

// TryExit is Exit for a task that may have ended. It reports whether it had not.
func (m *Machine) TryExit(id string, res driver.ExitResult) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tasks[id]
	if t == nil || t.Result != nil || t.waits {
		return false
	}
	m.endTask(id, res)
	return true
}

// endTask ends a task. A test that ends one twice is wrong, so it panics.
func (m *Machine) endTask(id string, res driver.ExitResult) {
	t := m.tasks[id]
	if t == nil || t.Result != nil {
		panic("no running task " + id)
	}

	t.Result = &res
	close(t.ended)
}

// Task returns a copy of a task that the machine has ever run, the zero value if there is none.
func (m *Machine) Task(id string) Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.tasks[id]; t != nil {
		return *t
	}
	return Task{}
}

// Running lists the tasks that run, in order.
func (m *Machine) Running() []string {
	return m.listTasks(func(t *Task) bool { return t.held && !t.waits && t.Result == nil })
}

// Held lists the tasks that were not destroyed, in order.
func (m *Machine) Held() []string { return m.listTasks(func(t *Task) bool { return t.held }) }

func (m *Machine) listTasks(want func(*Task) bool) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m.tasks)),
		func(id string) bool { return !want(m.tasks[id]) })
}

// Log returns the actions in order.
func (m *Machine) Log() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.log)
}

// Driver is the machine's driver under a name. It implements driver.Driver.
type Driver struct {
	Machine *Machine
	Named   string
}

// Set finds drivers by name; each name that is not in it is invalid.
type Set map[string]driver.Driver

// Driver implements the agent's Drivers.
func (s Set) Driver(name string) (driver.Driver, error) {
	if d, ok := s[name]; ok {
		return d, nil
	}
	return nil, structs.Invalidf("there is no task driver %q", name)
}

// FollowTask implements the agent's Drivers. Machine.Emit sends events.
func (s Set) FollowTask(allocID, task string, handle func(*structs.TaskEvent)) (stop func()) {
	id := allocID + "/" + task
	var stops []func()
	for _, d := range s {
		if fake, ok := d.(*Driver); ok {
			stops = append(stops, fake.Machine.follow(id, handle))
		}
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// follow sends the events of a task to handle. A task has one follower at a time.
func (m *Machine) follow(id string, handle func(*structs.TaskEvent)) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.followers[id] = handle
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.followers, id)
	}
}

// Emit sends an event of a task. It reports false if no agent follows the task.
func (m *Machine) Emit(id string, e *structs.TaskEvent) bool {
	m.mu.Lock()
	handle := m.followers[id]
	m.mu.Unlock()
	if handle == nil {
		return false
	}

	// Without the lock: the agent may call the driver while it handles the event.
	handle(e)
	return true
}

// Drivers is the set with one driver "fake".
func (m *Machine) Drivers() Set { return Set{"fake": &Driver{m, "fake"}} }

// logCall logs an action and does it under the lock. A point after which the agent is killed is in Before or
// After.
func (m *Machine) logCall(verb, id string, act func() error) error {
	point := verb + " " + id
	// Before and After run without the lock, because tests use the machine in them.
	if m.Before != nil {
		if err := m.Before(point); err != nil {
			return err
		}
	}

	m.mu.Lock()
	m.log = append(m.log, point)
	err := act()
	m.mu.Unlock()

	if m.After != nil {
		m.After(point)
	}
	return err
}

// notFound is the error of a task that the driver does not hold.
func notFound(id string) error {
	return structs.NotFoundf("no task %s", id)
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return d.Named }

// Fingerprint implements driver.Driver.
func (d *Driver) Fingerprint(context.Context) *structs.DriverInfo {
	return &structs.DriverInfo{Detected: true, Healthy: true}
}

// Validate rejects a config with a key "invalid".
func (d *Driver) Validate(config map[string]any) error {
	if _, bad := config["invalid"]; bad {
		return structs.Invalidf("config.invalid: no such field")
	}
	return nil
}

// Prepare implements driver.Preparer.
func (d *Driver) Prepare(ctx context.Context, cfg *driver.TaskConfig) error {
	return d.Machine.logCall("prepare", cfg.ID, func() error {
		t := d.Machine.add(cfg.ID)
		if t.held {
			return structs.Conflictf("task %s is started twice", cfg.ID)
		}

		t.held = true
		t.waits = true
		return ctx.Err()
	})
}

// add returns the task of an ID, a new one if the machine has never had it.
func (m *Machine) add(id string) *Task {
	if m.tasks[id] == nil {
		m.tasks[id] = &Task{}
	}
	return m.tasks[id]
}

// Start implements driver.Driver. It reports the start of a task that was not destroyed, which is a fault.
func (d *Driver) Start(ctx context.Context, cfg *driver.TaskConfig) (*driver.Handle, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	err := d.Machine.logCall("start", cfg.ID, func() error {
		t := d.Machine.add(cfg.ID)
		if t.held && !t.waits {
			return structs.Conflictf("task %s is started twice", cfg.ID)
		}

		t.Config = *cfg
		t.Result = nil
		t.held = true
		t.waits = false
		t.known = true
		t.ended = make(chan struct{})
		t.Starts++
		return nil
	})
	if err != nil {
		return nil, err
	}

	return &driver.Handle{Driver: d.Named, TaskID: cfg.ID, PID: 1, State: []byte("fake")}, nil
}

// Recover implements driver.Driver.
func (d *Driver) Recover(_ context.Context, h *driver.Handle) error {
	return d.Machine.logCall("recover", h.TaskID, func() error {
		t := d.Machine.tasks[h.TaskID]
		if t == nil || !t.held {
			return notFound(h.TaskID)
		}

		// A prepared task has no program yet, so it ended with its agent.
		if t.waits {
			t.held = false
			t.waits = false
			return notFound(h.TaskID)
		}

		t.known = true
		return nil
	})
}

// findKnown finds a task that this agent's driver holds; the channel is closed when it has ended.
func (m *Machine) findKnown(id string) (ended <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tasks[id]
	if t == nil || !t.known {
		return nil, notFound(id)
	}
	return t.ended, nil
}

// Wait implements driver.Driver.
func (d *Driver) Wait(ctx context.Context, id string) (*driver.ExitResult, error) {
	ended, err := d.Machine.findKnown(id)
	if err != nil {
		return nil, err
	}
	select {
	case <-ended:
		return d.Machine.Task(id).Result, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Stop implements driver.Driver: the task ends at once, by the signal.
func (d *Driver) Stop(_ context.Context, id, signal string, timeout time.Duration) error {
	return d.Machine.logCall("stop", id, func() error {
		t := d.Machine.tasks[id]
		if t == nil || !t.known {
			return notFound(id)
		}

		t.Signal, t.Timeout = signal, timeout
		if t.Result == nil {
			d.Machine.endTask(id, driver.ExitResult{Signal: 15})
		}
		return nil
	})
}

// Signal implements driver.Driver.
func (d *Driver) Signal(_ context.Context, id, signal string) error {
	return d.Machine.logCall("signal "+signal, id, func() error {
		if t := d.Machine.tasks[id]; t == nil || !t.known {
			return notFound(id)
		}
		return nil
	})
}

// Destroy implements driver.Driver. It finds a task that no driver holds by its ID.
func (d *Driver) Destroy(_ context.Context, id string, _ *driver.Handle) error {
	return d.Machine.logCall("destroy", id, func() error {
		t := d.Machine.tasks[id]
		if t == nil {
			return nil
		}

		// A prepared task has no channel to close.
		if t.Result == nil && t.Starts > 0 && !t.waits {
			d.Machine.endTask(id, driver.ExitResult{Signal: 9})
		}

		t.held, t.known = false, false
		t.waits = false
		return nil
	})
}

// Stats implements driver.Driver.
func (d *Driver) Stats(ctx context.Context, id string) (*driver.Stats, error) {
	if _, err := d.Machine.findKnown(id); err != nil {
		return nil, err
	}
	if d.Machine.Usage != nil {
		return d.Machine.Usage(ctx, id)
	}
	return &driver.Stats{CollectedAt: time.Now().UnixNano()}, nil
}

// Exec implements driver.Execer.
func (d *Driver) Exec(ctx context.Context, id string, x *driver.ExecConfig) (*driver.ExitResult, error) {
	if _, err := d.Machine.findKnown(id); err != nil {
		return nil, err
	}
	if d.Machine.Command != nil {
		return d.Machine.Command(ctx, id, x)
	}
	return &driver.ExitResult{}, nil
}

// String names the machine's tasks and their states, for messages of tests.
func (m *Machine) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("%d tasks: %v", len(m.tasks), m.log)
}
