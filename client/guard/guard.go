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
//   - While no guard can be started, the agent, as long as it lives, marks what is due and kills its tasks.
//   - A node without orders has no guard.
package guard

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	"berth/client/guard/watch"
	"berth/client/membership"
	"berth/internal/boottime"
	"berth/internal/process"
	"berth/structs"
)

// Config are the inputs of New.
type Config struct {
	// Dir has the orders. It must not change while there are any.
	Dir string
	// Command runs executor.Main with the duty of a guard.
	Command []string
	Drivers Drivers
	// Group returns the present group of an allocation, nil if the agent does not have the allocation (yet).
	Group func(allocID string) *structs.TaskGroup
	// Lose ends an allocation that is due. It reports false if the agent does not have the allocation (yet).
	Lose func(allocID, reason string) bool
	// Watchdog is the watchdog of the machine that the guard feeds, "" for none.
	Watchdog string
	Clock    boottime.Clock
	Logger   hclog.Logger
}

// Drivers finds the driver of a task.
type Drivers interface {
	Driver(name string) (driver.Driver, error)
}

// Guard is the agent's side of the guard.
type Guard struct {
	Config
	self process.Ref // the agent
	boot string

	// The locks are taken in this order: ordering, starting, mu.
	ordering sync.Mutex // held while an order changes
	starting sync.Mutex // held while the guard is started

	mu    sync.Mutex       // of all below; nobody waits for the guard with it
	files watch.OrderFiles // Memory is "" until the first need
	file  *watch.LeaseFile
	lease membership.Lease
	lost  map[string]bool // allocations that Lose has ended
	// followed has the allocations between the Up and the Down of their hooks.
	followed map[string]*followed
}

// New makes the Guard of an agent. It starts nothing.
func New(cfg Config) (*Guard, error) {
	if cfg.Clock == nil {
		cfg.Clock = boottime.Now
	}

	boot, err := process.BootID()
	if err != nil {
		return nil, err
	}

	self, err := process.SelfRef()
	if err != nil {
		return nil, err
	}

	return &Guard{
		Config: cfg,
		self:   self,
		boot:   boot,
		files:  watch.OrderFiles{Dir: cfg.Dir},
		lost:   map[string]bool{},

		followed: map[string]*followed{},
	}, nil
}

// Order orders the guard to end an allocation: with the lease if it has volumes, else when an agent that
// works would have stopped it after the group's stop_on_client_after. Volumes of an earlier order stay in
// it. Without an error the order is durable, and the guard works. The error is unavailable while the node
// has no lease.
func (g *Guard) Order(allocID string, group *structs.TaskGroup, volumes []watch.OrderedVolume) error {
	g.ordering.Lock()
	defer g.ordering.Unlock()
	return g.order(allocID, group, volumes)
}

// order is Order. The caller holds ordering.
func (g *Guard) order(allocID string, group *structs.TaskGroup, volumes []watch.OrderedVolume) error {
	groups, err := g.groupsOf(allocID, group)
	if err != nil {
		return err
	}

	o := &watch.Order{AllocID: allocID, BootID: g.boot, Groups: groups, Volumes: volumes}
	old, err := g.present().Get(allocID)
	if err != nil {
		return err
	}
	if old != nil {
		o.Volumes = merge(old.Volumes, volumes)
		// Tasks that run already have added their cgroups.
		o.Tasks = old.Tasks
	}

	if len(o.Volumes) == 0 && stops(group) {
		o.Delay = delayOf(group)
	}
	return g.replace(old, o)
}

// Has reports whether the allocation has an order with the volume.
func (g *Guard) Has(allocID string, v watch.OrderedVolume) (bool, error) {
	o, err := g.present().Get(allocID)
	return o != nil && slices.Contains(o.Volumes, v), err
}

// Withdraw takes a volume out of the order of an allocation. One without volumes has an order only if its
// group stops. The error is a conflict if the allocation is due, and unavailable while the node has no lease.
func (g *Guard) Withdraw(allocID string, group *structs.TaskGroup, v watch.OrderedVolume) error {
	g.ordering.Lock()
	defer g.ordering.Unlock()
	old, err := g.present().Get(allocID)
	if err != nil || old == nil || !slices.Contains(old.Volumes, v) {
		return err
	}

	o := *old
	isIt := func(other watch.OrderedVolume) bool { return other == v }
	o.Volumes = slices.DeleteFunc(slices.Clone(old.Volumes), isIt)
	if len(o.Volumes) == 0 && !stops(group) {
		return g.remove(allocID)
	}

	if len(o.Volumes) == 0 {
		o.Delay = delayOf(group)
	}
	return g.replace(old, &o)
}

