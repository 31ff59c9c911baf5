// Package disk has the data of volumes and snapshots in the data directory of the driver. The Store keeps
// their records beside their data: a record is durable before the driver acts on it. The other functions copy
// images and directories, make, grow and freeze the file systems of images with the programs of the machine,
// and attach images to loop devices of the kernel. Each error has a gRPC code. The package mounts nothing and
// logs nothing.
package disk

import (
	"context"
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

	"berth/internal/backoff"
	"berth/internal/files"
)

// The states of a record.
const (
	Creating = "creating" // half-made: removed at the next start
	Ready    = "ready"
	Deleting = "deleting" // half-removed: removed at the next start
)

// The types of volumes.
const (
	Directory = "directory"
	Image     = "image"
)

// ParamProvisioning is the parameter of an image: thick (default), its blocks reserved at once, or thin.
const ParamProvisioning = "provisioning"

// Head is the common part of a volume's and a snapshot's record.
type Head struct {
	ID    string
	Name  string
	State string
}

// Header returns the common part of a record.
func (h *Head) Header() *Head {
	return h
}

// Content describes the data of a volume or a snapshot.
type Content struct {
	Type   string
	FSType string `json:",omitempty"` // of an image that has a file system
	Size   int64
	FSSize int64 `json:",omitempty"` // of the file system; behind Size until the next stage
}

func (c *Content) valid() bool {
	return (c.Type == Directory || c.Type == Image) && c.Size >= 0 && c.FSSize >= 0
}

// Volume is the record of one volume, in <id>/record.json in the directory of its data.
type Volume struct {
	Head
	Content
	Thick      bool              `json:",omitempty"` // of an image: its blocks are reserved
	Source     string            `json:",omitempty"` // "volume:<id>" or "snapshot:<id>"
	Parameters map[string]string `json:",omitempty"`
	Created    time.Time

	BootID  string             `json:",omitempty"` // the boot in which Stage and Targets were written
	Stage   *Staging           `json:",omitempty"`
	Targets map[string]*Target `json:",omitempty"` // by path
}

// IsThick reports whether the blocks of an image are reserved. Older records have the parameter only.
func (v *Volume) IsThick() bool {
	return v.Thick || v.Parameters[ParamProvisioning] == "thick"
}

// EditCopy returns a copy of a record to edit, without the mounts of an earlier boot. The copy shares the
// parameters and the flags, which never change.
func (v *Volume) EditCopy() *Volume {
	c := *v
	c.Targets = map[string]*Target{}
	if c.BootID != BootID() {
		c.BootID = BootID()
		c.Stage = nil
		return &c
	}

	for p, t := range v.Targets {
		c.Targets[p] = new(*t)
	}

	if v.Stage != nil {
		c.Stage = new(*v.Stage)
	}

	return &c
}

// BootID identifies the boot of the machine. The mounts of an earlier boot do not exist.
var BootID = sync.OnceValue(func() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
})

// Staging is where and how a volume is staged, or was about to be. Ready is false between the record and the
// mark.
type Staging struct {
	Path  string
	Use   Capability
	Ready bool
}

// Target is how a volume is published at a path, or was about to be. Ready is false between the record and
// the mark.
type Target struct {
	Use      Capability
	ReadOnly bool
	Ready    bool
}

// Capability is a volume capability as a record keeps it.
type Capability struct {
	Block bool     `json:",omitempty"`
	Mode  int32    // csi.VolumeCapability_AccessMode_Mode
	Flags []string `json:",omitempty"`
}

// Equal reports whether two capabilities are the same.
func (u Capability) Equal(o Capability) bool {
	return u.Block == o.Block && u.Mode == o.Mode &&
		slices.Equal(u.Flags, o.Flags)
}

// valid reports whether a record that was read is one that this program can have written.
func (v *Volume) valid() bool {
	for path, t := range v.Targets {
		if t == nil || !filepath.IsAbs(path) {
			return false
		}
	}
	if v.Stage != nil && !filepath.IsAbs(v.Stage.Path) {
		return false
	}
	return v.Content.valid()
}

// Snapshot is the record of one snapshot: a copy of a volume's data at a time.
type Snapshot struct {
	Head
	Content
	Source  string // the volume's id
	Created time.Time
	Group   string `json:",omitempty"` // the id of the group of which it is a member
}

// Group is the record of a group snapshot.
type Group struct {
	Head
	Sources   []string // the ids of its volumes, sorted
	Snapshots []string // the ids of its snapshots in the order of Sources, once it is ready
	Created   time.Time
}

func (g *Group) valid() bool { return g.State != Ready || len(g.Snapshots) == len(g.Sources) }

// Row is the common part of volumes and snapshots.
type Row interface {
	Header() *Head
	valid() bool
}

// Store is the data directory. It is locked against other processes while it is open.
type Store struct {
	Dir       string
	lock      *os.File
	Volumes   *Table[*Volume]
	Snapshots *Table[*Snapshot]
	Groups    *Table[*Group]
}

