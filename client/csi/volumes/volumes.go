package volumes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"berth/client/csi/mounts"
	"berth/client/csi/registry"
	"berth/client/hooks"
	"berth/client/store"
	"berth/csi"
	"berth/internal/backoff"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// VolumeKey names a volume.
type VolumeKey struct{ Namespace, ID string }

func (k VolumeKey) String() string { return k.Namespace + "/" + k.ID }

// Usage returns the key as the servers have it.
func (k VolumeKey) Usage() storage.UsageKey {
	return storage.UsageKey{Namespace: k.Namespace, VolumeID: k.ID}
}

// Volumes mounts volumes for the allocations of this node, takes them down, and keeps their records.
type Volumes struct {
	m      *Manager
	logger hclog.Logger
	store  volumeStore
	seq    Sequences // one sequence of steps per volume
	parked registry.Parked
	failed failedMounts
	root   string // on the host, with its links resolved
	boot   string // ID of this boot of the kernel
}

func newVolumes(m *Manager) *Volumes {
	root := filepath.Clean(m.cfg.Root)
	if real, err := mounts.Resolve(root); err == nil { // else every Up fails with the reason
		root = real
	}
	return &Volumes{
		m:      m,
		logger: m.logger.Named("volumes"),
		store:  volumeStore{m.cfg.DB},
		root:   root,
		boot:   cmp.Or(m.cfg.BootID, bootID()),
	}
}

// Root is the directory on the host under which volumes are staged and published.
func (v *Volumes) Root() string { return v.root }

// Claim records that an allocation is about to claim a volume, so that its Down will release the claim.
func (v *Volumes) Claim(k VolumeKey, allocID string) error {
	p, err := v.store.getPublish(k, allocID)
	// A record that holds the volume stays, because it may tell of a mount.
	if err != nil || p != nil && p.State != released {
		return err
	}
	return v.store.putPublish(&publishRecord{
		Namespace: k.Namespace,
		VolumeID:  k.ID,
		AllocID:   allocID,
		State:     claimed,
	})
}

// Up stages a volume, if the plugin requires it, and publishes it for an allocation. It leaves existing
// mounts alone. After a failure that is not final it repeats the calls with the same arguments, until ctx
// ends. progress, if not nil, takes the reason of the wait.
func (v *Volumes) Up(ctx context.Context, u *Use, progress func(string)) (hooks.VolumeMount, error) {
	var m hooks.VolumeMount
	var grown *growth
	err := v.retryUntilFinal(ctx, u, progress, func() (err error) {
		m, grown, err = v.tryUp(ctx, u)
		return err
	})

	// The volume may have grown before the failure.
	if grown != nil && u.Expanded != nil {
		u.Expanded(ctx, grown.capacity, grown.err)
	}
	if err != nil {
		err = fmt.Errorf("volume %s: %w", u.VolumeKey, err)
		return hooks.VolumeMount{}, err
	}
	return m, nil
}

// retryUntilFinal repeats try until it succeeds, its error is final, or ctx ends: see repeatOfMount.
func (v *Volumes) retryUntilFinal(
	ctx context.Context, u *Use, progress func(string), try func() error,
) error {
	cfg := v.m.cfg
	delays := backoff.Backoff{Min: cfg.RetryMin, Max: cfg.RetryMax}
	brief := backoff.Backoff{Min: 2 * cfg.RetryMin, Max: cfg.RetryMax} // 0.5, 1 and 2 s, as kubelet
	left := briefRepeats
	mount := failedMount{u.VolumeKey, u.AllocID}
	defer v.failed.remove(mount)
	var due <-chan struct{} // by an operator; nil before the first failure
	for {
		// This precedes the try, so that servers that come back during it, and an operator, end the pause.
		back := u.ServersBack.Next()
		if due != nil {
			due = v.failed.add(mount)
		}
		err := try()
		again := repeatOfMount(err)
		if again != nodecalls.Growing && (again != nodecalls.Briefly || left == 0) {
			return err
		}
		if again == nodecalls.Growing && due == nil {
			due = v.failed.add(mount) // before others hear of the failure
		}
		if progress != nil {
			progress(err.Error())
		}
		if again == nodecalls.Briefly {
			left--
			if !brief.Wait(ctx) {
				return err
			}
			continue
		}

		if _, ok := errors.AsType[unconfirmed](err); !ok {
			back = due // the plugin and the node depend on no server
		}

		wait := delays.After(err)
		if structs.RetryAfter(err) == 0 { // else the servers have asked for at least this pause
			wait = registry.Jitter(wait)
		}

		if !delays.SleepAfter(ctx, wait, err, back) {
			return err
		}
	}
}

