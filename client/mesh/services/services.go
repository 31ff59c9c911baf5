// Package services offers the services of an allocation while its tasks run, and runs their checks. The
// servers get the instances with the other state of the allocation.
package services

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/consul"
	"berth/consul/mesh"
	"berth/structs"
	"berth/structs/validate/report"
)

// Consul keeps services in the Consul of the node. consul.Syncer has the contracts. None of the methods waits
// for Consul.
type Consul interface {
	Put(owner string, services []*consul.Service)
	Beat(checkID, status, output string)
	Check(checkID string) (consul.CheckState, bool)
	Follow() (release func())
}

// Config is the surrounding of a Set.
type Config struct {
	Logger hclog.Logger
	// Alloc returns the allocation as the servers last sent it, Group its task group, and Node the row of the
	// node. The caller must not change them.
	Alloc func() *structs.Allocation
	Group func() *structs.TaskGroup
	Node  func() *structs.Node
	// Network returns the allocation's network, nil if it has none of its own.
	Network func() *structs.AllocNetworkStatus
	// Expand returns the function that replaces the placeholders in the texts of a service of a task, ""
	// for the group.
	Expand func(task string) func(string) string
	// Consul has the services with that provider. It is nil on a node that uses none.
	Consul Consul
	// Changed is called after each change of the instances, of the state of a check, or of the answer of
	// HealthySince. It must not block.
	Changed func()
}

// Set has the services of one allocation. A service of a task is offered while the task runs. A service of
// the group is offered from the time when all main tasks run until none does. No service of a task that is
// about to stop is offered. A service of the group that has a proxy is offered between Open and Shut: its
// proxy starts before the main tasks, and gets its work from the registration.
type Set struct {
	Config
	ctx   context.Context // of the checks; Close ends it
	close context.CancelFunc
	wg    sync.WaitGroup // the goroutines of the checks

	// Changed and the methods of a Control are called without mu.
	mu       sync.Mutex
	running  map[string]*runningTask
	whole    bool // all main tasks have run since the last time that none did
	open     any  // the key of Open, nil after Shut
	offered  []*offer
	inConsul []*consul.Service
	reported map[string]bool // faults that the log has
	answered *health         // the last answer of HealthySince, nil before the first
}

// health is an answer of HealthySince.
type health struct {
	since   time.Time
	healthy bool
}

// runningTask is a task that may offer services.
type runningTask struct {
	control hooks.Control
	started time.Time
	// location is nil for a task in the network of the node or of the allocation.
	location *driver.Location
	// serving is false once the task is about to stop.
	serving bool
}

// New makes the set of an allocation. It offers nothing before the first Start.
func New(c Config) *Set {
	s := &Set{
		Config:   c,
		running:  map[string]*runningTask{},
		reported: map[string]bool{},
	}
	s.ctx, s.close = context.WithCancel(context.Background())
	return s
}

// Close ends all checks and waits for them. The instances stay as they are: the next agent continues.
func (s *Set) Close() {
	s.mu.Lock()
	// Under the lock, so that change starts no check after this.
	s.close()
	s.mu.Unlock()
	s.wg.Wait()
}

// Start notes that a task runs. It may be called again for a task that runs, and for one that a former
// agent has started.
func (s *Set) Start(task string, control hooks.Control, started time.Time, location *driver.Location) {
	s.change(func() {
		s.running[task] = &runningTask{control, started, location, true}
		missing := func(name string) bool { return !s.serves(name) }
		// It stays until no main task serves: see endWhole.
		s.whole = s.whole || !slices.ContainsFunc(s.mainTasks(), missing)
	})
}

// Withdraw offers the services of tasks no longer, because they are about to stop.
func (s *Set) Withdraw(tasks ...string) {
	s.change(func() {
		for _, name := range tasks {
			if t := s.running[name]; t != nil {
				t.serving = false
			}
		}
		s.endWhole()
	})
}

// Stop notes that a task runs no longer.
func (s *Set) Stop(task string) {
	s.change(func() {
		delete(s.running, task)
		s.endWhole()
	})
}

// Open offers the services that have a proxy. No task need run.
func (s *Set) Open(key any) {
	s.change(func() { s.open = key })
}

// Shut undoes Open with the same key, unless another Open has followed.
func (s *Set) Shut(key any) {
	s.change(func() {
		if s.open == key {
			s.open = nil
		}
	})
}

