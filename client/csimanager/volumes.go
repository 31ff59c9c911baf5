package csimanager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"berth/client/hook"
	"berth/client/mounts"
	"berth/csi"
	"berth/internal/backoff"
	"berth/internal/keylock"
	"berth/structs"
)

// maxPath is the longest path that every plugin has to take (CSI spec, "Size Limits").
const maxPath = 128

// VolumeKey names a volume.
type VolumeKey struct{ Namespace, ID string }

func (k VolumeKey) String() string { return k.Namespace + "/" + k.ID }

// Use is one allocation's use of a volume, with all that the plugin is to be told.
type Use struct {
	VolumeKey
	AllocID        string
	PluginID       string
	Provider       string // the driver that the plugin's ID belongs to, "" if that is not known
	ExternalID     string
	AccessMode     structs.CSIAccessMode
	AttachmentMode structs.CSIAttachmentMode
	MountOptions   *structs.CSIMountOptions // of the volume, with those of the job over it
	ReadOnly       bool
	VolumeContext  map[string]string
	PublishContext structs.Secrets
	ExternalNodeID string // the plugin's ID of this node, where the volume is attached
	Secrets        structs.Secrets
	// Grant is the index of the claim's grant: what is mounted here under an earlier one is not believed.
	Grant uint64
	// ExpandBytes is the size to which the node has to grow what is on the volume, 0 if it has not to.
	ExpandBytes int64
	// Expanded, if not nil, is told what came of that, without a lock. A volume that did not grow is used.
	Expanded func(ctx context.Context, capacity int64, err error)
	// Confirm, if not nil, is asked right before the plugin is to make the volume usable here, and says
	// whether the claim still holds: what came before may have taken long.
	Confirm func(ctx context.Context) error
}

// Volumes brings volumes to the allocations of this node and back, and keeps the book of them.
type Volumes struct {
	m       *Manager
	logger  hclog.Logger
	book    book
	seq     keylock.Map // one sequence of steps per volume
	parking parking
	root    string
	boot    string
}

func newVolumes(m *Manager) *Volumes {
	root := filepath.Clean(m.cfg.Root)
	if real, err := mounts.Resolve(root); err == nil { // else every Up will say why
		root = real
	}
	return &Volumes{m: m, logger: m.logger.Named("volumes"), book: book{m.cfg.DB}, root: root, boot: bootID()}
}

// Root is the directory on the host under which volumes are staged and published.
func (v *Volumes) Root() string { return v.root }

// Claim writes down that an allocation is about to claim a volume, so that its Down will release it.
func (v *Volumes) Claim(k VolumeKey, allocID string) error {
	p, err := v.book.publish(k, allocID)
	if err != nil || p != nil && p.State != released {
		return err
	}
	return v.book.putPublish(&publishRecord{Namespace: k.Namespace, VolumeID: k.ID, AllocID: allocID, State: claimed})
}

// Up brings a volume to an allocation: staged where the plugin wants that, published, and written down.
// What is there already is left as it is. Failures that are not final are tried again with the same
// arguments until ctx ends; progress, if not nil, is told what is being waited for.
func (v *Volumes) Up(ctx context.Context, u *Use, progress func(string)) (hook.VolumeMount, error) {
	var m hook.VolumeMount
	var grown *growth
	err := v.retry(ctx, progress, func() (err error) {
		m, grown, err = v.up(ctx, u)
		return err
	})
	if grown != nil && u.Expanded != nil {
		u.Expanded(ctx, grown.capacity, grown.err)
	}
	if err != nil {
		return hook.VolumeMount{}, fmt.Errorf("volume %s: %w", u.VolumeKey, err)
	}
	return m, nil
}

func (v *Volumes) retry(ctx context.Context, progress func(string), try func() error) error {
	delays := backoff.Backoff{Min: v.m.cfg.RetryMin, Max: v.m.cfg.RetryMax}
	for {
		err := try()
		if err == nil || csi.Final(err) {
			return err
		}
		if progress != nil {
			progress(err.Error())
		}
		if !sleep(ctx, delays.Next()) {
			return err
		}
	}
}

