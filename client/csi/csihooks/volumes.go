package csihooks

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/csi/content"
	"berth/client/csi/mounts"
	"berth/client/csi/upkeep"
	"berth/client/csi/volumes"
	"berth/client/hooks"
	"berth/csi"
	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
)

// VolumesConfig is shared by the volumes hooks of a node.
type VolumesConfig struct {
	Volumes *volumes.Volumes
	Servers rpc.Caller
	// Renewals knows when the tokens of a published volume are due. Nil: the node has none.
	Renewals *TokenRenewals
	// ServersBack, if not nil, is announced when the servers can be reached again after a cut.
	ServersBack *backoff.Recovery
	Node        func() (id, secretID string)
	// Mark draws the mark of the agent that goes into the log with claims, nil: the node has none. A request has
	// it in its proof: see membership.Servers.Call.
	Mark   func(context.Context) error
	Logger hclog.Logger
	// Progress, if not nil, takes the reason for which an allocation waits, "" once it does not wait.
	Progress func(allocID, reason string)
	// RetryMin and RetryMax bound the delay between calls of the servers: 250 ms and 15 s.
	RetryMin, RetryMax time.Duration
	// ConfirmAfter is the greatest age of a claim's answer with which the node calls the plugin: 1 s. The
	// servers may have released the claim while the node waited for something else.
	ConfirmAfter time.Duration
	// Now is the clock that measures this age. Nil means time.Now.
	Now func() time.Time
	// Guard ends allocations with the lease of the node. Nil: the node guards none.
	Guard Guard
	// MountsGroup reports whether the plugin mounts volumes for a group (CSI spec, VOLUME_MOUNT_GROUP). Nil:
	// no plugin does.
	MountsGroup func(pluginID string) bool
	// Healer repairs dead mounts. Nil: nothing does.
	Healer *upkeep.Healer
	// FileSystem returns the type of the file system at a mount point, "" for none. Nil means the type in the
	// mount table.
	FileSystem func(path string) (string, error)
}

// ConfirmAfter is the default of VolumesConfig.ConfirmAfter.
const ConfirmAfter = time.Second

// notFoundTries is the number of tries if the plugin does not know a volume that exists for the servers.
const notFoundTries = 3

// NewVolumes makes the hook that mounts an allocation's CSI volumes.
func NewVolumes(cfg VolumesConfig, env *hooks.AllocEnv) hooks.Alloc {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string, string) {}
	}

	cfg.RetryMin = cmp.Or(cfg.RetryMin, 250*time.Millisecond)
	cfg.RetryMax = cmp.Or(cfg.RetryMax, 15*time.Second)
	cfg.ConfirmAfter = cmp.Or(cfg.ConfirmAfter, ConfirmAfter)

	if cfg.Now == nil {
		cfg.Now = time.Now
	}

	if cfg.FileSystem == nil {
		cfg.FileSystem = mounts.FileSystem
	}

	if cfg.MountsGroup == nil {
		cfg.MountsGroup = func(string) bool { return false }
	}

	nearlyUp := env.NearlyUp
	if nearlyUp == nil {
		nearlyUp = func() {}
	}

	logger := cfg.Logger.Named("csi_volumes")
	return &volumesHook{
		VolumesConfig: cfg,
		alloc:         env.Alloc,
		group:         env.Group,
		nearlyUp:      nearlyUp,
		logger:        logger.With("alloc_id", env.Alloc.ID),
	}
}

// volumesHook is the hook of one allocation.
type volumesHook struct {
	VolumesConfig
	alloc    *structs.Allocation
	group    *structs.TaskGroup
	nearlyUp func() // of hook.AllocEnv
	logger   hclog.Logger
}

// requiredVolume is one volume of the allocation, under one alias or more.
type requiredVolume struct {
	volumes.VolumeKey
	request *structs.VolumeRequest
	aliases []string
	// mountsGroup is set once the plugin is called for the group of the wanted owner.
	mountsGroup bool
	note        string // of hooks.VolumeMount
}

// volumeMounts are the mounted volumes of the allocation.
type volumeMounts = map[volumes.VolumeKey]hooks.VolumeMount

// Name implements hook.Alloc.
func (*volumesHook) Name() string { return "csi_volumes" }