// due reports whether a service is to be offered now.
func (s *Set) due(service structs.OwnedService) bool {
	switch by := service.OfferedBy(); {
	case service.Owner == "" && mesh.HasProxy(service.Service):
		return s.open != nil
	case by == "":
		return s.whole
	default:
		return s.serves(by)
	}
}

// Update follows a change of the allocation or of its job.
func (s *Set) Update() { s.change(func() {}) }

// Instances returns the instances that the servers keep, in the order of the job.
func (s *Set) Instances() []*structs.ServiceInstance {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*structs.ServiceInstance
	for _, o := range s.offered {
		if o.inConsul != nil {
			continue
		}
		// This is a copy: it gets the status of its checks.
		i := o.instance
		for _, c := range o.checks {
			i.Status = worstStatus(i.Status, c.run.Status().Status)
		}
		all = append(all, &i)
	}
	return all
}

// Checks returns the last results of all checks by their IDs.
func (s *Set) Checks() map[string]*structs.CheckResult {
	name := s.Alloc().Name
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]*structs.CheckResult{}
	for _, o := range s.offered {
		for _, c := range o.checks {
			all[c.id] = c.result(o, name)
		}
	}
	return all
}

// HealthySince returns the time since which all checks are passing that count for the health of the
// allocation. It is false while one is not, or a service cannot be offered.
func (s *Set) HealthySince() (since time.Time, healthy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.health()
	s.answered = &now
	return now.since, now.healthy
}

// health returns the answer of HealthySince now. The caller holds s.mu.
func (s *Set) health() health {
	group := s.Group()
	offered := map[string]*offer{}
	for _, o := range s.offered {
		offered[o.key] = o
	}

	var since time.Time
	for service := range group.AllServices() {
		o := offered[offerKey(service)]
		if o == nil && endsEarly(group, service) {
			continue
		}

		if o == nil {
			return health{since, false}
		}

		at, ok := o.healthySince()
		if !ok {
			return health{since, false}
		}

		if at.After(since) {
			since = at
		}
	}

	return health{since, true}
}

// endsEarly reports whether a task offers the service that may have ended without a fault: it prepares
// others, or it runs after them.
func endsEarly(g *structs.TaskGroup, s structs.OwnedService) bool {
	t := g.Task(s.OfferedBy())
	return t != nil && t.Lifecycle != nil && !t.Lifecycle.Sidecar
}

// change applies a change of the running tasks. It reports new instances, and another answer of HealthySince:
// services in Consul change that one alone.
func (s *Set) change(apply func()) {
	before := s.Instances()
	var faults []fault
	s.mu.Lock()
	// After Close the offers stay as they are for the next agent.
	if s.ctx.Err() == nil {
		apply()
		faults = s.sync()
	}
	outdated := s.answered != nil && *s.answered != s.health()
	s.mu.Unlock()
	for _, f := range faults {
		s.report(f)
	}
	if outdated || !structs.SameInstances(before, s.Instances()) {
		s.Changed()
	}
}

// fault is the reason for which a service is not offered.
type fault struct {
	service string
	err     error
	tell    hooks.Control // a task that runs
}

// serves reports whether a task runs and is not about to stop. The caller holds s.mu.
func (s *Set) serves(task string) bool {
	t := s.running[task]
	return t != nil && t.serving
}

// endWhole ends the offer of the group's services once no main task serves.
func (s *Set) endWhole() {
	s.whole = s.whole && slices.ContainsFunc(s.mainTasks(), s.serves)
}

// mainTasks returns the tasks without a lifecycle block, in the order of the group.
func (s *Set) mainTasks() []string {
	var names []string
	for _, t := range s.Group().Tasks {
		if t.Lifecycle == nil {
			names = append(names, t.Name)
		}
	}
	return names
}

// sync makes the offers match the current version of the job and the running tasks. A check that has not
// changed goes on. It returns the faults that are new.
func (s *Set) sync() (faults []fault) {
	// An unchanged check has the same key, and keeps its results.
	former := map[string]*running{}
	for _, o := range s.offered {
		for _, c := range o.checks {
			former[c.key] = c
		}
	}

	s.offered = nil
	var all []*structs.ServiceInstance
	for service := range s.Group().AllServices() {
		if !s.due(service) {
			continue
		}

		o, err := s.resolve(service)
		if err == nil { // with those before: the servers reject a report with too many bytes
			err = report.Services(append(all, &o.instance))
		}
		if err != nil {
			faults = append(faults, s.newFaults(service.Name, err)...)
			continue
		}

		all = append(all, &o.instance)
		s.offered = append(s.offered, o)
	}

	s.syncConsul() // before the checks, because it takes results only of checks that it knows
	for _, o := range s.offered {
		s.keepOrStart(o, former)
	}

	// The checks that are left have changed, or their services are gone.
	for _, c := range former {
		c.run.Cancel()
	}

	return faults
}