// up is one try. It holds the volume's lock for no longer than its own calls may take. grown is nil when it
// did not come so far as to grow what is on the volume.
func (v *Volumes) up(ctx context.Context, u *Use) (m hook.VolumeMount, grown *growth, err error) {
	conn, err := v.m.Client(ctx, structs.CSIKindNode, u.PluginID)
	if err != nil {
		return m, nil, err
	}
	if err := conn.CheckDriver(u.Provider, "used"); err != nil {
		return m, nil, err
	}
	release, err := acquire(ctx, &v.seq, u.VolumeKey.String(), "bringing it to the allocation")
	if err != nil {
		return m, nil, err
	}
	defer release()
	w, err := v.load(ctx, conn, u.VolumeKey, u.AllocID)
	if err != nil {
		return m, nil, err
	}
	if err := w.begin(u); err != nil {
		return m, nil, err
	}
	if u.Confirm != nil && !w.isPublished() {
		if err := u.Confirm(ctx); err != nil {
			return m, nil, err
		}
	}
	if err := w.stageVolume(u); err != nil {
		return m, nil, err
	}
	if err := w.expandStaged(u); err != nil {
		return m, nil, err
	}
	if err := w.publishVolume(u); err != nil {
		return m, w.grown, err
	}
	return w.mount(), w.grown, nil
}

// work is one sequence of steps on one volume for one allocation, under the volume's lock.
type work struct {
	ctx context.Context
	*Volumes
	key     VolumeKey
	conn    *Conn // nil when no call will be needed
	table   *mounts.Table
	stage   *stageRecord
	publish *publishRecord
	users   []*publishRecord // of other allocations that the volume has to stay staged for
	grown   *growth          // nil unless what is on it was to grow
}

// load reads all that decisions are taken on: the book and the mount table. Without both nothing is done.
func (v *Volumes) load(ctx context.Context, conn *Conn, k VolumeKey, allocID string) (*work, error) {
	w := &work{ctx: ctx, Volumes: v, key: k, conn: conn}
	var errs [4]error
	w.stage, errs[0] = v.book.stage(k)
	w.publish, errs[1] = v.book.publish(k, allocID)
	w.users, errs[2] = v.book.users(k, allocID)
	w.table, errs[3] = mounts.Read()
	if err := errors.Join(errs[:]...); err != nil || conn == nil {
		return w, err
	}
	return w, w.checkDriver()
}

// checkDriver refuses to call another driver than the one that staged or published the volume: it would
// answer that an unknown volume is gone.
func (w *work) checkDriver() error {
	if w.stage != nil {
		if err := w.conn.CheckDriver(w.stage.Provider, "called for the staged volume"); err != nil {
			return err
		}
	}
	if w.publish != nil && w.publish.touched() {
		return w.conn.CheckDriver(w.publish.Provider, "called for the published volume")
	}
	return nil
}

// volumeDir is the one directory of a volume on this node, relative to the root.
func volumeDir(k VolumeKey) string { return ShortName(k.Namespace, k.ID) }

func stagePath(dir string) string             { return filepath.Join(dir, "stage") }
func targetParent(dir, allocID string) string { return filepath.Join(dir, ShortName(allocID)) }
func targetPath(dir, allocID string) string {
	return filepath.Join(targetParent(dir, allocID), "mount")
}

func (v *Volumes) host(rel string) string { return filepath.Join(v.root, rel) }

// inPlugin translates a path on the host into the plugin's scope.
func (w *work) inPlugin(rel string) (string, error) {
	reg := w.conn.Registration
	below, ok := strings.CutPrefix(w.host(rel), strings.TrimSuffix(reg.HostMountPath, "/")+"/")
	if !ok || reg.PluginMountPath == "" {
		return "", structs.Errorf(structs.KindPrecondition, "plugin %q: %s is not within what the plugin sees of the host (%q as %q)",
			reg.ID, w.host(rel), reg.HostMountPath, reg.PluginMountPath)
	}
	path := filepath.Join(reg.PluginMountPath, below)
	if len(path) > maxPath {
		return "", structs.Errorf(structs.KindInvalid, "plugin %q: the path %s is %d bytes long, plugins need not take more than %d: shorten stage_publish_base_dir",
			reg.ID, path, len(path), maxPath)
	}
	return path, nil
}

