package hostpath

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/durable"
)

// The states of a record.
const (
	stateCreating = "creating" // half-made: removed at the next start
	stateReady    = "ready"
	stateDeleting = "deleting" // half-removed: removed at the next start
)

// The types of volumes.
const (
	typeDirectory = "directory"
	typeImage     = "image"
)

// recordHead is the common part of a volume's and a snapshot's record.
type recordHead struct {
	ID    string
	Name  string
	State string
}

func (h *recordHead) head() *recordHead {
	return h
}

// content describes the data of a volume or a snapshot.
type content struct {
	Type   string
	FSType string `json:",omitempty"` // of an image that has a file system
	Size   int64
	FSSize int64 `json:",omitempty"` // of the file system; behind Size until the next stage
}

func (c *content) valid() bool {
	return (c.Type == typeDirectory || c.Type == typeImage) && c.Size >= 0 && c.FSSize >= 0
}

// volume is the record of one volume, in <id>/record.json in the directory of its data.
type volume struct {
	recordHead
	content
	Thick      bool              `json:",omitempty"` // of an image: its blocks are reserved
	Source     string            `json:",omitempty"` // "volume:<id>" or "snapshot:<id>"
	Parameters map[string]string `json:",omitempty"`
	Created    time.Time

	BootID  string             `json:",omitempty"` // the boot in which Stage and Targets were written
	Stage   *staging           `json:",omitempty"`
	Targets map[string]*target `json:",omitempty"` // by path
}

// thick reports whether the blocks of an image are reserved. Older records have the parameter only.
func (v *volume) thick() bool {
	return v.Thick || v.Parameters[paramProvisioning] == "thick"
}

// staging is where and how a volume is staged, or was about to be.
type staging struct {
	Path  string
	Use   capability
	Ready bool
}

// target is how a volume is published at a path, or was about to be.
type target struct {
	Use      capability
	ReadOnly bool
	Ready    bool
}

// capability is a volume capability as a record keeps it.
type capability struct {
	Block bool     `json:",omitempty"`
	Mode  int32    // csi.VolumeCapability_AccessMode_Mode
	Flags []string `json:",omitempty"`
}

func (u capability) equal(o capability) bool {
	return u.Block == o.Block && u.Mode == o.Mode &&
		slices.Equal(u.Flags, o.Flags)
}

// valid reports whether a record that was read is one that this program can have written.
func (v *volume) valid() bool {
	for path, t := range v.Targets {
		if t == nil || !filepath.IsAbs(path) {
			return false
		}
	}
	if v.Stage != nil && !filepath.IsAbs(v.Stage.Path) {
		return false
	}
	return v.content.valid()
}

// snapshot is the record of one snapshot: a copy of a volume's data at a time.
type snapshot struct {
	recordHead
	content
	Source  string // the volume's id
	Created time.Time
}

// row is the common part of volumes and snapshots.
type row interface {
	head() *recordHead
	valid() bool
}

// store is the data directory. It is locked against other processes while it is open.
type store struct {
	dir       string
	lock      *os.File
	volumes   *recordDir[*volume]
	snapshots *recordDir[*snapshot]
}

// openStore locks and reads a data directory. It makes a missing one. EWOULDBLOCK means that another process
// has the lock.
func openStore(dir string) (*store, error) {
	err := os.MkdirAll(dir, 0o700)
	if err != nil {
		return nil, err
	}

	dir, err = filepath.EvalSymlinks(dir) // the mount table has this path
	if err != nil {
		return nil, err
	}

	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}

	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}

	spare := &reserveFile{path: filepath.Join(dir, "spare")}
	spare.allocate()
	s := &store{
		dir:  dir,
		lock: lock,
		volumes: &recordDir[*volume]{
			dir:   filepath.Join(dir, "volumes"),
			spare: spare,
		},
		snapshots: &recordDir[*snapshot]{
			dir:   filepath.Join(dir, "snapshots"),
			spare: spare,
		},
	}

	err = errors.Join(s.volumes.loadRecords(), s.snapshots.loadRecords())
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}

	return s, nil
}

func (s *store) close() error {
	return s.lock.Close()
}

// bookedBytes returns the sum of the sizes of all volumes and snapshots.
func (s *store) bookedBytes() (sum int64) {
	for _, v := range s.volumes.listRecords() {
		sum += v.Size
	}
	for _, n := range s.snapshots.listRecords() {
		sum += n.Size
	}
	return sum
}