// syncConsul makes Consul have the services that are offered there.
func (s *Set) syncConsul() {
	var now []*consul.Service
	for _, o := range s.offered {
		if o.inConsul != nil {
			now = append(now, o.inConsul)
		}
	}
	if !reflect.DeepEqual(now, s.inConsul) {
		s.inConsul = now
		// Put replaces all services of the allocation.
		s.Consul.Put(s.Alloc().ID, now)
	}
}

// newFaults returns the fault of a service if it is new and a task runs that can show it.
func (s *Set) newFaults(service string, err error) []fault {
	text := service + ": " + err.Error()
	// Without a task that runs, a later call tells the fault.
	if s.reported[text] || len(s.running) == 0 {
		return nil
	}
	s.reported[text] = true
	// Any task that runs can show the event.
	first := slices.Min(slices.Collect(maps.Keys(s.running)))
	return []fault{{service, err, s.running[first].control}}
}

// keepOrStart starts the checks of an offer. It removes the unchanged ones from former.
func (s *Set) keepOrStart(o *offer, former map[string]*running) {
	for n, c := range o.checks {
		if old := former[c.key]; old != nil {
			// sync cancels the checks that stay in former.
			delete(former, c.key)
			o.checks[n] = old
		} else {
			s.start(o, c)
		}
	}
}

// start starts a check. Its goroutine ends with the set.
func (s *Set) start(o *offer, r *running) {
	// By default the task that offers the service restarts, or for "" all main tasks.
	by := o.by
	restarted := by
	// A script runs in a task of its own choice, which is then the one to restart.
	if r.target.Check.TaskName != "" {
		restarted = r.target.Check.TaskName
	}

	c := checkConfig{
		Changed: s.Changed,
		Restart: func(reason string) { s.restart(restarted, reason) },
		Begun:   func() time.Time { return s.begun(restarted) },
	}

	ended := func() {}
	switch {
	case r.consulID == "":
		// Consul does not have the check, so the agent runs it.
		r.run = startCheck(s.ctx, r.target, c)
	case r.target.Check.Type == structs.CheckScript:
		// Consul cannot run a script in a task, so the agent runs it and tells the result.
		c.Results = func(now checkStatus) { s.Consul.Beat(r.consulID, now.Status, now.Output) }
		r.run = startCheck(s.ctx, r.target, c)
	default:
		// Consul runs the check, and the agent follows.
		ended = s.Consul.Follow()
		r.run = followCheck(s.ctx, r.target, c, s.readConsul(r.consulID))
	}

	// Cancel, or the end of s.ctx, ends the check.
	s.wg.Go(func() {
		r.run.Wait()
		ended()
	})
}

// readConsul returns the function that reads the results of a check that Consul runs.
func (s *Set) readConsul(checkID string) readCheck {
	// Only the goroutine of the check uses last.
	var last uint64
	return func() (status, output string, fresh bool) {
		now, known := s.Consul.Check(checkID)
		if !known || now.Read == last || now.Status == structs.CheckPending {
			return "", "", false
		}

		last = now.Read
		return now.Status, now.Output, true
	}
}

// tasks returns a task if it runs, or all main tasks that run for "".
func (s *Set) tasks(name string) []*runningTask {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := []string{name}
	if name == "" {
		names = s.mainTasks()
	}
	var all []*runningTask
	for _, n := range names {
		if t := s.running[n]; t != nil {
			all = append(all, t)
		}
	}
	return all
}

// restart restarts the tasks that run, under their restart policies.
func (s *Set) restart(task, reason string) {
	for _, t := range s.tasks(task) {
		t.control.Restart(reason)
	}
}

// begun returns the newest start of the tasks, zero if none runs.
func (s *Set) begun(task string) (newest time.Time) {
	for _, t := range s.tasks(task) {
		if t.started.After(newest) {
			newest = t.started
		}
	}
	return newest
}

// report writes a fault of a service to the log and to a task.
func (s *Set) report(f fault) {
	s.Logger.Warn("a service is not offered", "service", f.service, "error", f.err)
	f.tell.Emit(&structs.TaskEvent{
		Type:    structs.TaskEventHookMessage,
		Time:    time.Now().UnixNano(),
		Message: "a service is not offered: " + f.err.Error(),
	})
}
