package csimanager

import (
	"context"
	"fmt"
	"os"

	"berth/structs"
)

// Presence lists a node's mounts and records of a volume.
type Presence struct {
	Mounts  []string // paths of the host at which it is mounted or shows as a device
	Pending []string // calls that bring it here and may still be carried out
	Held    []string // records of it, for users
}

// Presence returns this node's mounts and records of a volume. It calls no plugin and waits for nothing.
func (v *Volumes) Presence(k VolumeKey) (*Presence, error) {
	w, err := v.loadWork(context.Background(), nil, k, "")
	if err != nil {
		return nil, err
	}
	has := &Presence{Mounts: w.table.Below(v.hostPath(volumeDir(k)))}
	names := map[[2]string]bool{}
	for _, p := range w.users {
		target := v.hostPath(targetPath(p.Dir, p.AllocID))
		if p.AttachmentMode == structs.CSIBlockDevice &&
			!w.table.Mounted(target) && isDevice(target) {
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
	for name := range names {
		late, err := v.m.lateCalls(name[0], name[1])
		if err != nil {
			return nil, err
		}
		for _, c := range late {
			if c.RPC == "NodeStageVolume" || c.RPC == "NodePublishVolume" {
				call := fmt.Sprintf("%s, called at %s and not answered",
					c.RPC, clock(c.Since))
				has.Pending = append(has.Pending, call)
			}
		}
	}
	return has, nil
}

func isDevice(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.Mode()&os.ModeDevice != 0
}
