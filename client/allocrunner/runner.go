package allocrunner

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner/lifecycle"
	"berth/client/allocrunner/taskdirs"
	"berth/client/allocrunner/taskrunner"
	"berth/client/hooks"
	"berth/client/mesh/services"
	"berth/client/store"
	"berth/structs"
)

// Deps are shared by all Runners of a node.
type Deps struct {
	Logger  hclog.Logger
	DB      *store.DB
	Dir     string // holds one directory per allocation
	Region  string
	Drivers taskrunner.Drivers
	Node    func() *structs.Node // the current row; the caller must not change it
	// DeniedUsers are the users that no task may run as.
	DeniedUsers []string
	// MaxKillTimeout bounds the kill_timeout of tasks; 0 is no bound.
	MaxKillTimeout time.Duration
	// AllocHooks and TaskHooks make an allocation's hooks and a task's, in the order of their Ups.
	AllocHooks func(env *hooks.AllocEnv) []hooks.Alloc
	TaskHooks  func(env *hooks.AllocEnv, task *structs.Task) []hooks.Task
	// ServersContacted is closed once the servers have sent the allocations of this node.
	ServersContacted <-chan struct{}
	// Consul keeps services in the Consul of the node. It is nil on a node that uses none.
	Consul services.Consul
	// LeaseEnded reports whether an allocation ends with the lease of the node. nil: none does.
	LeaseEnded func(allocID string) bool
	// Changed takes each new state of the allocation for the servers. It must not block.
	Changed func(*structs.AllocClientUpdate)
}

// Runner runs one allocation. Make it with New or Restore, then call Run once.
//
// Its locks are, in the order in which they are taken: notifying; the lock of recordKeeper or of a task's
// record. No callback is called with one of the last two.
type Runner struct {
	deps     Deps
	logger   hclog.Logger
	id       string
	dir      string
	env      *hooks.AllocEnv
	shared   *taskrunner.Shared // set up once, for its tasks
	hooks    *hooks.Sequence
	services *services.Set

	notifying sync.Mutex // held while Deps.Changed is called; before all other locks

	record *recordKeeper
	rounds *rounds
	health *healthWatch
	bound  *runBound

	orders    *lifecycle.Orders
	phases    *lifecycle.Phases
	destroy   chan struct{} // closed: the allocation is to be removed
	destroyed sync.Once
	wg        sync.WaitGroup
}

// New makes the runner of an allocation that is new to this node and records it. alloc has its Job. If
// anything of the allocation is left without a record, New salvages it.
func New(deps Deps, alloc *structs.Allocation) (*Runner, error) {
	return newRecorded(deps, alloc, Leftover(deps, alloc.ID))
}

func newRecorded(deps Deps, alloc *structs.Allocation, salvaged bool) (*Runner, error) {
	r, err := newRunner(deps, alloc)
	if err != nil {
		return nil, err
	}
	if salvaged {
		r.assumeBegun()
	}
	err = r.recordFirst()
	if err != nil {
		return nil, fmt.Errorf("recording allocation %s: %w", alloc.ID, err)
	}
	return r, nil
}

// recordFirst writes the first records of the allocation and its tasks in one step. They have all hooks, so
// that no other write precedes the Ups.
func (r *Runner) recordFirst() error {
	rec := &r.record.rec
	rec.Begun = r.hooks.RecordFirst()
	rec.Received = time.Now()
	changes := []store.Change{allocTable.Change(r.id, rec)}
	for _, t := range r.record.tasks {
		changes = append(changes, t.FirstRecord())
	}
	return r.deps.DB.Commit(changes...)
}

func newRunner(deps Deps, alloc *structs.Allocation) (*Runner, error) {
	if alloc.Job == nil ||
		alloc.Job.Group(alloc.TaskGroup) == nil {
		return nil, structs.Invalidf("allocation %s: its job has no group %q",
			alloc.ID, alloc.TaskGroup)
	}

	r := &Runner{
		deps:    deps,
		logger:  deps.Logger.With("alloc_id", alloc.ID),
		id:      alloc.ID,
		dir:     filepath.Join(deps.Dir, alloc.ID),
		phases:  lifecycle.NewPhases(),
		orders:  lifecycle.NewOrders(),
		destroy: make(chan struct{}),
	}
	group := alloc.Job.Group(alloc.TaskGroup)
	r.record = &recordKeeper{
		db:     deps.DB,
		id:     r.id,
		logger: r.logger,
		first:  group,
		rec:    allocRecord{Alloc: alloc},
		round:  lifecycle.NewRound(r.orders),
	}
	r.env = &hooks.AllocEnv{
		Alloc: alloc,
		Group: group,
		Dir:   r.dir,

		Running:  r.record.anyRunning,
		Expand:   func(text string) string { return r.shared.Expander()(text) },
		NearlyUp: func() { r.phases.Reach(lifecycle.NearlyUp) },
	}

	r.services = r.newServices()
	r.hooks = hooks.NewSequence(r.logger, r.record.saveBegun)
	for _, h := range deps.AllocHooks(r.env) {
		r.hooks.AddAlloc(h, r.env)
	}
	// The tasks call the rounds, so these are made first.
	r.addLoops()
	r.shared = r.share()
	for _, spec := range group.Tasks {
		t := taskrunner.NewTask(r.shared, r.record.round, spec)
		r.record.tasks = append(r.record.tasks, t)
	}
	return r, nil
}

