package csihooks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"berth/client/csi/content"
	"berth/client/csi/mounts"
	"berth/client/csi/registry"
	"berth/client/csi/volumes"
	"berth/client/hooks"
	"berth/csi"
	"berth/internal/backoff"
	"berth/structs"
	"berth/structs/storage"
)

// InlineConfig is shared by the hooks of a node.
type InlineConfig struct {
	Volumes *volumes.Volumes
	Signer  TokenSigner
	// Progress takes the reason for which an allocation waits, "" once it does not wait.
	Progress func(allocID, reason string)
	// ServersBack, if not nil, is announced when the servers can be reached again after a cut.
	ServersBack *backoff.Recovery
}

// NewInline makes the hook for the inline volumes of an allocation: a CSI plugin makes such a volume when
// the node publishes it, and deletes it when the node unpublishes it. Drivers for Kubernetes that offer the
// volume lifecycle mode Ephemeral can do that. The hook is nil for an allocation without inline volumes.
//
// Its rules:
//
//   - No server knows the volume: it has neither a row nor a claim. Only one allocation has it, so no other
//     one can conflict.
//   - NodePublishVolume and NodeUnpublishVolume are the only calls. The volume store of package volumes
//     records them, so a restarted agent recognises the volume or releases it.
//   - The volume_id follows from the allocation and the block. A repeat of a call names the same volume.
func NewInline(cfg InlineConfig, env *hooks.AllocEnv) hooks.Alloc {
	h := &inlineHook{InlineConfig: cfg, alloc: env.Alloc, requests: map[string]*structs.VolumeRequest{}}
	for alias, r := range env.Group.Volumes {
		if r.IsInline() {
			h.requests[alias] = r
		}
	}

	if len(h.requests) == 0 {
		return nil
	}
	return h
}

// inlineHook is the hook of one allocation.
type inlineHook struct {
	InlineConfig
	alloc    *structs.Allocation
	requests map[string]*structs.VolumeRequest // by alias
}

// Name implements hooks.Alloc.
func (*inlineHook) Name() string { return "inline_volumes" }

// Up publishes each volume that is not published yet.
func (h *inlineHook) Up(ctx context.Context, env *hooks.AllocEnv) error {
	for _, alias := range slices.Sorted(maps.Keys(h.requests)) {
		m, err := h.publish(ctx, alias)
		if err != nil {
			return err
		}

		m.Folders = content.Folders{
			Volume:   m.HostPath,
			Dir:      mounts.FoldersOf(m.HostPath),
			ReadOnly: m.ReadOnly,
		}
		env.SetVolume(alias, m)
	}
	return nil
}

// publish returns the mount of one volume. It repeats a call whose failure is not final, until ctx ends.
func (h *inlineHook) publish(ctx context.Context, alias string) (hooks.VolumeMount, error) {
	m, ok, err := h.Volumes.Published(h.keyOf(alias), h.alloc.ID)
	if err != nil || ok {
		return m, err
	}

	m, err = h.Volumes.Up(ctx, h.useOf(alias), func(reason string) {
		h.Progress(h.alloc.ID, fmt.Sprintf("inline volume %q: %s", alias, reason))
	})
	switch {
	case err == nil:
		h.Progress(h.alloc.ID, "")
	case csi.Final(err) && csi.Code(err) != "":
		err = fmt.Errorf("%w; only a driver that offers the volume lifecycle mode Ephemeral makes inline volumes",
			err)
	}
	return m, err
}

// keyOf names a volume on this node. No registered volume has a slash in its ID.
func (h *inlineHook) keyOf(alias string) volumes.VolumeKey {
	return volumes.VolumeKey{
		Namespace: structs.NamespaceOr(h.alloc.Namespace),
		ID:        h.alloc.ID + "/" + alias,
	}
}

// useOf makes the arguments of the calls for one volume.
func (h *inlineHook) useOf(alias string) *volumes.Use {
	r := h.requests[alias]
	return &volumes.Use{
		VolumeKey:      h.keyOf(alias),
		AllocID:        h.alloc.ID,
		PluginID:       r.PluginID,
		ExternalID:     volumeID(h.alloc.ID, alias),
		AccessMode:     r.AccessMode,
		AttachmentMode: r.AttachmentMode,
		MountOptions:   r.MountOptions,
		ReadOnly:       r.ReadOnly,
		Inline:         true,
		VolumeContext:  volumeContext(h.alloc, r),
		ServersBack:    h.ServersBack,
		BeforePublish: func(ctx context.Context, plugin *registry.Instance, args *csi.Use) error {
			_, err := h.Signer.Add(ctx, h.alloc.ID, plugin, args)
			return err
		},
	}
}

// volumeID returns the plugin's volume_id. CSI allows 128 bytes, and an alias may have as many.
func volumeID(allocID, alias string) string {
	digest := sha256.Sum256([]byte(allocID + "\x00" + alias))
	return "berth-" + hex.EncodeToString(digest[:])
}

// volumeContext returns the parameters of a volume with the facts that drivers for Kubernetes expect of an
// ephemeral volume. The allocation stands for the pod, and its job for the service account.
func volumeContext(a *structs.Allocation, r *structs.VolumeRequest) map[string]string {
	c := map[string]string{}
	maps.Copy(c, r.Parameters)
	c[storage.InlinePodPrefix+"ephemeral"] = "true"
	c[storage.InlinePodPrefix+"pod.name"] = a.Name
	c[storage.InlinePodPrefix+"pod.namespace"] = structs.NamespaceOr(a.Namespace)
	c[storage.InlinePodPrefix+"pod.uid"] = a.ID
	c[storage.InlinePodPrefix+"serviceAccount.name"] = a.JobID
	return c
}

// Down unpublishes each volume, also if another one fails, and then drops its record.
func (h *inlineHook) Down(ctx context.Context) error {
	var errs []error
	for _, alias := range slices.Backward(slices.Sorted(maps.Keys(h.requests))) {
		k := h.keyOf(alias)
		err := h.Volumes.Down(ctx, k, h.alloc.ID)
		if err == nil {
			err = h.Volumes.Forget(k, h.alloc.ID)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
