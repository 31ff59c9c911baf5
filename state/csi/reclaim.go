package csi

import (
	"fmt"
	"strings"
	"time"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// UsersOf names the users that prevent the deletion of a volume, and returns "" if there are none: claims by
// their allocations, else attachments, else a snapshot or a copy that its plugin has not finished.
func UsersOf(tx mvcc.Reader, v *structs.CSIVolume) string {
	if text := claimedBy(tx, v, func(*structs.CSIClaim) bool { return true }); text != "" {
		return text
	}

	// Without claims each attachment is being detached. Until that is done a node may have the volume.
	var nodes []string
	for a := range AttachmentsByVolume(tx, v.Namespace, v.ID) {
		nodes = append(nodes, NodeName(tx, a.NodeID))
	}

	if len(nodes) > 0 {
		return fmt.Sprintf("volume %q is still being detached from node %s", v.ID, strings.Join(nodes, ", "))
	}

	if text := snapshotNeeding(tx, v); text != "" {
		return text
	}
	return copyNeeding(tx, v)
}

// liveUsersOf names the allocations that use a volume, or wait for it, and are not to stop. It returns "" if
// there are none.
func liveUsersOf(tx mvcc.Reader, v *structs.CSIVolume) string {
	return claimedBy(tx, v, func(c *structs.CSIClaim) bool {
		a := schema.Allocs.Get(tx, c.AllocID)
		return a != nil && !a.Terminal()
	})
}

// claimedBy names the first allocations with claims that count, and the number of the others.
func claimedBy(tx mvcc.Reader, v *structs.CSIVolume, counts func(*structs.CSIClaim) bool) string {
	var allocs []string
	found := 0
	for c := range schema.Claims.Scan(tx, v.Namespace, v.ID) {
		if !counts(c) {
			continue
		}
		found++
		if found <= manyHolders {
			allocs = append(allocs, c.AllocID)
		}
	}

	if found == 0 {
		return ""
	}
	return fmt.Sprintf("volume %q is claimed by allocation %s", v.ID, ListNames(allocs, found))
}

// markText tells that a volume is to be deleted, and how to keep it. It returns "" for another volume.
func markText(v *structs.CSIVolume) string {
	if !v.Marked() {
		return ""
	}
	return fmt.Sprintf("volume %s is to be deleted at %s (%s); to keep it: %s",
		v.ID, time.Unix(0, v.DeleteAt).UTC().Format(time.RFC3339), v.DeleteCause, storage.UndeleteCommand(v))
}
