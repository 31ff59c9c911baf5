package csirandom

import (
	"context"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/client/csi/upkeep"
	"berth/client/csi/volumes"
	"berth/csi"
	"berth/structs"
	"berth/structs/storage"
)

// statsInterval is the time between two measurements of a volume.
const statsInterval = 200 * time.Millisecond

var someStats = &spec.NodeGetVolumeStatsResponse{Usage: []*spec.VolumeUsage{
	{Unit: spec.VolumeUsage_BYTES, Total: 100, Used: 1, Available: 99},
}}

// measure returns what measures the published volumes of the node. The plugin mounts nothing, so the records
// of the node tell which these are.
func (n *node) measure(m *volumes.Manager) func(context.Context) {
	return upkeep.NewPoller(upkeep.PollerConfig{
		NodeID:   n.name,
		List:     func() ([]upkeep.PolledVolume, error) { return published(m) },
		Interval: statsInterval,
	}).Run
}

func published(m *volumes.Manager) (list []upkeep.PolledVolume, err error) {
	conn, err := m.Healthy(structs.CSIKindNode, pluginID)
	if err != nil {
		return nil, nil //nolint:nilerr // the plugin is being started again
	}
	inventory, err := m.Volumes().Inventory()
	if err != nil {
		return nil, err
	}
	for _, held := range inventory.Held {
		if held.AllocID == "" {
			continue
		}
		k := volumes.VolumeKey{Namespace: held.Namespace, ID: held.VolumeID}
		target, stage := m.Volumes().MountPoints(k, held.AllocID)
		list = append(list, upkeep.PolledVolume{
			Key:      storage.UsageKey{Namespace: k.Namespace, VolumeID: k.ID},
			PluginID: pluginID,
			Path:     target,
			Ask: func(ctx context.Context) (*storage.VolumeUsage, error) {
				return conn.NodeGetVolumeStats(ctx, csi.StatsRequest{
					VolumeID:    held.ExternalVolumeID,
					VolumePath:  target,
					StagingPath: stage,
				})
			},
		})
	}
	return list, nil
}
