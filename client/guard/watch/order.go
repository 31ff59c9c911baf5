package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/client/drivers/cgroups"
	"berth/internal/boottime"
	"berth/internal/files"
	"berth/structs"
)

// ErrNoGuard says that no guard works on this node, so that nothing can be ordered.
var ErrNoGuard = errors.New("no guard works on this node")

// Order tells how to end one allocation.
type Order struct {
	AllocID string
	BootID  string // the cgroups and mounts are of this boot
	// Delay is the time from the end of the lease to the end of the allocation.
	Delay  time.Duration
	Groups []*cgroups.Group // of its tasks; they need not exist
	// Tasks are the cgroups of tasks whose drivers make them, by the name of the task, from before its start.
	Tasks map[string]*cgroups.Group `json:",omitempty"`
	// Volumes are those under the policy "lease", which the guard unmounts.
	Volumes []OrderedVolume `json:",omitempty"`
}

// End returns when the allocation has to end, if the lease ends at until: at once without a lease.
func (o *Order) End(until boottime.Instant) boottime.Instant {
	if until.IsZero() {
		return 0
	}
	return until.Add(o.Delay)
}

// AllGroups returns the cgroups of all tasks, as far as these have been started.
func (o *Order) AllGroups() []*cgroups.Group {
	return slices.AppendSeq(slices.Clone(o.Groups), maps.Values(o.Tasks))
}

// Same reports whether two orders are equal. A nil one equals none.
func (o *Order) Same(other *Order) bool {
	if o == nil || other == nil {
		return false
	}
	a, errA := json.Marshal(o)
	b, errB := json.Marshal(other)
	return errA == nil && errB == nil && string(a) == string(b)
}

// OrderedVolume has the mount points of one volume on the host. They need not be mounted.
type OrderedVolume struct {
	Namespace, ID string
	Target        string // of this allocation
	Stage         string // of all allocations of this node
}

// Due is the mark that the lease has ended for an allocation.
type Due struct {
	AllocID string
	At      boottime.Instant // the end of the lease with the delay; 0: there was no lease of this boot
}

// Ended is the record that no process of an allocation is left.
type Ended struct {
	AllocID string
	BootID  string
	Due     boottime.Instant // as in the mark
	Empty   boottime.Instant // when no process was left
	Time    time.Time        // the same, by the machine's clock
	// Unmounted says that nothing is mounted any more at the mount points of the order.
	Unmounted bool
	// Left are the mount points that are, or may be, still mounted.
	Left []Left `json:",omitempty"`
}

// Left is a mount point at which something is left, and why.
type Left struct {
	Path   string
	Reason string
}

// OrderFiles are the files by which the agent tells the guard what to end, and by which the guard tells what
// it has ended. One set of files belongs to each guarded allocation:
//
//	<alloc>.order  on the disk: its cgroups and mounts, from before its first mount and task until its end
//	<alloc>.ended  on the disk: no process of it is left, and what has become of its mounts
//	<alloc>.due    in memory: the lease has ended for it, and a later lease does not change that
//
// A mark of what is due does not wait for a disk that may hang, and nothing of it is left after a reboot.
type OrderFiles struct {
	Dir    string // on the disk
	Memory string // on a tmpfs
}

const (
	orderSuffix = ".order"
	endedSuffix = ".ended"
	dueSuffix   = ".due"
)

// maxOrder bounds a file. An order of 100 tasks and volumes has less.
const maxOrder = 1 << 20

// Put writes an order. It is durable when it returns.
func (f OrderFiles) Put(o *Order) error {
	path, err := f.path(f.Dir, o.AllocID, orderSuffix)
	if err != nil {
		return err
	}
	return writeOrder(path, o)
}

// Get returns the order of an allocation, nil if there is none.
func (f OrderFiles) Get(allocID string) (*Order, error) {
	path, err := f.path(f.Dir, allocID, orderSuffix)
	if err != nil {
		return nil, err
	}
	return readOrder[Order](path)
}

// List returns the IDs of the allocations with an order.
func (f OrderFiles) List() ([]string, error) { return listOrders(f.Dir, orderSuffix) }

// ListDue returns the IDs of the allocations with a mark.
func (f OrderFiles) ListDue() ([]string, error) { return listOrders(f.Memory, dueSuffix) }

func listOrders(dir, suffix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	var ids []string
	for _, e := range entries {
		if id, is := strings.CutSuffix(e.Name(), suffix); is {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// MarkDue marks that the lease has ended for an allocation. The first mark stays.
func (f OrderFiles) MarkDue(d *Due) error {
	path, err := f.path(f.Memory, d.AllocID, dueSuffix)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return writeOrder(path, d)
}

// Due returns the mark of an allocation, nil if there is none.
func (f OrderFiles) Due(allocID string) (*Due, error) {
	path, err := f.path(f.Memory, allocID, dueSuffix)
	if err != nil {
		return nil, err
	}
	return readOrder[Due](path)
}

// WriteEnded writes the record of an allocation, or replaces it. It is durable when it returns.
func (f OrderFiles) WriteEnded(e *Ended) error {
	path, err := f.path(f.Dir, e.AllocID, endedSuffix)
	if err != nil {
		return err
	}
	return writeOrder(path, e)
}

// Ended returns the record of an allocation, nil if there is none.
func (f OrderFiles) Ended(allocID string) (*Ended, error) {
	path, err := f.path(f.Dir, allocID, endedSuffix)
	if err != nil {
		return nil, err
	}
	return readOrder[Ended](path)
}

// Remove removes the files of an allocation. The order goes last, so that a crash leaves no mark or record
// without it.
func (f OrderFiles) Remove(allocID string) error {
	files := []struct{ dir, suffix string }{
		{f.Memory, dueSuffix},
		{f.Dir, endedSuffix},
		{f.Dir, orderSuffix},
	}

	for _, file := range files {
		path, err := f.path(file.dir, allocID, file.suffix)
		if err != nil {
			return err
		}
		err = os.Remove(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Sweep removes records without an order, and what was left of a write.
func (f OrderFiles) Sweep() error {
	entries, err := os.ReadDir(f.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}

	ids, err := f.List()
	if err != nil {
		return err
	}

	var errs []error
	for _, e := range entries {
		id, ended := strings.CutSuffix(e.Name(), endedSuffix)
		part := strings.Contains(e.Name(), orderSuffix+".") || strings.Contains(e.Name(), endedSuffix+".")
		if part || ended && !slices.Contains(ids, id) {
			errs = append(errs, os.Remove(filepath.Join(f.Dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

func (f OrderFiles) path(dir, allocID, suffix string) (string, error) {
	if allocID == "" || allocID[0] == '.' || strings.ContainsRune(allocID, '/') {
		return "", structs.Invalidf("allocation ID %q: expected the name of a file", allocID)
	}
	return filepath.Join(dir, allocID+suffix), nil
}

// writeOrder replaces a file at once. The guards of two agents may write the same file at a time, so each
// process has a temporary name of its own.
func writeOrder(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxOrder {
		return structs.Invalidf("%s has %d bytes; expected at most %d", path, len(b), maxOrder)
	}

	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	err = files.WriteDurable(part, b)
	if err == nil {
		err = files.RenameDurable(part, path)
	}
	return err
}

func readOrder[T any](path string) (*T, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()

	b, err := io.ReadAll(io.LimitReader(file, maxOrder))
	if err != nil {
		return nil, err
	}

	v := new(T)
	err = json.Unmarshal(b, v)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return v, nil
}
