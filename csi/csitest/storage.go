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
	mu      sync.Mutex
	cfg     Config
	dir     string
	next    int
	volumes map[string]*volume
	mounts  []string // real mounts, in order
}

// volume is one volume and where it is.
type volume struct {
	*spec.Volume
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
	}
}

// AddVolume makes a volume with a given id, as one that existed before.
func (p *Plugin) AddVolume(id string, size int64) {
	p.storage.mu.Lock()
	defer p.storage.mu.Unlock()
	p.storage.addVolume(id,
		&spec.Volume{VolumeId: id, CapacityBytes: size})
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

// Volumes lists the ids of the volumes there are.
func (p *Plugin) Volumes() []string {
	p.storage.mu.Lock()
	defer p.storage.mu.Unlock()
	return keys(p.storage.volumes)
}

func keys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

func (w *storage) addVolume(name string, v *spec.Volume) *volume {
	made := &volume{
		Volume:    v,
		name:      name,
		attached:  map[string]bool{},
		staged:    map[string]bool{},
		published: map[string]bool{},
	}
	w.volumes[v.GetVolumeId()] = made
	return made
}

func (w *storage) byName(name string) *volume {
	for _, v := range w.volumes {
		if v.name == name {
			return v
		}
	}
	return nil
}

// findVolume returns a volume or NotFound.
func (w *storage) findVolume(id string) (*volume, error) {
	if id == "" {
		return nil, Error("InvalidArgument", "volume_id is missing")
	}
	if v := w.volumes[id]; v != nil {
		return v, nil
	}
	return nil, Error("NotFound", "no volume %q", id)
}

func (w *storage) createVolume(req *spec.CreateVolumeRequest) (*spec.Volume, error) {
	if req.GetName() == "" ||
		len(req.GetVolumeCapabilities()) == 0 {
		return nil, Error("InvalidArgument", "name or volume_capabilities is missing")
	}
	size := max(req.GetCapacityRange().GetRequiredBytes(), 0)
	if v := w.byName(req.GetName()); v != nil {
		if v.GetCapacityBytes() < size {
			return nil, Error("AlreadyExists", "volume %q exists with %d bytes",
				req.GetName(), v.GetCapacityBytes())
		}
		return cloneOf(v.Volume), nil
	}
	if size == 0 {
		size = defaultSize
	}
	w.next++
	v := &spec.Volume{
		VolumeId:      "vol-" + strconv.Itoa(w.next),
		CapacityBytes: size,
		VolumeContext: map[string]string{"made-by": w.cfg.Name},
		ContentSource: req.GetVolumeContentSource(),
	}
	if len(w.cfg.Topology) > 0 {
		v.AccessibleTopology = []*spec.Topology{{Segments: w.cfg.Topology}}
	}
	return cloneOf(w.addVolume(req.GetName(), v).Volume), nil
}

// cloneOf copies a volume for an answer, which is written after the lock is gone.
func cloneOf(v *spec.Volume) *spec.Volume {
	return proto.Clone(v).(*spec.Volume)
}

func (w *storage) deleteVolume(id string) error {
	v := w.volumes[id]
	if v != nil &&
		len(v.attached)+len(v.staged)+len(v.published) > 0 {
		return Error("FailedPrecondition", "volume %q is in use", id)
	}
	delete(w.volumes, id)
	return os.RemoveAll(filepath.Join(w.dir, id))
}

// pageOf cuts a page out of sorted ids; a token is the number of ids before it.
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
func (w *storage) bindMount(source, target string, readOnly bool) error {
	target = w.cfg.HostPath(target)
	if !w.cfg.Mounts {
		return os.MkdirAll(target, 0o755)
	}
	if slices.Contains(w.mounts, target) {
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
	w.mounts = append(w.mounts, target)
	if readOnly {
		return unix.Mount("", target, "",
			unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	return nil
}

// unmount undoes bind; rmdir also removes the directory.
func (w *storage) unmount(target string, rmdir bool) error {
	target = w.cfg.HostPath(target)
	if i := slices.Index(w.mounts, target); i >= 0 {
		err := backoff.RetryEBUSY(context.Background(), func() error {
			return unix.Unmount(target, 0)
		})
		if err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmounting %s: %w", target, err)
		}
		w.mounts = slices.Delete(w.mounts, i, i+1)
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

func (w *storage) unmountAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range slices.Backward(w.mounts) {
		_ = unix.Unmount(m, unix.MNT_DETACH)
	}
	w.mounts = nil
}
