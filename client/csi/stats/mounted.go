package stats

import (
	"context"

	"berth/client/csi/mounts"
	"berth/client/csi/paths"
	"berth/client/csi/volumes"
	"berth/csi"
	"berth/structs"
	"berth/structs/volumeusage"
)

// Mounted returns the function that lists the mounted volumes of a node. It reads the records of the node and
// its mount table.
func Mounted(m *volumes.Manager) func() ([]Volume, error) {
	return func() ([]Volume, error) {
		inventory, err := m.Volumes().Inventory()
		if err != nil {
			return nil, err
		}
		table, err := mounts.Read()
		if err != nil {
			return nil, err
		}

		var list []Volume
		for _, held := range inventory.Held {
			k := volumes.VolumeKey{Namespace: held.Namespace, ID: held.VolumeID}
			target, stage := m.Volumes().MountPoints(k, held.AllocID)
			v := Volume{
				Key:      volumeusage.UsageKey{Namespace: k.Namespace, VolumeID: k.ID},
				PluginID: held.PluginID,
				Path:     target,
				Device:   held.AttachmentMode == structs.CSIBlockDevice,
			}
			// A volume without an allocation is only staged.
			if held.AllocID == "" || !v.Device && !table.Mounted(target) {
				continue
			}

			v.Ask = asker(m, &held, target, stage)
			list = append(list, v)
		}
		return list, nil
	}
}

// asker returns the function that asks the plugin of a volume, nil if it does not report the use, or does not
// serve now.
func asker(
	m *volumes.Manager, held *structs.CSIHeldClaim, target, stage string,
) func(context.Context) (*volumeusage.VolumeUsage, error) {
	conn, err := m.Healthy(structs.CSIKindNode, held.PluginID)
	if err != nil || conn.Info.NodeInfo == nil || !conn.Info.NodeInfo.SupportsStats {
		return nil
	}

	return func(ctx context.Context) (*volumeusage.VolumeUsage, error) {
		req := csi.StatsRequest{VolumeID: held.ExternalVolumeID}
		var err error
		req.VolumePath, err = paths.InPlugin(conn.Registration, target)
		if err == nil && conn.Info.NodeInfo.RequiresNodeStageVolume {
			req.StagingPath, err = paths.InPlugin(conn.Registration, stage)
		}
		if err != nil {
			return nil, err
		}
		return conn.NodeGetVolumeStats(ctx, req)
	}
}
