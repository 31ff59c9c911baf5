package simulation

import (
	"fmt"
	"slices"
	"sync"

	"berth/structs"
)

// storageModel is what really happens to volumes, whatever the servers know.
type storageModel struct {
	fail func(format string, args ...any)

	mu       sync.Mutex
	attached map[string][]string // the nodes of each volume of the attaching plugin
	mounts   map[string][]mount  // by volume
}

// mount is a volume that an allocation has.
type mount struct {
	node, alloc string
	class       structs.ClaimClass
}

func newStorage(fail func(string, ...any)) *storageModel {
	return &storageModel{
		fail:     fail,
		attached: map[string][]string{},
		mounts:   map[string][]mount{},
	}
}

// excludes is the storage's own rule of which mounts it allows at the same time.
func (m mount) excludes(o mount) bool {
	switch m.class.AccessMode {
	case structs.CSISingleNodeReader, structs.CSISingleNodeWriter, structs.CSISingleNodeSingleWriter:
		return true
	case structs.CSISingleNodeMultiWriter:
		return m.class.AccessMode != o.class.AccessMode || m.node != o.node
	case structs.CSIMultiNodeReader, structs.CSIMultiNodeMultipleWriter:
		return m.class.AccessMode != o.class.AccessMode
	}
	return m.class.AccessMode != o.class.AccessMode ||
		m.class.Mode == structs.ClaimWrite && o.class.Mode == structs.ClaimWrite
}

func (s *storageModel) mount(volume string, m mount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.mounts[volume] {
		if m.excludes(other) || other.excludes(m) {
			s.fail("volume %s is mounted for allocation %s on node %s, and for %s on %s",
				volume, m.alloc, m.node, other.alloc, other.node)
		}
	}
	s.mounts[volume] = append(s.mounts[volume], m)
}

// unmount removes the mounts of a volume for which gone is true.
func (s *storageModel) unmount(volume string, gone func(mount) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mounts[volume] = slices.DeleteFunc(s.mounts[volume], gone)
}

// powerOff removes the mounts of a node.
func (s *storageModel) powerOff(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for volume := range s.mounts {
		s.mounts[volume] = slices.DeleteFunc(s.mounts[volume], func(m mount) bool { return m.node == node })
	}
}

// attach attaches a volume. One for a single node must not be attached to another.
func (s *storageModel) attach(volume, node string, mode structs.CSIAccessMode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	nodes := s.attached[volume]
	if slices.Contains(nodes, node) {
		return
	}
	if len(nodes) > 0 && mode.SingleNode() {
		s.fail("volume %s is attached to node %s while it is attached to %v", volume, node, nodes)
	}
	s.attached[volume] = append(nodes, node)
}

// detach detaches a volume, which must not be mounted there.
func (s *storageModel) detach(volume, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.mounts[volume] {
		if m.node == node {
			s.fail("volume %s is detached from node %s while allocation %s has it", volume, node, m.alloc)
		}
	}
	s.attached[volume] = slices.DeleteFunc(s.attached[volume], func(n string) bool { return n == node })
}

// left describes what is still mounted or attached.
func (s *storageModel) left() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for volume, mounts := range s.mounts {
		for _, m := range mounts {
			all = append(all, fmt.Sprintf("%s is mounted for %s on %s", volume, m.alloc, m.node))
		}
	}
	for volume, nodes := range s.attached {
		for _, n := range nodes {
			all = append(all, fmt.Sprintf("%s is attached to %s", volume, n))
		}
	}
	slices.Sort(all)
	return all
}
