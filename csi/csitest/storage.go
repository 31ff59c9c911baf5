package csitest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"berth/internal/backoff"
)

// defaultSize is the size of a volume without a requested size.
const defaultSize = 1 << 20

// storage is the storage behind the plugin.
type storage struct {
	// It guards all fields but cfg and dir, and is held for a whole call.
	mu  sync.Mutex
	cfg Config
	dir string
	// The number of the last created volume: an ID is not used twice.
	next    int
	volumes map[string]*volume
	mounts  []string // real mounts, in order

	snapshots  snapshots
	groups     map[string]*spec.VolumeGroupSnapshot // by their names
	conditions conditions
}

// volume is one volume with its attachments and paths.
type volume struct {
	*spec.Volume
	// It is the name of CreateVolume, or the ID of a volume that the plugin has not created.
	name      string
	attached  map[string]bool // node id -> read only
	staged    map[string]bool // staging path
	published map[string]bool // target path
}

func newStorage(cfg Config, dir string) *storage {
	return &storage{
		cfg:     cfg,
		dir:     dir,
		volumes: map[string]*volume{},

		snapshots:  snapshots{byName: map[string]*spec.Snapshot{}},
		groups:     map[string]*spec.VolumeGroupSnapshot{},
		conditions: conditions{volumes: map[string][]*spec.VolumeHealth_VolumeHealthEntry{}},
	}
}

// AddVolume adds a volume with the given ID, as if it had existed before.
func (p *Plugin) AddVolume(id string, size int64) {
	p.storage.mu.Lock()
	defer p.storage.mu.Unlock()
	p.storage.addVolume(id, &spec.Volume{VolumeId: id, CapacityBytes: size})
}

// Volume returns the nodes to which a volume is attached, its staging paths and its target paths, each
// sorted. ok is false if there is no such volume.
func (p *Plugin) Volume(id string) (attached, staged, published []string, ok bool) {
	p.storage.mu.Lock()
	defer p.storage.mu.Unlock()
	v := p.storage.volumes[id]
	if v == nil {
		return nil, nil, nil, false
	}
	return keys(v.attached), keys(v.staged), keys(v.published), true
}

// LosePower forgets the staging and target paths below a directory, as if the machine with them had lost its
// power. Attachments stay. It is for plugins that mount nothing.
func (p *Plugin) LosePower(dir string) {
	p.storage.mu.Lock()
	defer p.storage.mu.Unlock()
	below := func(path string, _ bool) bool { return strings.HasPrefix(path, dir+"/") }
	for _, v := range p.storage.volumes {
		maps.DeleteFunc(v.staged, below)
		maps.DeleteFunc(v.published, below)
	}
}

// Volumes lists the IDs of the existing volumes.
func (p *Plugin) Volumes() []string {
	p.storage.mu.Lock()
	defer p.storage.mu.Unlock()
	return keys(p.storage.volumes)
}

// keys sorts, so that the lists which tests compare have one order.
func keys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

// addVolume adds a volume without attachments and paths.
func (store *storage) addVolume(name string, v *spec.Volume) *volume {
	made := &volume{
		Volume:    v,
		name:      name,
		attached:  map[string]bool{},
		staged:    map[string]bool{},
		published: map[string]bool{},
	}
	store.volumes[v.GetVolumeId()] = made
	return made
}

func (store *storage) byName(name string) *volume {
	for _, v := range store.volumes {
		if v.name == name {
			return v
		}
	}
	return nil
}

// findVolume returns a volume or NotFound.
func (store *storage) findVolume(id string) (*volume, error) {
	if id == "" {
		return nil, Error("InvalidArgument", "volume_id is missing")
	}
	if v := store.volumes[id]; v != nil {
		return v, nil
	}
	return nil, Error("NotFound", "no volume %q", id)
}