// newServices makes the services of the allocation. r.shared is set before the first of them is offered.
func (r *Runner) newServices() *services.Set {
	return services.New(services.Config{
		Logger:  r.logger,
		Alloc:   r.Alloc,
		Group:   r.record.group,
		Node:    r.deps.Node,
		Network: func() *structs.AllocNetworkStatus { return r.shared.NetworkStatus() },
		Expand:  r.expandFor,
		Consul:  r.deps.Consul,
		Changed: r.notifyChanged,
	})
}

// addLoops makes the parts of the runner that run beside each other.
func (r *Runner) addLoops() {
	r.rounds = &rounds{
		record:   r.record,
		orders:   r.orders,
		services: r.services,
		notify:   r.notifyChanged,
		wg:       &r.wg,
	}
	r.health = &healthWatch{
		record:   r.record,
		orders:   r.orders,
		phases:   r.phases,
		services: r.services,
		logger:   r.logger,
		changed:  make(chan struct{}, 1),
		notify:   r.passOnState,
	}
	r.bound = &runBound{
		record:  r.record,
		orders:  r.orders,
		logger:  r.logger,
		updated: make(chan struct{}, 1),
	}
}

// share returns all that the tasks need of their node and of the runner.
func (r *Runner) share() *taskrunner.Shared {
	return &taskrunner.Shared{
		DB:               r.deps.DB,
		Drivers:          r.deps.Drivers,
		Node:             r.deps.Node,
		Region:           r.deps.Region,
		DeniedUsers:      r.deps.DeniedUsers,
		MaxKillTimeout:   r.deps.MaxKillTimeout,
		ServersContacted: r.deps.ServersContacted,
		Hooks:            r.deps.TaskHooks,
		LeaseEnded:       r.deps.LeaseEnded,

		Logger:   r.logger,
		AllocID:  r.id,
		Dir:      r.dir,
		Env:      r.env,
		Services: r.services,
		Orders:   r.orders,
		Phases:   r.phases,
		Alloc:    r.Alloc,
		Group:    r.record.group,
		Members:  r.record.members,

		Changed: r.taskChanged,
		Ended:   r.rounds.taskEnded,
	}
}

// taskChanged follows each change of the state of a task.
func (r *Runner) taskChanged() {
	r.rounds.openGates()
	r.notifyChanged()
}

// ID returns the allocation's ID.
func (r *Runner) ID() string { return r.id }

// Dir returns the allocation's directory.
func (r *Runner) Dir() string { return r.dir }

// Alloc returns the allocation as the servers last sent it, with its job.
func (r *Runner) Alloc() *structs.Allocation { return r.record.alloc() }

// Reached returns a channel that is closed once the allocation has reached a phase.
func (r *Runner) Reached(p lifecycle.Phase) <-chan struct{} { return r.phases.Reached(p) }

// Unwound is closed once every task is dead and every hook is down.
func (r *Runner) Unwound() <-chan struct{} { return r.Reached(lifecycle.Unwound) }

// TaskDead returns a channel that is closed once a task, "" for the first, is dead. The error is invalid if
// the allocation has no such task.
func (r *Runner) TaskDead(name string) (<-chan struct{}, error) {
	tasks, err := r.record.taskList().choose(r.id, name)
	if err != nil {
		return nil, err
	}
	return tasks[0].Dead(), nil
}

// Stopping reports whether the allocation is to stop: it starts no task any more.
func (r *Runner) Stopping() bool { return r.orders.Stopping.Err() != nil }

// Update applies a new version from the servers. It stops an allocation that they have stopped. The next end
// of a task has the new delays, signal and restart policy, and the next start anything else. With an error it
// has applied nothing.
func (r *Runner) Update(alloc *structs.Allocation) error {
	err := r.record.save(func(rec *allocRecord) {
		rec.Alloc = alloc
	})
	if err == nil && alloc.ServerTerminal() {
		r.stopAs(alloc)
	}
	if err == nil {
		r.rounds.stopAfterLeader()
	}
	r.services.Update()
	r.bound.note()
	r.health.note()
	return err
}

// stopAs stops an allocation as the servers have ordered.
func (r *Runner) stopAs(alloc *structs.Allocation) {
	if alloc.NoShutdownDelay {
		r.orders.SkipDelay()
	}
	r.Stop(stopReason(alloc))
}

func stopReason(alloc *structs.Allocation) string {
	return cmp.Or(alloc.DesiredDescription, "the allocation is no longer needed")
}

// notifyChanged passes the new state on for the servers. Several goroutines call it, and no older state
// follows a newer one.
func (r *Runner) notifyChanged() {
	r.passOnState()
	r.health.note()
}

