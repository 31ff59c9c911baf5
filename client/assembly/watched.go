package assembly

import (
	"berth/client/csi/health"
	"berth/client/csi/helpers"
	"berth/client/csi/stats"
	"berth/client/csi/volumes"
	"berth/structs/volumeusage"
)

// watched are the parts that look at the mounted volumes. They share the processes that touch file systems.
type watched struct {
	usage  *stats.Poller
	health *health.Monitor
}

func watchMounts(p Parts, plugins *volumes.Manager, pool *helpers.Pool) watched {
	var w watched
	w.health = health.New(health.Config{
		List:    mountsOf(plugins.Volumes()),
		Helpers: pool,
		Logger:  p.Logger.Named("volume_health"),
	})
	w.usage = stats.New(stats.Config{
		List:      stats.Mounted(plugins),
		Helpers:   pool,
		NodeID:    p.NodeID,
		Health:    w.health.Of,
		Condition: w.health.SetCondition,
		Interval:  p.Config.VolumeStatsInterval,
		Logger:    p.Logger.Named("volume_stats"),
	})
	return w
}

// mountsOf returns the function that lists the mounts of volumes by the records of the node.
func mountsOf(v *volumes.Volumes) func() ([]health.Mount, error) {
	return func() ([]health.Mount, error) {
		all, err := v.Mounts()
		list := make([]health.Mount, len(all))
		for i, m := range all {
			list[i] = health.Mount{
				Volume:   volumeusage.UsageKey{Namespace: m.Namespace, VolumeID: m.ID},
				AllocID:  m.AllocID,
				PluginID: m.PluginID,
				Path:     m.Path,
				Writes:   m.Writes,
			}
		}
		return list, err
	}
}
