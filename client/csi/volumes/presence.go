package volumes

import (
	"context"
	"fmt"
	"slices"

	"berth/client/csi/mounts"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Presence returns this node's mounts and records of a volume, and the calls that may still mount it here. It
// calls no plugin and waits for nothing.
func (v *Volumes) Presence(k VolumeKey) (*nodecalls.ClientCSINodeVolumeResponse, error) {
	// Without a connection nothing below can call the plugin.
	w, err := v.loadWork(context.Background(), nil, k, "")
	if err != nil {
		return nil, err
	}

	dir := v.hostPath(volumeDir(k))
	has := &nodecalls.ClientCSINodeVolumeResponse{}
	for _, path := range w.table.Below(dir) {
		// A machine whose root is shared shows each mount twice: below the root and below its bind mount.
		if !slices.Contains(has.Mounts, path) {
			has.Mounts = append(has.Mounts, path)
		}
	}

	names := map[[2]string]bool{} // the plugin's ID, the plugin's volume_id
	for _, p := range w.users {
		target := v.hostPath(p.target())
		// A plugin may publish a device as a device node, without a mount.
		if p.AttachmentMode == structs.CSIBlockDevice &&
			!w.table.Mounted(target) && mounts.IsDevice(target) {
			has.Mounts = append(has.Mounts, target)
		}

		has.Held = append(has.Held,
			fmt.Sprintf("%s for allocation %s", p.State, p.AllocID))
		names[[2]string{p.PluginID, p.ExternalID}] = true
	}

	if s := w.stage; s != nil {
		has.Held = append(has.Held, s.State)
		names[[2]string{s.PluginID, s.ExternalID}] = true
	}

	has.Pending, err = v.pendingMounts(names)
	if err != nil {
		return nil, err
	}

	return has, nil
}

// pendingMounts describes the calls that may still mount a volume here, under the names that plugins have for
// it: their IDs and their volume_ids.
func (v *Volumes) pendingMounts(names map[[2]string]bool) ([]string, error) {
	var pending []string
	for name := range names {
		late, err := v.m.lateCalls(name[0], name[1])
		if err != nil {
			return nil, err
		}

		for _, c := range late {
			// The other calls mount nothing.
			if c.RPC == "NodeStageVolume" || c.RPC == "NodePublishVolume" {
				pending = append(pending, fmt.Sprintf("%s, called at %s and not answered",
					c.RPC, clockText(c.Since)))
			}
		}
	}

	return pending, nil
}
