// Package guard is the agent's side of the guard of its node: the process of package watch, which ends
// allocations when the lease of the node ends, also without the agent. It has two kinds of work:
//
//   - Allocations with a volume under the policy "lease" end with the lease, and their volumes are unmounted.
//   - Allocations whose group says stop_on_client_after end that time later, and only if the agent has
//     not stopped them by then, with their signals.
//
// Its rules:
//
//   - The order to the guard is durable, and the guard works, before the first mount and the first task
//     of the allocation. It stays until the allocation has ended and has released its volumes.
//   - The end of the lease is in memory, where the guard reads it. Before a renewal after the end
//     replaces it, all that was due in between is marked: it ends all the same.
//   - A task of an allocation that is due does not start any more, and the agent gives the allocation up.
//   - A node without orders has no guard.
package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	"berth/client/drivers/procref"
	"berth/client/drivers/sandbox"
	"berth/client/guard/leasefile"
	"berth/client/guard/order"
	"berth/client/guard/watch"
	"berth/client/lease"
	"berth/internal/backoff"
	"berth/internal/boottime"
	"berth/structs"
)

// Config are the inputs of New.
type Config struct {
	// Dir has the orders. It must not change while there are any.
	Dir string
	// Command runs executor.Main with the duty of a guard.
	Command []string
	Drivers Drivers
	// Lose ends an allocation that is due. It reports false if the agent does not have the allocation (yet).
	Lose   func(allocID, reason string) bool
	Clock  boottime.Clock
	Logger hclog.Logger
}

// Drivers finds the driver of a task.
type Drivers interface {
	Driver(name string) (driver.Driver, error)
}

// grouped is a driver that knows the cgroup of a task before its start. All processes of the task are in it.
type grouped interface {
	TaskGroup(taskID string) (*cgroups.Group, bool)
}

// Guard is the agent's side of the guard.
type Guard struct {
	Config
	self procref.Ref // the agent
	boot string

	ordering sync.Mutex // held while an order changes
	starting sync.Mutex // held while the guard is started

	mu    sync.Mutex  // of all below; nobody waits for the guard with it
	files order.Files // Memory is "" until the first need
	file  *leasefile.File
	lease lease.Lease
	lost  map[string]bool // allocations that Lose has ended
}

// agentMargin is the time between the end of an agent's own stop and the guard's.
const agentMargin = 5 * time.Second

// New makes the Guard of an agent. It starts nothing.
func New(cfg Config) (*Guard, error) {
	if cfg.Clock == nil {
		cfg.Clock = boottime.Now
	}
	boot, err := procref.BootID()
	if err != nil {
		return nil, err
	}
	self, err := procref.Self()
	if err != nil {
		return nil, err
	}
	return &Guard{
		Config: cfg,
		self:   self,
		boot:   boot,
		files:  order.Files{Dir: cfg.Dir},
		lost:   map[string]bool{},
	}, nil
}

// groupsOf returns the cgroups of the tasks of an allocation.
func (g *Guard) groupsOf(allocID string, group *structs.TaskGroup) ([]*cgroups.Group, error) {
	if os.Geteuid() != 0 {
		return nil, structs.Preconditionf("the agent does not run as root, so it can guard no task")
	}
	var groups []*cgroups.Group
	for _, t := range group.Tasks {
		d, err := g.Drivers.Driver(t.Driver)
		if err != nil {
			return nil, err
		}
		known, ok := d.(grouped)
		var of *cgroups.Group
		if ok {
			of, ok = known.TaskGroup(allocID + "/" + t.Name)
		}
		if !ok {
			return nil, structs.Preconditionf(
				"task %q runs in the driver %q, and this node does not find all its processes by a cgroup: "+
					"use the driver exec or raw_exec on a machine with cgroups", t.Name, t.Driver)
		}
		groups = append(groups, of)
	}
	return groups, nil
}

// Order orders the guard to end an allocation: with the lease if it has volumes, else when an agent that
// works would have stopped it after the group's stop_on_client_after. Volumes of an earlier order stay in
// it. Without an error the order is durable, and the guard works. The error is unavailable while the node
// has no lease.
func (g *Guard) Order(allocID string, group *structs.TaskGroup, volumes []order.Volume) error {
	groups, err := g.groupsOf(allocID, group)
	if err != nil {
		return err
	}

	g.ordering.Lock()
	defer g.ordering.Unlock()
	o := &order.Order{AllocID: allocID, BootID: g.boot, Groups: groups, Volumes: volumes}
	old, err := g.files.Get(allocID)
	if err != nil {
		return err
	}
	if old != nil {
		o.Volumes = merge(old.Volumes, volumes)
	}
	if len(o.Volumes) == 0 && stops(group) {
		o.Delay = *group.Disconnect.StopOnClientAfter + stopTime(group)
	}

	err = g.prepare(allocID, old.Same(o))
	if err == nil {
		err = g.start()
	}
	if err == nil && !old.Same(o) {
		err = g.files.Put(o)
	}
	if err != nil {
		return fmt.Errorf("guarding the allocation: %w", err)
	}
	return nil
}