// begin checks the use against what is in the book, and enters it.
func (w *work) begin(u *Use) error {
	if len(w.users) > 0 && u.AccessMode.SingleNode() {
		return structs.Errorf(structs.KindUnavailable, "it is still in use on this node by %s, and its access mode %s allows one user",
			allocs(w.users), u.AccessMode)
	}
	if w.stage != nil && w.stage.Use != useDigest(u) {
		if len(w.users) > 0 {
			return structs.Errorf(structs.KindPrecondition, "plugin %q: it is staged on this node for %s with other modes or mount options",
				u.PluginID, allocs(w.users))
		}
		if err := w.unstageVolume(); err != nil {
			return err
		}
	}
	before := w.publish
	p := &publishRecord{Namespace: u.Namespace, VolumeID: u.ID, AllocID: u.AllocID, State: claimed}
	if before != nil && before.touched() {
		if before.Grant != 0 && before.Grant != u.Grant {
			return structs.Errorf(structs.KindConflict, "it is still mounted here under a former grant of the claim (%d, now %d): others may have used it since",
				before.Grant, u.Grant)
		}
		*p = *before
	}
	w.publish, p.Grant = p, u.Grant
	p.PluginID, p.ExternalID, p.Provider = u.PluginID, u.ExternalID, w.conn.Info.Provider
	p.ExternalNodeID = u.ExternalNodeID
	p.AccessMode, p.AttachmentMode, p.ReadOnly = u.AccessMode, u.AttachmentMode, u.ReadOnly
	if p.Dir == "" {
		p.Dir = volumeDir(u.VolumeKey)
	}
	if before != nil && *before == *p {
		return nil
	}
	return w.book.putPublish(p)
}