func (r *Runner) passOnState() {
	r.notifying.Lock()
	defer r.notifying.Unlock()
	r.deps.Changed(r.ClientState())
}

// ClientState returns the state of the allocation for the servers.
func (r *Runner) ClientState() *structs.AllocClientUpdate {
	u := &structs.AllocClientUpdate{
		ID:         r.id,
		TaskStates: map[string]*structs.TaskState{},
		Services:   r.services.Instances(), // before the lock: it reads the allocation
	}

	for _, t := range r.record.taskList() {
		u.TaskStates[t.Name] = t.State()
	}

	u.NetworkStatus = r.shared.NetworkStatus()
	r.record.summarize(u)
	return u
}

// SetProgress sets the reason for which the set-up of the allocation waits, "" if it does not wait.
func (r *Runner) SetProgress(reason string) {
	if r.record.setProgress(reason) {
		r.notifyChanged()
	}
}

// Run runs the allocation until it is destroyed, or until ctx ends: then tasks are left running for the
// next agent.
func (r *Runner) Run(ctx context.Context) {
	// The deferred calls run from the last one to the first. So Ended follows the end of all goroutines and
	// checks.
	defer r.phases.Reach(lifecycle.Ended)
	defer r.services.Close()
	defer r.wg.Wait()
	watched, endWatch := context.WithCancel(ctx)
	defer endWatch()
	for _, t := range r.record.tasks {
		t.Reattach(ctx)
	}

	// A stop that the last agent has recorded is known before any task can start.
	r.resumeStop()
	r.rounds.resumeServices()
	r.phases.Reach(lifecycle.Attached)
	r.rounds.openGates()
	r.notifyChanged()
	r.wg.Go(func() { r.health.run(watched) })
	bounded, endBound := context.WithCancel(ctx)
	defer endBound()
	r.wg.Go(func() { r.bound.run(bounded) })
	r.wg.Go(func() { r.setUp(ctx) })
	awaitPoststop := r.rounds.startPoststop(ctx)
	r.rounds.run(ctx)
	if ctx.Err() == nil {
		r.phases.Reach(lifecycle.TasksDead)
	}

	awaitPoststop()
	endBound()
	r.orders.Stop(lifecycle.Cause{Reason: "every task has ended"}) // ends setUp
	<-r.Reached(lifecycle.SetUpOver)
	if ctx.Err() != nil || !r.hooks.DownUntilDone(ctx) {
		return
	}

	r.phases.Reach(lifecycle.Unwound)
	select {
	case <-r.destroy:
		hooks.Pace.Retry(ctx, r.logger, "failed to remove the allocation, retrying", r.remove)
	case <-ctx.Done():
	}
}

// remove removes the directory and the records.
func (r *Runner) remove(context.Context) error {
	if err := taskdirs.Remove(r.dir); err != nil {
		return err
	}
	return deleteRecords(r.deps.DB, r.Alloc())
}

// setUp sets up the allocation's hooks, or fails the allocation. While a task runs, it retries instead.
func (r *Runner) setUp(ctx context.Context) {
	defer r.phases.Reach(lifecycle.SetUpOver)
	halt := r.orders.Stopping
	if lifecycle.PoststopDue(r.record.members()) { // only after a restart of the agent
		halt = r.orders.Abandoned
		r.wg.Go(func() { r.boundSetUp(ctx) })
	}

	wanted, cancel := lifecycle.WhileWanted(ctx, halt)
	defer cancel()
	if lifecycle.AllDead(r.record.members()) || ctx.Err() != nil ||
		!r.awaitMaySetUp(wanted) {
		return
	}

	const failed = "failed to set up hooks, retrying"
	done := hooks.Pace.Retry(wanted, r.logger, failed, func(wanted context.Context) error {
		err := taskdirs.Make(r.dir, r.env.Group)
		if err == nil {
			err = r.hooks.Up(wanted)
		}

		if err != nil && wanted.Err() == nil &&
			ctx.Err() == nil && !r.record.anyRunning() {
			r.failSetup(err) // wanted has ended now
		}

		return err
	})

	// Otherwise the hooks are taken down, or the next agent continues.
	if done && wanted.Err() == nil && ctx.Err() == nil {
		r.rounds.openServices()
		r.phases.Reach(lifecycle.HooksUp)
		r.health.note()
	}
}

// awaitMaySetUp waits, for an allocation of a former agent without running tasks, until the servers have
// answered, because they may not want it any more.
func (r *Runner) awaitMaySetUp(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	if !r.shared.Restored || r.record.anyRunning() {
		return true
	}
	select {
	case <-r.deps.ServersContacted:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// failSetup ends an allocation whose hooks failed: every task fails with an event that gives the reason.
func (r *Runner) failSetup(err error) {
	r.logger.Error("failed to set up the allocation", "error", err)
	reason := "setting up the allocation failed: " + err.Error()
	r.record.saveFailure(failure{reason: reason})
	r.orders.GiveUp(lifecycle.Cause{Reason: reason, Event: structs.TaskEventSetupFailure, Failed: true})
}