// remove removes the order of an allocation that is not due. The caller holds ordering.
func (g *Guard) remove(allocID string) error {
	// Under mu, the agent marks nothing between the check and the removal.
	g.mu.Lock()
	defer g.mu.Unlock()

	err := g.checkDue(allocID)
	if err != nil {
		return err
	}
	return g.files.Remove(allocID)
}

// replace writes an order in the place of another, nil for none, once the guard works. The caller holds
// ordering.
func (g *Guard) replace(old, o *watch.Order) error {
	same := old.Same(o)
	err := g.prepare(o.AllocID, same)
	if err == nil {
		err = g.start()
	}
	if err == nil && !same {
		err = g.files.Put(o)
	}
	if err == nil && !same { // the guard may have ended the old one meanwhile
		err = g.prepare(o.AllocID, same)
	}
	if err != nil {
		return fmt.Errorf("guarding the allocation: %w", err)
	}
	return nil
}

// addGroup adds the cgroup of a task that is about to start to the order of its allocation, if it has one.
// Without an error the order is durable, and the guard works.
func (g *Guard) addGroup(allocID, task string, group *cgroups.Group) error {
	g.ordering.Lock()
	defer g.ordering.Unlock()

	old, err := g.present().Get(allocID)
	if err != nil || old == nil {
		return err
	}

	o := *old
	o.Tasks = maps.Clone(old.Tasks)
	if o.Tasks == nil {
		o.Tasks = map[string]*cgroups.Group{}
	}
	o.Tasks[task] = group
	return g.replace(old, &o)
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
func merge(old, more []watch.OrderedVolume) []watch.OrderedVolume {
	all := append([]watch.OrderedVolume{}, more...)

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

	file, err := watch.OpenLease(filepath.Join(memory, watch.LeaseFileName), g.boot)
	if err != nil {
		return err
	}
	g.files.Memory = memory
	g.file = file
	return g.write()
}

// Renewed takes each new lease of the node, before anything else does.
func (g *Guard) Renewed(l membership.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lease = l
	ids, err := g.files.List()
	// There is no guard to tell.
	if err == nil && g.file == nil && len(ids) == 0 {
		return
	}
	// A guard of an earlier agent waits for the lease.
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

	_, err := g.markDue()
	if err != nil {
		return err
	}
	return g.file.Write(until)
}

// read returns the lease as the guard sees it, the zero Lease for none.
func (g *Guard) read() (watch.Lease, error) {
	l, err := watch.ReadLease(filepath.Join(g.files.Memory, watch.LeaseFileName), g.boot)
	if errors.Is(err, watch.ErrLeaseEnded) {
		return watch.Lease{}, nil
	}
	return l, err
}

// markDue marks the allocations whose end was due before the lease is renewed. It returns the orders of all
// that are due, also if an error says that not all of them could be read or marked. The caller holds mu.
func (g *Guard) markDue() (due []*watch.Order, err error) {
	before, err := g.read()
	if err != nil {
		return nil, err
	}

	marked, unread := g.files.ListDue()
	ids, unlisted := g.files.List()
	errs := []error{unread, unlisted}
	for _, id := range ids {
		o, err := g.files.Get(id)
		errs = append(errs, err)
		if o == nil || o.BootID != g.boot {
			continue
		}

		end := o.End(before.Until)
		// A lease that has come after the mark does not count.
		if g.Clock() < end && !slices.Contains(marked, id) {
			continue
		}
		due = append(due, o)
		errs = append(errs, g.files.MarkDue(&watch.Due{AllocID: id, At: end})) // an earlier mark stays
	}
	return due, errors.Join(errs...)
}

// Release removes the order of an allocation that has ended, with the records of the guard.
func (g *Guard) Release(allocID string) error {
	g.ordering.Lock()
	defer g.ordering.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()

	delete(g.lost, allocID)
	delete(g.followed, allocID)
	files := g.files
	if files.Memory == "" { // an earlier agent may have made it
		files.Memory, _ = place(g.Dir)
	}
	return files.Remove(allocID)
}

// Retain releases the orders of unknown allocations.
func (g *Guard) Retain(known func(allocID string) bool) error {
	ids, err := g.present().List()
	errs := []error{err}
	for _, id := range ids {
		if !known(id) {
			errs = append(errs, g.Release(id))
		}
	}
	return errors.Join(errs...)
}

// present returns the files as they are known now.
func (g *Guard) present() watch.OrderFiles {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.files
}
