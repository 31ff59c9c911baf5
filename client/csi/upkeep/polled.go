package upkeep

import (
	"context"

	"berth/client/csi/mounts"
	"berth/client/csi/registry"
	"berth/client/csi/volumes"
	"berth/csi"
	"berth/structs"
	"berth/structs/storage"
)

// PolledVolumes returns the function that lists the volumes of a node: the mounted ones, and others that it
// has tried to stage or publish and whose plugin tells their health. It reads the records of the node and its
// mount table.
func PolledVolumes(m *volumes.Manager) func() ([]PolledVolume, error) {
	return func() ([]PolledVolume, error) {
		inventory, err := m.Volumes().Inventory()
		if err != nil {
			return nil, err
		}
		table, err := mounts.Read()
		if err != nil {
			return nil, err
		}

		var list []PolledVolume
		for _, held := range inventory.Held {
			k := volumes.VolumeKey{Namespace: held.Namespace, ID: held.VolumeID}
			target, stage := m.Volumes().MountPoints(k, held.AllocID)
			v := PolledVolume{
				Key:      k.Usage(),
				PluginID: held.PluginID,
				Path:     target,
				Device:   held.AttachmentMode == structs.CSIBlockDevice,
			}
			s := source{m, &held, target, stage}
			v.Health = s.health()
			// A volume without an allocation is only staged.
			v.Attempted = held.AllocID == "" || !v.Device && !table.Mounted(target)
			if !v.Attempted {
				v.Ask = s.use()
			}
			if !v.Attempted || v.Health != nil {
				list = append(list, v)
			}
		}
		return list, nil
	}
}

// source is a volume with its plugin, and its paths on the host.
type source struct {
	m             *volumes.Manager
	held          *structs.CSIHeldClaim
	target, stage string
}

// plugin returns the plugin, nil if it does not serve now.
func (s source) plugin() *volumes.Conn {
	conn, err := s.m.Healthy(structs.CSIKindNode, s.held.PluginID)
	if err != nil || conn.Info.NodeInfo == nil {
		return nil
	}
	return conn
}

// inPlugin returns the paths in the scope of a plugin. The first is "" without an allocation, the second for
// a plugin that does not stage.
func (s source) inPlugin(conn *volumes.Conn) (target, stage string, err error) {
	if s.held.AllocID != "" {
		target, err = registry.PathInPlugin(conn.Registration, s.target)
	}
	if err == nil && conn.Info.NodeInfo.RequiresNodeStageVolume {
		stage, err = registry.PathInPlugin(conn.Registration, s.stage)
	}
	return target, stage, err
}

// use returns the function that asks the plugin for the use, nil if it does not report the use, or does not
// serve now.
func (s source) use() func(context.Context) (*storage.VolumeUsage, error) {
	conn := s.plugin()
	if conn == nil || !conn.Info.NodeInfo.SupportsStats {
		return nil
	}
	return func(ctx context.Context) (*storage.VolumeUsage, error) {
		target, stage, err := s.inPlugin(conn)
		if err != nil {
			return nil, err
		}
		return conn.NodeGetVolumeStats(ctx, csi.StatsRequest{
			VolumeID:    s.held.ExternalVolumeID,
			VolumePath:  target,
			StagingPath: stage,
		})
	}
}

// health returns the function that asks the plugin for the health, nil if it does not report the health by
// itself, or does not serve now.
func (s source) health() func(context.Context) (*storage.VolumeCondition, error) {
	conn := s.plugin()
	if conn == nil || !conn.Info.NodeInfo.SupportsCondition {
		return nil
	}
	return func(ctx context.Context) (*storage.VolumeCondition, error) {
		target, stage, err := s.inPlugin(conn)
		if err != nil {
			return nil, err
		}
		return csi.NodeGetVolumeHealth(ctx, conn.Client, csi.HealthRequest{
			VolumeID:    s.held.ExternalVolumeID,
			PublishPath: target,
			StagingPath: stage,
		})
	}
}
