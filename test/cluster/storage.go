package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"berth/structs"
)

// Storage is the backend of a plugin. It records each volume with its home, its attachments and its mounts.
// All nodes of a cluster share it.
type Storage struct {
	c *Cluster

	mu      sync.Mutex
	volumes map[string]*disk // by the plugin's volume ID
	fail    func(op, id string) error
	log     []string
}

type disk struct {
	home     string // the only node that reaches it; "": every node does
	attached map[string]bool
	mounted  map[string]string // the servers' name of the volume, by node and allocation
}

// NewStorage returns a storage without volumes.
func NewStorage(c *Cluster) *Storage {
	return &Storage{
		c:       c,
		volumes: map[string]*disk{},
	}
}

// Fail sets a function whose error fails a call. op is create, delete, attach, detach or expand. id is the
// plugin's volume ID, for create the name.
func (s *Storage) Fail(f func(op, id string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// AddVolume adds a volume that no call has created.
func (s *Storage) AddVolume(id, home string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addVolume(id, home)
}

func (s *Storage) addVolume(id, home string) {
	if s.volumes[id] == nil {
		s.volumes[id] = &disk{
			home:     home,
			attached: map[string]bool{},
			mounted:  map[string]string{},
		}
	}
}

// Log returns the operations, oldest first: "node op id".
func (s *Storage) Log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// Exists reports whether there is such a volume.
func (s *Storage) Exists(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.volumes[id] != nil
}

// Mounts lists the mounts of the volume: "node alloc".
func (s *Storage) Mounts(id string) (who []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.volumes[id]; d != nil {
		for key := range d.mounted {
			who = append(who, key)
		}
	}
	slices.Sort(who)
	return who
}

// mountsAt lists a node's mounts of a volume, by the servers' name of it.
func (s *Storage) mountsAt(node, volume string) (mounts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.volumes {
		for key, name := range d.mounted {
			if name == volume && strings.HasPrefix(key, node+" ") {
				mounts = append(mounts, key)
			}
		}
	}
	return mounts
}

// recordCall records a call and executes it with s.mu held, unless the function of Fail fails it.
func (s *Storage) recordCall(node, op, id string, f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, node+" "+op+" "+id)
	if s.fail != nil {
		if err := s.fail(op, id); err != nil {
			return err
		}
	}
	return f()
}

// checkHome returns an error if a call for the volume arrives at the wrong node.
func (d *disk) checkHome(node, id string) error {
	if d.home != "" && d.home != node {
		return structs.NotFoundf("volume %s is not on node %s", id, node)
	}
	return nil
}

// mount mounts the volume id for a claim. It fails the test if the access mode allows no further mount.
func (s *Storage) mount(node, id string, c *structs.CSIClaim, needsAttach bool) error {
	return s.recordCall(node, "mount", id, func() error {
		d := s.volumes[id]
		if d == nil {
			return structs.NotFoundf("no volume %s", id)
		}
		if err := d.checkHome(node, id); err != nil {
			return err
		}
		if needsAttach && !d.attached[node] {
			s.c.T.Errorf("volume %s is mounted on %s, where it is not attached", id, node)
		}
		key := node + " " + c.AllocID
		for other := range d.mounted {
			sibling := strings.HasPrefix(other, node+" ") && c.AccessMode == structs.CSISingleNodeMultiWriter
			if other != key && c.AccessMode.SingleNode() && !sibling {
				s.c.T.Errorf("two have volume %s mounted: %s and %s", id, other, key)
			}
		}
		d.mounted[key] = c.VolumeID
		return nil
	})
}

func (s *Storage) unmount(node, alloc, id string) {
	_ = s.recordCall(node, "unmount", id, func() error {
		if d := s.volumes[id]; d != nil {
			delete(d.mounted, node+" "+alloc)
		}
		return nil
	})
}

// mounts lists the mounts of the node, by the servers' names.
func (s *Storage) mounts(node string) (held []structs.CSIHeldClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, d := range s.volumes {
		for key, volume := range d.mounted {
			if alloc, here := strings.CutPrefix(key, node+" "); here {
				k := structs.CSIClaimKey{
					Namespace: structs.DefaultNamespace,
					VolumeID:  volume,
					AllocID:   alloc,
				}
				held = append(held, structs.CSIHeldClaim{
					CSIClaimKey:      k,
					ExternalVolumeID: id,
					ExternalNodeID:   node,
				})
			}
		}
	}
	return held
}

// Attached lists to which nodes each volume is attached: "volume node".
func (s *Storage) Attached() (all []string) {
	for _, v := range s.list(true) {
		for _, node := range v.PublishedExternalNodeIDs {
			all = append(all, v.ExternalID+" "+node)
		}
	}
	return all
}

// list returns the answer of ListVolumes.
func (s *Storage) list(published bool) (all []*structs.CSIVolumeExternalStub) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.volumes)) {
		v := &structs.CSIVolumeExternalStub{ExternalID: id}
		if published {
			v.PublishedExternalNodeIDs = slices.Sorted(maps.Keys(s.volumes[id].attached))
		}
		all = append(all, v)
	}
	return all
}