// briefRepeats is the number of calls after the first one for nodecalls.Briefly.
const briefRepeats = 3

// repeatOfMount returns what follows a failed try of Up: the policy decides about the answers of a plugin,
// also to the call that takes back an earlier use. GiveUp follows no error.
func repeatOfMount(err error) nodecalls.Repeat {
	code := csi.Code(err)
	switch {
	case code != "":
		return nodecalls.RepeatOf("NodeStageVolume", structs.KindOf(err), code)
	case csi.Final(err):
		return nodecalls.GiveUp
	}
	return nodecalls.Growing
}

// unconfirmed is the error of Use.Confirm, and of Use.BeforePublish.
type unconfirmed struct{ error }

func (e unconfirmed) Unwrap() error { return e.error }

// tryUp is one try. It holds the volume's lock no longer than its own calls may take. grown is nil if the try
// did not get as far as to expand the volume.
func (v *Volumes) tryUp(ctx context.Context, u *Use) (m hooks.VolumeMount, grown *growth, err error) {
	conn, release, err := v.begin(ctx, u, "bringing it to the allocation")
	if err != nil {
		return m, nil, err
	}
	defer release()

	w, err := v.loadForUp(ctx, conn, u)
	if err != nil {
		return m, nil, err
	}
	// Changes that no call has written are written also after a failure: rejectReadOnly makes one.
	defer func() { err = errors.Join(err, w.flush()) }()

	err = w.bringVolume(u)
	if err != nil {
		return m, w.grown, err
	}

	return v.mountOf(w.publish), w.grown, nil
}

// begin returns the connection for a use, and takes the lock of the volume for a work.
func (v *Volumes) begin(ctx context.Context, u *Use, work string) (conn *Conn, release func(), err error) {
	conn, err = v.m.Client(ctx, structs.CSIKindNode, u.PluginID)
	if err == nil {
		err = conn.CheckDriver(u.Provider, "used")
	}
	if err != nil {
		return nil, nil, err
	}
	release, err = v.seq.Acquire(ctx, u.VolumeKey.String(), work)
	return conn, release, err
}

// bringVolume takes the steps that are left until the volume is published.
func (w *volumeWork) bringVolume(u *Use) error {
	err := w.recordUse(u)
	if err != nil {
		return err
	}

	err = w.rejectReadOnly(u)
	if err != nil {
		return err
	}

	// A published volume is not brought here anew: recordUse has compared its grant.
	if u.Confirm != nil && !w.isPublished() {
		err := u.Confirm(w.ctx)
		if err != nil {
			return unconfirmed{err}
		}
	}

	err = w.stageVolume(u)
	if err != nil {
		return err
	}

	err = w.expandStaged(u)
	if err != nil {
		return err
	}

	return w.publishVolume(u)
}

// volumeWork is one sequence of steps on one volume for one allocation. It holds the volume's lock.
type volumeWork struct {
	ctx context.Context
	*Volumes
	key     VolumeKey
	conn    *Conn // nil if no call is needed
	table   *mounts.Table
	stage   *stageRecord
	publish *publishRecord
	users   []*publishRecord // of other allocations that the volume has to stay staged for
	grown   *growth          // nil unless the volume was to expand
	// unwritten are changes of records that precede the next call of the plugin. They are written with its
	// record.
	unwritten []store.Change
}

