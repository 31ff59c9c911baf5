package client

import (
	"maps"
	"slices"
	"sync"

	"berth/client/allocrunner"
	"berth/client/handover"
	"berth/client/hooks/disk"
	"berth/structs"
)

// allocSet has the allocations of the node: those with a runner, and the final states of the others.
type allocSet struct {
	// It has the states that the servers have still to get. Its lock is taken after s.mu.
	updates *allocUpdates

	mu      sync.Mutex
	runners map[string]*allocrunner.Runner
	// It keeps an allocation from being fetched at each change of the list: its index says that it was
	// decided about.
	ignored map[string]ignoredAlloc
}

func newAllocSet(updates *allocUpdates) *allocSet {
	return &allocSet{
		updates: updates,
		runners: map[string]*allocrunner.Runner{},
		ignored: map[string]ignoredAlloc{},
	}
}

// ignoredAlloc is an allocation that the node does not run because it has ended or cannot run.
type ignoredAlloc struct {
	modifyIndex uint64                     // its AllocModifyIndex at that decision
	ended       *structs.AllocClientUpdate // its final state
}

// report adds an event to the tasks of an allocation.
func (s *allocSet) report(allocID, message string) {
	if r := s.get(allocID); r != nil {
		r.Report(message)
	}
}

// setProgress tells an allocation for what its set-up waits.
func (s *allocSet) setProgress(allocID, reason string) {
	if r := s.get(allocID); r != nil {
		r.SetProgress(reason)
	}
}

// get returns the runner of an allocation, nil for one without.
func (s *allocSet) get(allocID string) *allocrunner.Runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runners[allocID]
}

// all returns the runners, in any order.
func (s *allocSet) all() []*allocrunner.Runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.runners))
}

// countLive returns the number of the allocations that have not ended on this node.
func (s *allocSet) countLive() (count int) {
	for _, r := range s.all() {
		if !isClosed(r.Unwound()) {
			count++
		}
	}
	return count
}

// knownIndex returns the index at which this node knows an allocation, 0 if it does not. The caller holds
// s.mu.
func (s *allocSet) knownIndex(id string) uint64 {
	if i, ok := s.ignored[id]; ok {
		return i.modifyIndex
	}
	if r, ok := s.runners[id]; ok {
		return r.Alloc().AllocModifyIndex
	}
	return 0
}

// ignore keeps the final state of an allocation that the node does not run.
func (s *allocSet) ignore(alloc *structs.Allocation, ended *structs.AllocClientUpdate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ignored[alloc.ID] = ignoredAlloc{alloc.AllocModifyIndex, ended}
}

// endedHere returns the final state of an ignored allocation, nil for any other.
func (s *allocSet) endedHere(id string) *structs.AllocClientUpdate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ignored[id].ended
}

// markAcked records the ends that the servers have acknowledged. It leaves out allocations without a runner:
// the end of a runner deletes the record. The lock is held over both: a runner that ends between them would
// leave a mark that nothing deletes.
func (s *allocSet) markAcked(all []*structs.AllocClientUpdate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	here := slices.DeleteFunc(slices.Clone(all), func(a *structs.AllocClientUpdate) bool {
		return s.runners[a.ID] == nil
	})
	s.updates.markAcked(here)
}

// resend queues the newest state of each allocation: the servers may have lost it.
func (s *allocSet) resend() {
	for _, r := range s.all() {
		s.updates.enqueueNewest(r.ClientState)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.ignored {
		s.updates.enqueue(i.ended)
	}
}

// held returns the allocations that may hold what others wait for.
func (s *allocSet) held() []handover.Alloc { return asAllocs(s.all()) }

// local finds an allocation on this node whose data another one may take over. Data of an allocation without
// a runner is not here any more.
func (s *allocSet) local(allocID string) (disk.Local, bool) {
	r := s.get(allocID)
	if r == nil {
		return disk.Local{}, false
	}
	return disk.Local{
		Alloc:   r.Alloc(),
		Dir:     r.Dir(),
		Unwound: r.Unwound(),
	}, true
}

// lose ends an allocation that the node must not run without a lease, if it has a runner.
func (s *allocSet) lose(allocID, reason string) bool {
	r := s.get(allocID)
	if r != nil {
		r.LoseLease(reason)
	}
	return r != nil
}

// group returns the group of an allocation as the last update left it, nil for one without a runner.
func (s *allocSet) group(allocID string) *structs.TaskGroup {
	if r := s.get(allocID); r != nil {
		return r.Alloc().Job.Group(r.Alloc().TaskGroup)
	}
	return nil
}

// compare compares the allocations with the servers' list of their indexes. changed are here and differ,
// others are not here, and the servers no longer know gone ones. It forgets ignored ones that are
// gone. It changes no runner. The caller stops gone ones, and fetches the others.
func (s *allocSet) compare(
	wanted map[string]uint64,
) (changed, others []string, gone []*allocrunner.Runner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, index := range wanted {
		switch {
		case s.knownIndex(id) == index:
		case s.runners[id] != nil: // also if it is lower: the servers may have been restored
			changed = append(changed, id)
		default:
			others = append(others, id)
		}
	}

	for id, r := range s.runners {
		if _, ok := wanted[id]; !ok {
			gone = append(gone, r)
		}
	}

	for id := range s.ignored {
		if _, ok := wanted[id]; !ok {
			delete(s.ignored, id)
		}
	}

	return changed, others, gone
}

// add adds an allocation that the node is to run.
func (s *allocSet) add(r *allocrunner.Runner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runners[r.ID()] = r
	delete(s.ignored, r.ID())
}

// remove forgets an allocation whose runner has ended. The states go with the runner, so that the maps do not
// grow with each allocation that was here.
func (s *allocSet) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runners, id)
	s.updates.forgetAlloc(id)
}