// recordDir is a directory with one directory per row, each with the row's record and data. A stored row
// never changes: the holder of the row's lock copies, edits and puts it.
type recordDir[R row] struct {
	dir   string
	spare *reserveFile
	mu    sync.Mutex
	rows  map[string]R
	bad   []string // directories with an unreadable record: nothing changes them
	bare  []string // directories without a record: made, but not recorded
}

const recordFile = "record.json"

// path is the directory of a row, or a file in it.
func (s *recordDir[R]) path(id string, elem ...string) string {
	return filepath.Join(s.dir, id, filepath.Join(elem...))
}

// data is the path of the data of a row: a directory or an image.
func (s *recordDir[R]) data(id, typ string) string {
	if typ == typeDirectory {
		return s.path(id, "data")
	}
	return s.path(id, "image")
}

func (s *recordDir[R]) loadRecords() error {
	s.rows = map[string]R{}
	err := os.MkdirAll(s.dir, 0o700)
	if err != nil {
		return err
	}

	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}

	for _, e := range entries {
		var r R
		b, err := os.ReadFile(s.path(e.Name(), recordFile))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			s.bare = append(s.bare, e.Name())
		case err != nil:
			return err
		case json.Unmarshal(b, &r) != nil || !s.validRecord(r, e.Name()):
			s.bad = append(s.bad, e.Name())
		default:
			s.rows[e.Name()] = r
		}
	}

	return nil
}

// validRecord reports whether a record that was read belongs to the directory it was found in.
func (s *recordDir[R]) validRecord(r R, dir string) bool {
	var none R
	if any(r) == any(none) {
		return false
	}
	states := []string{stateCreating, stateReady, stateDeleting}
	h := r.head()
	return h.ID == dir && slices.Contains(states, h.State) && r.valid()
}

// getRecord finds a row.
func (s *recordDir[R]) getRecord(id string) (r R, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok = s.rows[id]
	return r, ok
}

// findByName finds a row by the name it was made with.
func (s *recordDir[R]) findByName(name string) (r R, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if r.head().Name == name {
			return r, true
		}
	}
	return r, false
}

// listRecords returns all rows by id.
func (s *recordDir[R]) listRecords() []R {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.rows), func(a, b R) int {
		return strings.Compare(a.head().ID, b.head().ID)
	})
}

// listReady returns the rows that are neither half-made nor half-removed, by id.
func (s *recordDir[R]) listReady() []R {
	return slices.DeleteFunc(s.listRecords(), func(r R) bool {
		return r.head().State != stateReady
	})
}

// putRecord writes a row. The row is durable when putRecord returns without an error. If it cannot write a
// new row it leaves nothing.
func (s *recordDir[R]) putRecord(r R) error {
	id := r.head().ID
	dir := s.path(id)
	if err := os.Mkdir(dir, 0o700); err == nil {
		err := durable.Sync(s.dir)
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("recording %s: %w", id, err)
	}

	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}

	path := s.path(id, recordFile)
	err = durable.WriteFile(path, b)
	// Records that free space come before it is free: see reserveFile.
	if errors.Is(err, unix.ENOSPC) && s.spare.free() {
		err = durable.WriteFile(path, b)
	}
	if err != nil {
		_, known := s.getRecord(id)
		if !known {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		return fmt.Errorf("recording %s: %w", id, err)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[id] = r
	return nil
}

// deleteRecord removes the directory of a row. Its data is gone already.
func (s *recordDir[R]) deleteRecord(id string) error {
	err := os.RemoveAll(s.path(id))
	if err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.rows, id)
	s.mu.Unlock()
	s.spare.allocate()
	return durable.Sync(s.dir)
}

// reserveSize is enough for some thousand records.
const reserveSize = 256 << 10

// reserveFile reserves space on the disk. Unpublishing and deleting volumes frees space but needs a record
// first, which a full disk would prevent.
type reserveFile struct {
	mu   sync.Mutex
	path string
}

// allocate reserves the space if the disk has it. Otherwise the next deletion retries it.
func (s *reserveFile) allocate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	err = unix.Fallocate(int(f.Fd()), 0, 0, reserveSize)
	if err != nil {
		_ = os.Remove(s.path)
	}
}

// free releases the space. It returns false if none is reserved.
func (s *reserveFile) free() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return os.Remove(s.path) == nil
}
