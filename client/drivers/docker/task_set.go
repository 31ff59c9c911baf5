package docker

import (
	"strings"
	"sync"

	"berth/structs"
)

// taskSet has the tasks that this agent starts, has started or has recovered, by their IDs.
type taskSet struct {
	mu       sync.Mutex
	tasks    map[string]*task
	starting map[string]bool // tasks that Start has not started yet
	unseen   map[string]bool // tasks that Recover has missed because the daemon was away
}

func newTaskSet() *taskSet {
	return &taskSet{
		tasks:    map[string]*task{},
		starting: map[string]bool{},
		unseen:   map[string]bool{},
	}
}

func (s *taskSet) hold(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[t.id] = t
}

// noteStarting notes that a task is being started, until done is called.
func (s *taskSet) noteStarting(id string) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting[id] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.starting, id)
	}
}

// isWanted reports whether this agent starts, has started or has recovered a task.
func (s *taskSet) isWanted(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tasks[id] != nil || s.starting[id]
}

// swapUnseen notes whether the daemon was away when the agent looked for a task, and returns the last note.
func (s *taskSet) swapUnseen(id string, unseen bool) (before bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.unseen[id]
	delete(s.unseen, id)
	if unseen {
		s.unseen[id] = true
	}
	return before
}

// find is not-found for a task that this agent has neither started nor recovered.
func (s *taskSet) find(id string) (*task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[id]
	if t == nil {
		return nil, structs.NotFoundf("no task %q", id)
	}
	return t, nil
}

// all returns a copy: tasks come and go while the caller goes through it.
func (s *taskSet) all() []*task {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*task
	for _, t := range s.tasks {
		list = append(list, t)
	}
	return list
}

// wantsAlloc reports whether this agent starts, has started or has recovered a task of an allocation.
func (s *taskSet) wantsAlloc(allocID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := func(id string) bool { return strings.HasPrefix(id, allocID+"/") }
	for id := range s.tasks {
		if of(id) {
			return true
		}
	}
	for id := range s.starting {
		if of(id) {
			return true
		}
	}
	return false
}

// forget drops an ended task.
func (s *taskSet) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tasks, id)
}

// useOf returns the name that the container of a task or a pause container has, and whether this agent needs
// it.
func (s *taskSet) useOf(labels map[string]string) (name string, wanted bool) {
	allocID := labels[labelPause]
	if allocID != "" {
		return pauseName(allocID), s.wantsAlloc(allocID)
	}
	id := labels[labelTask]
	return containerName(id), s.isWanted(id)
}