func allocs(users []*publishRecord) string {
	names := make([]string, len(users))
	for i, p := range users {
		names[i] = "allocation " + structs.ShortID(p.AllocID)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// isStaged believes the book only as far as it can be checked: under this boot of the kernel, and with
// the mount still there if one was seen.
func (w *work) isStaged() bool {
	s := w.stage
	return s != nil && s.State == staged && s.BootID == w.boot &&
		(!s.Mounted || w.table.Mounted(w.host(stagePath(s.Dir))))
}

func (w *work) isPublished() bool {
	p := w.publish
	return p.State == published && p.BootID == w.boot &&
		(!p.Mounted || w.table.Mounted(w.host(targetPath(p.Dir, p.AllocID))))
}

func (w *work) stageVolume(u *Use) error {
	if !w.conn.Info.NodeInfo.RequiresNodeStageVolume || w.isStaged() {
		return nil
	}
	if w.stage == nil {
		w.stage = &stageRecord{Namespace: u.Namespace, VolumeID: u.ID, PluginID: u.PluginID, ExternalID: u.ExternalID, Dir: w.publish.Dir}
	}
	s := w.stage
	s.State, s.Use, s.Provider = staging, useDigest(u), w.conn.Info.Provider
	if err := w.book.putStage(s); err != nil {
		return err
	}
	path, err := w.inPlugin(stagePath(s.Dir))
	if err != nil {
		return err
	}
	if err := w.makeDir(stagePath(s.Dir)); err != nil {
		return fmt.Errorf("making its staging directory: %w", err)
	}
	call := func(ctx context.Context, conn *Conn) error {
		return conn.NodeStageVolume(ctx, &csi.StageRequest{Use: u.forPlugin(), StagingPath: path})
	}
	err = w.call("NodeStageVolume", u.PluginID, u.ExternalID, path, call)
	if err != nil {
		return fmt.Errorf("staging: %w", err)
	}
	if err := w.reread(); err != nil {
		return err
	}
	s.State, s.BootID, s.Mounted = staged, w.boot, w.table.Mounted(w.host(stagePath(s.Dir)))
	return w.book.putStage(s)
}

func (w *work) publishVolume(u *Use) error {
	if w.isPublished() {
		return nil
	}
	p := w.publish
	p.State = publishing
	if err := w.book.putPublish(p); err != nil {
		return err
	}
	err := w.askPublish(u)
	if csi.Code(err) == "FailedPrecondition" && w.stage != nil {
		// The plugin may have lost what was staged (CSI spec, NodePublishVolume errors): stage again, once.
		w.stage.State = staging
		if err := w.stageVolume(u); err != nil {
			return err
		}
		err = w.askPublish(u)
	}
	if err != nil {
		return fmt.Errorf("publishing: %w", err)
	}
	if err := w.reread(); err != nil {
		return err
	}
	target := w.host(targetPath(p.Dir, p.AllocID))
	p.Mounted = w.table.Mounted(target)
	p.Writable = p.Mounted && !w.table.ReadOnly(target) && u.AttachmentMode == structs.CSIFileSystem
	if err := w.visible(u, target); err != nil {
		return err
	}
	if err := w.expandPublished(u); err != nil {
		return err
	}
	p.State, p.BootID = published, w.boot
	return w.book.putPublish(p)
}

func (w *work) askPublish(u *Use) error {
	p := w.publish
	target, err := w.inPlugin(targetPath(p.Dir, p.AllocID))
	if err != nil {
		return err
	}
	req := &csi.PublishRequest{Use: u.forPlugin(), TargetPath: target, ReadOnly: u.ReadOnly || u.AccessMode.ReaderOnly()}
	if w.stage != nil {
		if req.StagingPath, err = w.inPlugin(stagePath(w.stage.Dir)); err != nil {
			return err
		}
	}
	if err := w.makeDir(targetParent(p.Dir, p.AllocID)); err != nil {
		return fmt.Errorf("making the directory of its target: %w", err)
	}
	call := func(ctx context.Context, conn *Conn) error { return conn.NodePublishVolume(ctx, req) }
	return w.call("NodePublishVolume", u.PluginID, u.ExternalID, target, call)
}

// makeDir makes a directory of the volume's. One that is mounted on is not looked into: what is there may
// never answer.
func (w *work) makeDir(rel string) error {
	path := w.host(rel)
	if w.table.Mounted(path) {
		return nil
	}
	return os.MkdirAll(path, 0o750)
}

// visible makes sure that a task would find the volume, and not a directory of the host, at the target.
func (w *work) visible(u *Use, target string) error {
	if w.publish.Mounted || w.m.cfg.AcceptUnmounted {
		return nil
	}
	if u.AttachmentMode == structs.CSIBlockDevice {
		fi, err := os.Lstat(target)
		if err == nil && fi.Mode()&os.ModeDevice != 0 && fi.Mode()&os.ModeCharDevice == 0 {
			return nil
		}
	}
	return structs.Errorf(structs.KindPrecondition,
		"plugin %q: NodePublishVolume: it answered that the volume is published, but the host sees nothing mounted at %s: the plugin's mounts do not reach the host",
		u.PluginID, target)
}

func (u *Use) forPlugin() csi.Use {
	return csi.Use{VolumeID: u.ExternalID, AccessMode: u.AccessMode, AttachmentMode: u.AttachmentMode,
		MountOptions: u.MountOptions, PublishContext: u.PublishContext, VolumeContext: u.VolumeContext, Secrets: u.Secrets}
}

// call makes a call that concerns a path as the only one in flight for the volume. It may outlive the work.
func (w *work) call(rpc, pluginID, externalID, path string, fn func(context.Context, *Conn) error) error {
	conn := w.conn
	instance := conn.Registration.AllocID
	c := Call{PluginID: pluginID, Instance: instance, Volume: externalID, RPC: rpc, Where: path}
	return w.m.Exclusive(w.ctx, c, func(ctx context.Context) error { return fn(ctx, conn) })
}

func (w *work) reread() (err error) {
	w.table, err = mounts.Read()
	return err
}

func (w *work) mount() hook.VolumeMount { return w.mountOf(w.publish) }

func (v *Volumes) mountOf(p *publishRecord) hook.VolumeMount {
	return hook.VolumeMount{
		HostPath: v.host(targetPath(p.Dir, p.AllocID)),
		ReadOnly: p.ReadOnly || p.AccessMode.ReaderOnly(),
		Device:   p.AttachmentMode == structs.CSIBlockDevice,
		Writable: p.Writable,
	}
}