// OpenStore locks and reads a data directory. It makes a missing one. EWOULDBLOCK means that another process
// has the lock.
func OpenStore(dir string) (*Store, error) {
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

	// The lock ends with the process, so a kill leaves none.
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}

	spare := &reserveFile{path: filepath.Join(dir, "spare")}
	spare.allocate()
	s := &Store{
		Dir:  dir,
		lock: lock,
		Volumes: &Table[*Volume]{
			dir:   filepath.Join(dir, "volumes"),
			spare: spare,
		},
		Snapshots: &Table[*Snapshot]{
			dir:   filepath.Join(dir, "snapshots"),
			spare: spare,
		},
		Groups: &Table[*Group]{
			dir:   filepath.Join(dir, "groups"),
			spare: spare,
		},
	}

	err = errors.Join(s.Volumes.loadRecords(), s.Snapshots.loadRecords(), s.Groups.loadRecords())
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}

	return s, nil
}

// lockRetry is the time between two attempts to lock the data directory.
const lockRetry = 100 * time.Millisecond

// OpenFreeStore is OpenStore once no other process has the lock. It calls waiting once if one has. The error
// comes from ctx if ctx ends before.
func OpenFreeStore(ctx context.Context, dir string, waiting func()) (*Store, error) {
	report := sync.OnceFunc(waiting)
	for {
		s, err := OpenStore(dir)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return s, err
		}
		report()
		if !backoff.Sleep(ctx, lockRetry) {
			return nil, ctx.Err()
		}
	}
}

// Close unlocks the data directory.
func (s *Store) Close() error {
	return s.lock.Close()
}

// BookedBytes returns the sum of the sizes of all volumes and snapshots.
func (s *Store) BookedBytes() (sum int64) {
	for _, v := range s.Volumes.List() {
		sum += v.Size
	}
	for _, n := range s.Snapshots.List() {
		sum += n.Size
	}
	return sum
}

// Table is a directory with one directory per row, each with the row's record and data. A stored row
// never changes: the holder of the row's lock copies, edits and puts it.
type Table[R Row] struct {
	dir   string
	spare *reserveFile
	mu    sync.Mutex
	rows  map[string]R
	Bad   []string // directories with an unreadable record: nothing changes them
	Bare  []string // directories without a record: made, but not recorded
}

// RecordFile is the name of the record in the directory of a row.
const RecordFile = "record.json"

// Path is the directory of a row, or a file in it.
func (s *Table[R]) Path(id string, elem ...string) string {
	return filepath.Join(s.dir, id, filepath.Join(elem...))
}

// Data is the path of the data of a row: a directory or an image.
func (s *Table[R]) Data(id, typ string) string {
	if typ == Directory {
		return s.Path(id, "data")
	}
	return s.Path(id, "image")
}

func (s *Table[R]) loadRecords() error {
	s.rows = map[string]R{}
	// Only the user of the driver reaches the data of volumes by this path.
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
		b, err := os.ReadFile(s.Path(e.Name(), RecordFile))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			s.Bare = append(s.Bare, e.Name())
		case err != nil:
			return err
		case json.Unmarshal(b, &r) != nil || !s.validRecord(r, e.Name()):
			s.Bad = append(s.Bad, e.Name())
		default:
			s.rows[e.Name()] = r
		}
	}

	return nil
}

// validRecord reports whether a record that was read belongs to the directory it was found in.
func (s *Table[R]) validRecord(r R, dir string) bool {
	var none R
	if any(r) == any(none) {
		return false
	}
	states := []string{Creating, Ready, Deleting}
	h := r.Header()
	return h.ID == dir && slices.Contains(states, h.State) && r.valid()
}

// Get finds a row.
func (s *Table[R]) Get(id string) (r R, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok = s.rows[id]
	return r, ok
}

// FindByName finds a row by the name it was made with.
func (s *Table[R]) FindByName(name string) (r R, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if r.Header().Name == name {
			return r, true
		}
	}
	return r, false
}

// List returns all rows by id.
func (s *Table[R]) List() []R {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.rows), func(a, b R) int {
		return strings.Compare(a.Header().ID, b.Header().ID)
	})
}

// ListReady returns the rows that are neither half-made nor half-removed, by id.
func (s *Table[R]) ListReady() []R {
	return slices.DeleteFunc(s.List(), func(r R) bool {
		return r.Header().State != Ready
	})
}

// Put writes a row. The row is durable when Put returns without an error. If it cannot write a
// new row it leaves nothing.
func (s *Table[R]) Put(r R) error {
	// The entry of a new directory has to last before the record in it counts.
	id := r.Header().ID
	dir := s.Path(id)
	if err := os.Mkdir(dir, 0o700); err == nil {
		err := files.SyncDurable(s.dir)
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

	path := s.Path(id, RecordFile)
	err = files.WriteDurable(path, b)
	// Records that free space come before it is free: see reserveFile.
	if errors.Is(err, unix.ENOSPC) && s.spare.free() {
		err = files.WriteDurable(path, b)
	}
	if err != nil {
		// A row that was known keeps its old record, and its data.
		_, known := s.Get(id)
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

// Delete removes the directory of a row. Its data is gone already.
func (s *Table[R]) Delete(id string) error {
	// The row is the last: after a failure a repeat finds it.
	err := os.RemoveAll(s.Path(id))
	if err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.rows, id)
	s.mu.Unlock()
	s.spare.allocate()
	return files.SyncDurable(s.dir)
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