// stopTime is the time that an agent takes to stop the tasks of a group: a kill without their signal comes
// after it.
func stopTime(group *structs.TaskGroup) time.Duration {
	longest := time.Duration(0)
	for _, t := range group.Tasks {
		longest = max(longest, t.KillTimeout+t.ShutdownDelay)
	}
	if group.ShutdownDelay != nil {
		longest += *group.ShutdownDelay
	}
	return longest + agentMargin
}

// prepare makes the place in memory. It returns an error if the allocation is due, or if it would be due at
// once because it has no order yet.
func (g *Guard) prepare(allocID string, ordered bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.checkDue(allocID)
	if err != nil {
		return err
	}
	if until := g.lease.Until(); !ordered && g.Clock() >= until {
		return structs.Unavailablef("the node has no lease from the servers now")
	}
	return nil
}

// checkDue makes the place in memory, and returns a conflict if an allocation is due. The caller holds mu.
func (g *Guard) checkDue(allocID string) error {
	err := g.open()
	if err != nil {
		return err
	}
	due, err := g.files.Due(allocID)
	if err == nil && due != nil {
		return structs.Conflictf("%s", reasonOf(nil))
	}
	return err
}

// merge returns the volumes of both lists.
func merge(old, more []order.Volume) []order.Volume {
	all := append([]order.Volume{}, more...)
	known := map[string]bool{}
	for _, v := range more {
		known[v.Target] = true
	}
	for _, v := range old {
		if !known[v.Target] {
			all = append(all, v)
		}
	}
	return all
}

// open makes the place in memory and writes the lease there.
func (g *Guard) open() error {
	if g.file != nil {
		return nil
	}
	err := os.MkdirAll(g.Dir, 0o700)
	if err != nil {
		return err
	}
	memory, err := makePlace(g.Dir)
	if err != nil {
		return err
	}
	file, err := leasefile.Open(filepath.Join(memory, watch.LeaseFile), g.boot)
	if err != nil {
		return err
	}
	g.files.Memory = memory
	g.file = file
	return g.write()
}

// Renewed takes each new lease of the node, before anything else does.
func (g *Guard) Renewed(l lease.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lease = l
	ids, err := g.files.List()
	if err == nil && g.file == nil && len(ids) == 0 {
		return
	}
	if err == nil && g.file == nil {
		err = g.open()
	} else if err == nil {
		err = g.write()
	}
	if err != nil {
		g.Logger.Error("failed to write the lease for the guard; it ends what it guards when it knows no newer one",
			"error", err)
	}
}

// write marks what has been due, and then writes the lease.
func (g *Guard) write() error {
	until := g.lease.Until()
	if until.IsZero() { // the lease of an earlier agent counts
		return nil
	}
	err := g.markDue()
	if err != nil {
		return err
	}
	return g.file.Write(until)
}

// read returns the lease as the guard sees it, the zero Lease for none.
func (g *Guard) read() (leasefile.Lease, error) {
	l, err := leasefile.Read(filepath.Join(g.files.Memory, watch.LeaseFile), g.boot)
	if errors.Is(err, leasefile.ErrEnded) {
		return leasefile.Lease{}, nil
	}
	return l, err
}

// markDue marks the allocations whose end was due before the lease is renewed.
func (g *Guard) markDue() error {
	before, err := g.read()
	if err != nil {
		return err
	}
	ids, err := g.files.List()
	if err != nil {
		return err
	}
	for _, id := range ids {
		o, err := g.files.Get(id)
		if err != nil {
			return err
		}
		if o == nil || o.BootID != g.boot {
			continue
		}
		end := o.End(before.Until)
		if g.Clock() < end {
			continue
		}
		err = g.files.MarkDue(&order.Due{AllocID: id, At: end})
		if err != nil {
			return err
		}
	}
	return nil
}

