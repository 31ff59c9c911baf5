package csihooks

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"berth/client/csi/content"
	"berth/client/hooks"
	"berth/structs"
)

// giveAll gives the files of each volume to the owner that its block names.
func (h *volumesHook) giveAll(ctx context.Context, required []*requiredVolume, ready volumeMounts) error {
	for _, w := range required {
		o := w.request.Ownership
		if o == nil || o.Policy == structs.OwnershipNever {
			continue
		}

		err := h.give(ctx, w, ready[w.VolumeKey])
		if err != nil {
			return fmt.Errorf("ownership of volume %s: %w", w.VolumeKey, err)
		}
	}
	return nil
}

// give gives the files of one volume to its wanted owner, and tells how far it is.
func (h *volumesHook) give(ctx context.Context, w *requiredVolume, m hooks.VolumeMount) error {
	want, err := content.OwnerOf(w.request.Ownership)
	if err != nil {
		return err
	}
	if w.mountsGroup {
		want.GID = content.KeepOwner // the plugin has mounted the volume for the group
	}

	result, err := content.ApplyOwner(ctx, m.HostPath, want, func(r content.OwnerResult) {
		h.setProgress("ownership of volume %s: %d files looked at, %d changed", w.VolumeKey, r.Seen, r.Changed)
	})
	h.Progress(h.alloc.ID, "")
	w.note = result.Warning()
	if w.note != "" {
		h.logger.Warn("the owner of some files of a volume was not changed",
			"volume", w.VolumeKey, "reason", w.note)
	}

	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL):
		return structs.Preconditionf("%w: its file system gives no file to this owner; an NFS export needs "+
			"no_root_squash for that, or leave ownership out and set the owner at the storage", err)
	case errors.Is(err, unix.EROFS):
		return structs.Preconditionf("%w: the volume is mounted for reading only", err)
	}
	return err
}

// mountGroup returns the number of the group for which the plugin mounts the volume, "" if none is wanted, or
// if the plugin mounts for no group. An unknown group is reported when the files are given.
func (h *volumesHook) mountGroup(w *requiredVolume, pluginID string) string {
	o := w.request.Ownership
	if o == nil || o.Group == "" ||
		o.Policy == structs.OwnershipNever ||
		!h.MountsGroup(pluginID) {
		return ""
	}

	want, err := content.OwnerOf(o)
	if err != nil {
		return ""
	}
	w.mountsGroup = true
	return strconv.Itoa(want.GID)
}