// loadWork reads the inputs of all decisions: the records and the mount table. Without both it fails.
func (v *Volumes) loadWork(
	ctx context.Context, conn *Conn, k VolumeKey, allocID string,
) (*volumeWork, error) {
	w, err := v.loadRecords(ctx, conn, k, allocID)
	return w, errors.Join(err, w.rereadMounts())
}

// loadForUp is loadWork for Up, which needs the mount table only where a record tells of a mount.
func (v *Volumes) loadForUp(ctx context.Context, conn *Conn, u *Use) (*volumeWork, error) {
	w, err := v.loadRecords(ctx, conn, u.VolumeKey, u.AllocID)
	// Then no decision of Up depends on the table. With many mounts it takes the kernel long.
	unused := w.stage == nil && len(w.users) == 0 &&
		(w.publish == nil || !w.publish.mayBePublished())
	if unused || err != nil {
		return w, err
	}
	return w, w.rereadMounts()
}

// loadRecords reads the records. They are of the driver of conn.
func (v *Volumes) loadRecords(
	ctx context.Context, conn *Conn, k VolumeKey, allocID string,
) (*volumeWork, error) {
	w := &volumeWork{
		ctx:     ctx,
		Volumes: v,
		key:     k,
		conn:    conn,
		table:   &mounts.Table{},
	}

	var errs [3]error
	w.stage, errs[0] = v.store.getStage(k)
	w.publish, errs[1] = v.store.getPublish(k, allocID)
	w.users, errs[2] = v.store.usersOf(k, allocID)
	err := errors.Join(errs[:]...)
	if err != nil || conn == nil {
		return w, err
	}
	return w, w.checkDriver()
}

// checkDriver returns an error if the plugin is not of the driver that staged or published the volume:
// another driver would answer that an unknown volume is gone.
func (w *volumeWork) checkDriver() error {
	if w.stage != nil {
		err := w.conn.CheckDriver(w.stage.Provider, "called for the staged volume")
		if err != nil {
			return err
		}
	}
	if w.publish != nil && w.publish.mayBePublished() {
		return w.conn.CheckDriver(w.publish.Provider, "called for the published volume")
	}
	return nil
}

// recordUse compares the use with the existing records and records it.
func (w *volumeWork) recordUse(u *Use) error {
	err := w.checkUse(u)
	if err != nil {
		return err
	}

	before := w.publish
	p := &publishRecord{
		Namespace: u.Namespace,
		VolumeID:  u.ID,
		AllocID:   u.AllocID,
		State:     claimed,
	}

	// An earlier try may have published the volume, perhaps for an earlier agent: its state stays.
	if before != nil && before.mayBePublished() {
		if before.Grant != 0 && before.Grant != u.Grant {
			return structs.Conflictf("it is still mounted here under a former grant of the claim "+
				"(%d, now %d): others may have used it since", before.Grant, u.Grant)
		}

		*p = *before
	}

	w.publish = p
	p.setUse(u, w.conn.Info.Provider)
	if before == nil || *before != *p {
		w.writeLater(publishChange(p))
	}

	return nil
}

// setUse sets the fields of a record that a use gives. The directory stays as it is once it is set.
func (p *publishRecord) setUse(u *Use, provider string) {
	p.Grant = u.Grant
	p.PluginID = u.PluginID
	p.ExternalID = u.ExternalID
	p.Provider = provider
	p.ExternalNodeID = u.ExternalNodeID
	p.AccessMode = u.AccessMode
	p.AttachmentMode = u.AttachmentMode
	p.ReadOnly = u.ReadOnly
	p.Inline = u.Inline
	p.Timeout = u.Timeout
	p.Trim = u.Trim
	if p.Dir == "" {
		p.Dir = volumeDir(u.VolumeKey)
	}
}

