package assembly

import (
	"berth/client/csi/heal"
	"berth/client/csi/health"
	"berth/client/csi/helpers"
	"berth/client/csi/stats"
	"berth/client/csi/volumes"
)

// watched are the parts that look at the mounted volumes. They share the processes that touch file systems.
type watched struct {
	usage  *stats.Poller
	health *health.Monitor
	healer *heal.Healer
}

func watchMounts(p Parts, plugins *volumes.Manager, pool *helpers.Pool) watched {
	var w watched
	w.health = health.New(health.Config{
		List:    health.Mounted(plugins.Volumes()),
		Helpers: pool,
		Logger:  p.Logger.Named("volume_health"),
	})
	w.healer = heal.New(w.health, pool)
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
