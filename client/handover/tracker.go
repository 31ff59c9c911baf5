package handover

import (
	"sync"

	"berth/structs"
	capacitytypes "berth/structs/capacity"
	"berth/structs/storage"
)

// Alloc is an allocation of this node. Its runner implements it.
type Alloc interface {
	ID() string
	// Alloc returns the allocation as the servers last sent it, with its job.
	Alloc() *structs.Allocation
	// Dir returns its directory.
	Dir() string
	// ClientState returns its state for the servers.
	ClientState() *structs.AllocClientUpdate
	// Stopping reports whether it is to stop.
	Stopping() bool
	// Unwound is closed once its tasks are dead and everything of it is released.
	Unwound() <-chan struct{}
}

// TrackerConfig has the facts of the node that a Tracker reads.
type TrackerConfig struct {
	// Allocs returns the allocations of this node.
	Allocs func() []Alloc
	// Find returns one of them, nil if it is not on this node.
	Find func(allocID string) Alloc
	// Node returns the current row of the node. The Tracker does not change it.
	Node func() *structs.Node
	// Restored is closed once Allocs has the allocations of an earlier agent.
	Restored <-chan struct{}
}

// Tracker knows the allocations of a node that still hold what others are to have: ports, devices, host
// volumes, CPU and memory.
type Tracker struct {
	config TrackerConfig

	mu sync.Mutex // taken before the locks of TrackerConfig.Allocs
	// capable has the IDs of the allocations whose set-up has gone past the wait for capacity. Their tasks
	// may start.
	capable map[string]bool
}

// NewTracker makes the Tracker of a node.
func NewTracker(c TrackerConfig) *Tracker {
	return &Tracker{config: c, capable: map[string]bool{}}
}

// PortHolder returns an allocation that has not ended and has one of the ports of a (see othersOf), "" if
// there is none.
func (t *Tracker) PortHolder(a *structs.Allocation) (allocID string) {
	others := capacitytypes.PortUse{}
	for _, r := range t.othersOf(a) {
		others.Add(r.Alloc())
	}
	return others.Holder(a)
}

// HostVolumeHolder returns an allocation that has not ended and writes a host volume which a cannot write at
// the same time (see othersOf), "" if there is none.
func (t *Tracker) HostVolumeHolder(a *structs.Allocation) (allocID string) {
	for _, r := range t.othersOf(a) {
		other := r.Alloc()
		if storage.HostVolumeConflict(groupOf(a), groupOf(other)) != "" {
			return other.ID
		}
	}
	return ""
}

func groupOf(a *structs.Allocation) *structs.TaskGroup {
	if a.Job == nil {
		return nil
	}
	return a.Job.Group(a.TaskGroup)
}

// DeviceHolder returns an allocation that has not ended and keeps one of the devices of a (see othersOf), ""
// if there is none.
func (t *Tracker) DeviceHolder(a *structs.Allocation) (allocID string) {
	return t.devicesBefore(a).Holder(a)
}

// OtherDevices returns the devices of the allocations that DeviceHolder chooses from.
func (t *Tracker) OtherDevices(allocID string) capacitytypes.DeviceUse {
	r := t.config.Find(allocID)
	if r == nil {
		return nil
	}
	return t.devicesBefore(r.Alloc())
}

func (t *Tracker) devicesBefore(a *structs.Allocation) capacitytypes.DeviceUse {
	var others capacitytypes.DeviceUse
	for _, r := range t.othersOf(a) {
		others = others.Add(r.Alloc())
	}
	return others
}

// HoldsDevices reports whether an allocation may still use its devices: it has not ended, or the allocations
// of an earlier agent have no runners yet.
func (t *Tracker) HoldsDevices(allocID string) bool {
	return !isClosed(t.config.Restored) || t.Running(allocID)
}

// Running reports whether an allocation is on this node and has not ended.
func (t *Tracker) Running(allocID string) bool {
	r := t.config.Find(allocID)
	return r != nil && runs(r)
}

func runs(r Alloc) bool {
	s := r.ClientState().ClientStatus
	return s == structs.AllocPending || s == structs.AllocRunning
}

// othersOf returns the allocations that have not ended and from which the servers may have given something to
// a: the ones that are older than a, or that end. After a return of the servers to an earlier state, their
// indexes begin below the allocations that this node ends.
func (t *Tracker) othersOf(a *structs.Allocation) []Alloc {
	var others []Alloc
	for _, r := range t.config.Allocs() {
		other := r.Alloc()
		if other.ID != a.ID &&
			(other.CreateIndex <= a.CreateIndex || r.Stopping()) &&
			runs(r) {
			others = append(others, r)
		}
	}
	return others
}

// CapacityHolder returns a stopping allocation whose CPU and memory a needs. It returns "" if the node has
// enough for both, and a holds its capacity then. The servers take care of that, with one exception: when the
// node is back after it was down, they count the capacity of what still ends as free.
func (t *Tracker) CapacityHolder(a *structs.Allocation) (allocID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.config.Allocs()
	for _, r := range all {
		if r.ID() != a.ID && r.Stopping() && t.holdsCapacity(r) {
			allocID = max(allocID, r.ID()) // the same one in each look
		}
	}
	if allocID == "" || a.Resources == nil || t.fitsBeside(a, all) {
		t.capable[a.ID] = true
		return ""
	}
	return allocID
}

// fitsBeside reports whether the node has the capacity for a beside the allocations that hold theirs. The
// caller holds t.mu.
func (t *Tracker) fitsBeside(a *structs.Allocation, all []Alloc) bool {
	sums := capacitytypes.NewNodeCapacity(t.config.Node())
	for _, r := range all {
		if r.ID() != a.ID && t.holdsCapacity(r) {
			sums.Hold(r.Alloc())
		}
	}
	return sums.Short(*a.Resources) == ""
}

// holdsCapacity reports whether an allocation has not ended, and its tasks run or may start. The caller holds
// t.mu.
func (t *Tracker) holdsCapacity(r Alloc) bool {
	if isClosed(r.Unwound()) {
		return false
	}
	switch r.ClientState().ClientStatus {
	case structs.AllocRunning:
		return true
	case structs.AllocPending:
		return t.capable[r.ID()]
	}
	return false
}

// Forget is for an allocation that this node is about to have no longer. The caller holds no lock that
// TrackerConfig.Allocs takes.
func (t *Tracker) Forget(allocID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.capable, allocID)
}

// Len returns the number of allocations that the Tracker remembers.
func (t *Tracker) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.capable)
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