// Release removes the order of an allocation that has ended, with the records of the guard.
func (g *Guard) Release(allocID string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.lost, allocID)
	files := g.files
	if files.Memory == "" { // an earlier agent may have made it
		files.Memory, _ = place(g.Dir)
	}
	return files.Remove(allocID)
}

// Retain releases the orders of unknown allocations.
func (g *Guard) Retain(known func(allocID string) bool) error {
	ids, err := g.files.List()
	errs := []error{err}
	for _, id := range ids {
		if !known(id) {
			errs = append(errs, g.Release(id))
		}
	}
	return errors.Join(errs...)
}

// present returns the files as they are known now.
func (g *Guard) present() order.Files {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.files
}

// startWait bounds the start of the guard.
const startWait = 5 * time.Second

// start starts the guard, unless one of this agent works. It returns when the guard works. An older one ends
// by itself.
func (g *Guard) start() error {
	g.starting.Lock()
	defer g.starting.Unlock()
	files := g.present()
	works, err := watch.Works(files.Memory, g.self)
	if works {
		return nil
	}
	if err != nil {
		g.Logger.Warn("failed to look for the guard, starting one", "error", err)
	}

	path := filepath.Join(g.Dir, "log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()

	args := append(append([]string{}, g.Command[1:]...), watch.Args(files, g.self)...)
	cmd := exec.Command(g.Command[0], args...)
	cmd.Dir = "/"
	cmd.Env = sandbox.RuntimeEnv(1)
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	err = cmd.Run() // it starts the guard and ends
	if err != nil {
		return fmt.Errorf("starting the guard: %w", err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	for {
		works, err = watch.Works(files.Memory, g.self)
		if works {
			return nil
		}
		if !backoff.Sleep(ctx, 10*time.Millisecond) {
			return errors.Join(structs.Unavailablef("the guard does not work; its log is %s", path), err)
		}
	}
}

// Run keeps the guard running while there are orders, and gives the allocations up that are due. It returns
// when ctx has ended. The guard then stays if anything is left to guard.
func (g *Guard) Run(ctx context.Context) {
	err := g.files.Sweep()
	if err != nil {
		g.Logger.Warn("failed to remove records of the guard", "error", err)
	}
	for {
		err := g.keep()
		if err != nil {
			g.Logger.Error("failed to keep the guard running, trying again", "error", err)
		}
		if !backoff.Sleep(ctx, time.Second) {
			break
		}
	}
	err = g.leave()
	if err != nil {
		g.Logger.Warn("failed to end the guard", "error", err)
	}
}

// keep is one round of Run.
func (g *Guard) keep() error {
	ids, err := g.files.List()
	if err != nil || len(ids) == 0 {
		return err
	}

	g.mu.Lock()
	err = g.open()
	g.mu.Unlock()
	if err != nil {
		return err
	}
	err = g.start()
	due, unread := g.present().ListDue()
	for _, id := range due {
		g.giveUp(id)
	}
	return errors.Join(err, unread)
}

// giveUp ends an allocation that is due.
func (g *Guard) giveUp(allocID string) {
	g.mu.Lock()
	lost := g.lost[allocID]
	g.mu.Unlock()
	o, err := g.files.Get(allocID)
	if lost || err != nil || o == nil {
		return
	}

	ended, _ := g.files.Ended(allocID) // only for the text
	if !g.Lose(allocID, reasonOf(ended)) {
		return
	}
	g.Logger.Error("the lease of the node has ended, giving the allocation up", "alloc_id", allocID)
	g.mu.Lock()
	g.lost[allocID] = true
	g.mu.Unlock()
}

// reasonOf is the reason for which an allocation has ended, for users.
func reasonOf(e *order.Ended) string {
	reason := "the lease of this node ended, and the allocation must not run without one"
	switch {
	case e == nil || e.Empty.IsZero():
	case e.Unmounted:
		reason += fmt.Sprintf(": its guard ended all tasks at %s and unmounted the volumes", clock(e.Time))
	default:
		reason += fmt.Sprintf(": its guard ended all tasks at %s; still mounted: %v", clock(e.Time), e.Left)
	}
	return reason
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

// leave ends the guard of this agent and removes its place, unless anything is left to guard.
func (g *Guard) leave() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	ids, err := g.files.List()
	if err != nil || g.file == nil {
		return err
	}
	err = g.file.Close()
	g.file = nil
	if len(ids) > 0 {
		return err
	}
	return errors.Join(err, watch.Stop(g.files.Memory, startWait), releasePlace(g.Dir))
}