// createVolume makes a volume, or finds the one of that name.
func (store *storage) createVolume(req *spec.CreateVolumeRequest) (*spec.Volume, error) {
	if req.GetName() == "" ||
		len(req.GetVolumeCapabilities()) == 0 {
		return nil, Error("InvalidArgument", "name or volume_capabilities is missing")
	}

	size := max(req.GetCapacityRange().GetRequiredBytes(), 0)
	// As the specification demands, the name makes the call idempotent, unless the sizes contradict each
	// other.
	if v := store.byName(req.GetName()); v != nil {
		if v.GetCapacityBytes() < size {
			return nil, Error("AlreadyExists", "volume %q exists with %d bytes",
				req.GetName(), v.GetCapacityBytes())
		}
		return cloneOf(v.Volume), nil
	}

	if size == 0 {
		size = defaultSize
	}

	store.next++
	v := &spec.Volume{
		VolumeId:      "vol-" + strconv.Itoa(store.next),
		CapacityBytes: size,
		VolumeContext: map[string]string{"made-by": store.cfg.Name},
		ContentSource: req.GetVolumeContentSource(),
	}

	if len(store.cfg.Topology) > 0 {
		v.AccessibleTopology = []*spec.Topology{{Segments: store.cfg.Topology}}
	}

	return cloneOf(store.addVolume(req.GetName(), v).Volume), nil
}

// cloneOf copies a volume for an answer, which is encoded without the lock.
func cloneOf(v *spec.Volume) *spec.Volume {
	return proto.Clone(v).(*spec.Volume)
}

func (store *storage) deleteVolume(id string) error {
	// A missing volume is deleted already.
	v := store.volumes[id]
	if v != nil &&
		len(v.attached)+len(v.staged)+len(v.published) > 0 {
		return Error("FailedPrecondition", "volume %q is in use", id)
	}
	delete(store.volumes, id)
	return os.RemoveAll(filepath.Join(store.dir, id))
}

// pageOf returns a page of sorted IDs. A token is the number of IDs before the page.
func pageOf(ids []string, token string, n int32) (cut []string, next string, err error) {
	from := 0
	if token != "" {
		from, err = strconv.Atoi(token)
		if err != nil || from < 0 || from > len(ids) {
			return nil, "", Error("Aborted", "bad starting_token %q", token)
		}
	}

	to := len(ids)
	if n > 0 && from+int(n) < to {
		to = from + int(n)
		next = strconv.Itoa(to)
	}

	return ids[from:to], next, nil
}

// bindMount mounts a volume's directory at a path, if the plugin makes mounts.
func (store *storage) bindMount(source, target string, readOnly bool) error {
	target = store.cfg.HostPath(target)
	if !store.cfg.Mounts {
		return os.MkdirAll(target, 0o755)
	}

	// A repeat of a call must not stack a second mount.
	if slices.Contains(store.mounts, target) {
		return nil
	}

	for _, dir := range []string{source, target} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}

	err := unix.Mount(source, target, "", unix.MS_BIND, "")
	if err != nil {
		return fmt.Errorf("binding %s to %s: %w", source, target, err)
	}

	store.mounts = append(store.mounts, target)
	if readOnly {
		// The kernel ignores MS_RDONLY when it makes a bind mount; only the remount sets it.
		return unix.Mount("", target, "",
			unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}

	return nil
}

// unmount undoes bindMount. With rmdir it also removes the directory.
func (store *storage) unmount(target string, rmdir bool) error {
	target = store.cfg.HostPath(target)
	if i := slices.Index(store.mounts, target); i >= 0 {
		err := backoff.RetryEBUSY(context.Background(), func() error {
			return unix.Unmount(target, 0)
		})
		// EINVAL: the path is no mount any more.
		if err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmounting %s: %w", target, err)
		}

		store.mounts = slices.Delete(store.mounts, i, i+1)
	}

	if !rmdir {
		return nil
	}

	err := os.Remove(target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	return nil
}

// unmountAll detaches all mounts, also busy ones: a failed test may leave an open file.
func (store *storage) unmountAll() {
	store.mu.Lock()
	defer store.mu.Unlock()
	// Later mounts may be below earlier ones.
	for _, m := range slices.Backward(store.mounts) {
		_ = unix.Unmount(m, unix.MNT_DETACH)
	}
	store.mounts = nil
}