// releaseAlloc unmounts a volume for an allocation, by the servers' name of it.
func (s *Storage) releaseAlloc(node, alloc, volume string) {
	_ = s.recordCall(node, "let-go", volume, func() error {
		for _, d := range s.volumes {
			if d.mounted[node+" "+alloc] == volume {
				delete(d.mounted, node+" "+alloc)
			}
		}
		return nil
	})
}

// PowerOff removes the mounts of a node without power, which cannot write any more.
func (s *Storage) PowerOff(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, node+" power-off")
	for _, d := range s.volumes {
		for key := range d.mounted {
			if strings.HasPrefix(key, node+" ") {
				delete(d.mounted, key)
			}
		}
	}
}

func (s *Storage) create(node, name string, local bool) (id string, err error) {
	err = s.recordCall(node, "create", name, func() error {
		id = "vol-" + name
		home := ""
		if local {
			home = node
		}
		s.addVolume(id, home)
		return s.volumes[id].checkHome(node, id)
	})
	return id, err
}

func (s *Storage) remove(node, id string) error {
	return s.recordCall(node, "delete", id, func() error {
		d := s.volumes[id]
		if d == nil {
			return nil
		}
		if d.home != "" && d.home != node {
			s.c.T.Errorf("volume %s on node %s is to be deleted at node %s, which does not know it", id,
				d.home, node)
		}
		if len(d.mounted) > 0 || len(d.attached) > 0 {
			s.c.T.Errorf("volume %s is deleted while it is in use: %v, %v",
				id, d.mounted, d.attached)
		}
		delete(s.volumes, id)
		return nil
	})
}

// attach rejects a volume for a single node that is attached to another node (CSI spec,
// ControllerPublishVolume errors).
func (s *Storage) attach(node, id, at string, mode structs.CSIAccessMode) error {
	return s.recordCall(node, "attach", id, func() error {
		d := s.volumes[id]
		if d == nil {
			return structs.NotFoundf("no volume %s", id)
		}
		for other := range d.attached {
			if other != at && mode.SingleNode() {
				return structs.Preconditionf("volume %s is published to %s", id, other)
			}
		}
		d.attached[at] = true
		return nil
	})
}

func (s *Storage) detach(node, id, from string) error {
	return s.recordCall(node, "detach", id, func() error {
		d := s.volumes[id]
		if d == nil {
			return nil
		}
		for key := range d.mounted {
			if strings.HasPrefix(key, from+" ") {
				s.c.T.Errorf("volume %s is detached from %s, where it is mounted: %s", id, from, key)
			}
		}
		delete(d.attached, from)
		return nil
	})
}

func (s *Storage) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.log)
}