// Up claims the volumes, waits until each may be used, and mounts it. It recognises the mounts of an earlier
// agent without a call of servers or plugin.
func (h *volumesHook) Up(ctx context.Context, env *hooks.AllocEnv) error {
	required, err := h.requiredVolumes()
	if err != nil || len(required) == 0 {
		return err
	}

	ready, err := h.findPublished(required)
	if err != nil {
		return err
	}

	// A volume that is published already stays so: its claim and its mount are repeated without an effect.
	if len(ready) < len(required) {
		if err := h.clearDead(ctx, required); err != nil {
			return err
		}
		if err := h.claimVolumes(ctx, required); err != nil {
			return err
		}

		ready, err = h.mountAll(ctx, required)
		if err != nil {
			return err
		}

		h.Progress(h.alloc.ID, "")
	}

	// The tasks that run already have the volumes as they are.
	if env.Running == nil || !env.Running() {
		err := h.giveAll(ctx, required, ready)
		if err != nil {
			return err
		}
	}

	for _, w := range required {
		m := ready[w.VolumeKey]
		m.Folders = foldersOf(w, m)
		m.Note = w.note
		m.Healer = h.healer(w)
		for _, alias := range w.aliases {
			env.SetVolume(alias, m)
		}
	}
	return nil
}

// foldersOf returns the folders of a mounted volume, nil for a device. Package volumes unmounts them.
func foldersOf(w *requiredVolume, m hooks.VolumeMount) hooks.Folders {
	if m.Device {
		return nil
	}

	owner := w.request.Ownership
	if owner != nil && w.mountsGroup {
		owner = &structs.VolumeOwnership{
			Owner:  owner.Owner,
			Mode:   owner.Mode,
			Policy: owner.Policy,
		}
	}
	return content.Folders{
		Volume:   m.HostPath,
		Dir:      mounts.FoldersOf(m.HostPath),
		ReadOnly: m.ReadOnly,
		Owner:    owner,
	}
}

// requiredVolumes returns the group's CSI volumes in the order of their aliases.
func (h *volumesHook) requiredVolumes() ([]*requiredVolume, error) {
	var required []*requiredVolume
	for _, alias := range slices.Sorted(maps.Keys(h.group.Volumes)) {
		r := h.group.Volumes[alias]
		if !r.NeedsClaim() {
			continue
		}

		k := volumes.VolumeKey{
			Namespace: structs.NamespaceOr(h.alloc.Namespace),
			ID:        r.VolumeID(h.alloc.Index(), h.alloc.ID),
		}

		// Two blocks may name one volume. It is claimed and mounted once.
		at := slices.IndexFunc(required, func(w *requiredVolume) bool {
			return w.VolumeKey == k
		})
		if at < 0 {
			required = append(required,
				&requiredVolume{VolumeKey: k, request: r, aliases: []string{alias}})
			continue
		}

		w := required[at]
		if !sameUse(w.request, r) {
			return nil, structs.Invalidf(
				"volume blocks %q and %q of group %q name the same volume %s in different modes",
				w.aliases[0], alias, h.group.Name, k)
		}
		w.aliases = append(w.aliases, alias)
	}
	return required, nil
}

// sameUse reports whether two volume blocks need the volume in the same way.
func sameUse(a, b *structs.VolumeRequest) bool {
	none := &structs.CSIMountOptions{}
	// Merge gives an empty value to options that are left out.
	ao := none.Merge(a.MountOptions)
	bo := none.Merge(b.MountOptions)

	return a.ReadOnly == b.ReadOnly &&
		a.AccessMode == b.AccessMode && a.AttachmentMode == b.AttachmentMode &&
		ao.FSType == bo.FSType &&
		slices.Equal(ao.MountFlags, bo.MountFlags) &&
		a.OnDeadMount == b.OnDeadMount &&
		reflect.DeepEqual(a.Ownership, b.Ownership)
}

// findPublished returns the volumes that are published already, and need no look of the servers any more.
func (h *volumesHook) findPublished(required []*requiredVolume) (volumeMounts, error) {
	ready := volumeMounts{}
	for _, w := range required {
		m, ok, err := h.Volumes.Published(w.VolumeKey, h.alloc.ID)
		if err == nil && ok {
			ok, err = h.isDecided(w)
		}
		if err != nil {
			return nil, err
		}
		if ok {
			ready[w.VolumeKey] = m
		}
	}
	return ready, nil
}

// mountAll mounts all volumes at the same time. The first failure ends the waits of the others.
func (h *volumesHook) mountAll(ctx context.Context, required []*requiredVolume) (volumeMounts, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		errs  []error
		ready = volumeMounts{}
		waits atomic.Int64 // volumes whose claims are not granted yet
	)
	// Once the last claim is granted, drivers prepare the tasks while the volumes are mounted.
	waits.Store(int64(len(required)))
	for _, w := range required {
		// mountOne repeats its wait after some errors, and its volume counts once.
		granted := sync.OnceFunc(func() {
			if waits.Add(-1) == 0 {
				h.nearlyUp()
			}
		})

		wg.Go(func() {
			m, err := h.mountOne(ctx, w, granted)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				ready[w.VolumeKey] = m
				return
			}
			if ctx.Err() == nil || len(errs) == 0 {
				errs = append(errs, err) // another failure has not caused this one
			}
			cancel()
		})
	}

	wg.Wait()
	return ready, errors.Join(errs...)
}