// checkUse returns an error if other users of the volume on this node exclude the use. It unstages a volume
// that was staged for another kind of use and has no user any more.
func (w *volumeWork) checkUse(u *Use) error {
	if len(w.users) > 0 && u.AccessMode.SingleUse() {
		return structs.Unavailablef(
			"it is still in use on this node by %s, and its access mode %s allows one user",
			allocNames(w.users), u.AccessMode)
	}

	if w.stage != nil && w.stage.Use != useDigest(u) {
		if len(w.users) > 0 {
			return structs.Preconditionf(
				"plugin %q: it is staged on this node for %s with other modes or mount options",
				u.PluginID, allocNames(w.users))
		}

		// No other allocation uses the volume, so it is staged again as this one needs it.
		if err := w.unstageVolume(); err != nil {
			return err
		}
	}

	return nil
}

func allocNames(users []*publishRecord) string {
	names := make([]string, len(users))
	for i, p := range users {
		names[i] = "allocation " + structs.ShortID(p.AllocID)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// isStaged trusts a record only under the boot of the kernel that it was made under. A mount that was seen
// has to be in the mount table still.
func (w *volumeWork) isStaged() bool {
	s := w.stage
	if s == nil || s.State != staged || s.BootID != w.boot {
		return false
	}
	return !s.Mounted || w.table.Mounted(w.hostPath(s.path()))
}

// isPublished trusts a record as isStaged does.
func (w *volumeWork) isPublished() bool {
	p := w.publish
	if p.State != published || p.BootID != w.boot {
		return false
	}
	return !p.Mounted || w.table.Mounted(w.hostPath(p.target()))
}

// writeLater adds a change that is written with the record of the next call, or by flush.
func (w *volumeWork) writeLater(c store.Change) { w.unwritten = append(w.unwritten, c) }

// flush writes the changes that no call has written.
func (w *volumeWork) flush() error {
	changes := w.unwritten
	w.unwritten = nil
	return w.store.db.Commit(changes...)
}

// pluginCall calls a plugin.
type pluginCall = func(context.Context, *Conn) error

// callPlugin makes a call as the only one in flight for the volume. It sets c.Instance and c.Before. The call
// may outlive the work.
func (w *volumeWork) callPlugin(c Call, fn pluginCall) error {
	conn := w.conn
	c.Instance = conn.Registration.AllocID
	// If the call is not made, they are dropped. The caller repeats the step, and with it the changes.
	c.Before = w.unwritten
	w.unwritten = nil
	err := w.m.Exclusive(w.ctx, c, func(ctx context.Context) error {
		return fn(ctx, conn)
	})
	if csi.Code(err) == structs.CSICodeExhausted {
		w.RefreshLimit(c.PluginID)
	}
	return err
}

// RefreshLimit has the node half of a plugin asked for its properties before the next fingerprint is due: a
// node is full, so the limit that the servers know is another one (CSI spec, ControllerPublishVolume errors).
func (v *Volumes) RefreshLimit(pluginID string) {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	s := v.m.slots[registry.Key{Kind: structs.CSIKindNode, ID: pluginID}]
	if s != nil {
		s.current.rounds.Ask()
	}
}

// rereadMounts reads the mount table. After an error the last one stays.
func (w *volumeWork) rereadMounts() error {
	table, err := mounts.Read()
	if err == nil {
		w.table = table
	}
	return err
}

func (v *Volumes) mountOf(p *publishRecord) hooks.VolumeMount {
	return hooks.VolumeMount{
		HostPath: v.hostPath(p.target()),
		ReadOnly: p.ReadOnly || p.AccessMode.ReaderOnly(),
		Device:   p.AttachmentMode == structs.CSIBlockDevice,
		Writable: p.Writable,
	}
}