// mountOne waits for the claim, calls granted, and mounts the volume.
func (h *volumesHook) mountOne(
	ctx context.Context, w *requiredVolume, granted func(),
) (hooks.VolumeMount, error) {
	pause := h.newBackoff()
	missing := 0 // how often the plugin has not found the volume
	for {
		claim, asked, err := h.awaitClaim(ctx, w)
		if err != nil {
			return hooks.VolumeMount{}, err
		}

		// Only the first call counts: see mountAll.
		granted()

		use := h.useOf(w, claim, asked)
		m, err := h.Volumes.Up(ctx, use, func(reason string) {
			h.setProgress("volume %s: %s", w.VolumeKey, reason)
		})
		if errors.Is(err, volumes.ErrOtherDriver) &&
			ctx.Err() == nil {
			// The servers may know more by the next try.
			h.setProgress("%v", err)
			pause.Wait(ctx)
			continue
		}
		if err == nil {
			err = h.holdServed(ctx, w, claim)
		}

		if !needsConfirmation(err) {
			return m, err
		}

		missing++
		if missing == notFoundTries || !pause.Wait(ctx) {
			return m, err
		}
	}
}

// needsConfirmation reports whether a plugin does not know the volume. This has to be verified before another
// try (CSI spec, errors of NodeStageVolume): a claim that is still ready shows that the volume exists.
func needsConfirmation(err error) bool {
	code := csi.Code(err)
	return code != "" &&
		nodecalls.RepeatOf("NodeStageVolume", structs.KindOf(err), code) == nodecalls.Confirm
}

// useOf makes the arguments of the plugin's calls from the answer of the servers and the request of the
// group.
func (h *volumesHook) useOf(
	w *requiredVolume, r *structs.CSIClaimGetResponse, asked time.Time,
) *volumes.Use {
	u := &volumes.Use{
		VolumeKey:      w.VolumeKey,
		AllocID:        h.alloc.ID,
		PluginID:       r.Volume.PluginID,
		Provider:       r.Provider,
		ExternalID:     r.Volume.ExternalID,
		AccessMode:     w.request.AccessMode,
		AttachmentMode: w.request.AttachmentMode,
		ReadOnly:       claimMode(w.request) == structs.ClaimRead,
		VolumeContext:  r.Volume.Context,
		Secrets:        r.Volume.Secrets,
		Grant:          r.Claim.GrantIndex,
		ServersBack:    h.ServersBack,
		Timeout:        r.CallTimeout,
		ExpandBytes:    r.Claim.ExpandBytes,
		Expanded:       h.reportExpansion(w, r.Claim),
	}

	u.BeforePublish = h.addTokens(w)
	// It renews the secrets of u.
	u.Confirm = h.confirmClaim(w, u, asked)

	// A block volume has no file system with options.
	if u.AttachmentMode == structs.CSIFileSystem {
		u.MountOptions = r.Volume.MountOptions.Merge(w.request.MountOptions)
		if r.Volume.Trim != nil {
			u.Trim = *r.Volume.Trim
		}
	}
	u.MountGroup = h.mountGroup(w, u.PluginID)
	if r.Attachment != nil {
		u.PublishContext = r.Attachment.PublishContext
		u.ExternalNodeID = r.Attachment.ExternalNodeID
	}
	return u
}

// Down unmounts each volume, also if another one fails. It then releases the claims of the volumes of which
// nothing is left on this node.
func (h *volumesHook) Down(ctx context.Context) error {
	keys, err := h.Volumes.ForAlloc(h.alloc.ID)
	errs := []error{err}

	var gone []volumes.VolumeKey
	for _, k := range slices.Backward(keys) {
		err := h.Volumes.Down(ctx, k, h.alloc.ID)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		gone = append(gone, k)
	}

	if h.Renewals != nil {
		h.Renewals.Forget(h.alloc.ID)
	}
	if h.Healer != nil {
		h.Healer.Forget(h.alloc.ID)
	}

	if len(gone) > 0 {
		errs = append(errs, h.releaseClaims(ctx, gone))
	}
	return errors.Join(errs...)
}
