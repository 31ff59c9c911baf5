package assembly

import (
	"berth/client/csi/heal"
	"berth/client/csi/health"
	"berth/client/csi/helpers"
	"berth/client/csi/quiesce"
	"berth/client/csi/stats"
	"berth/client/csi/volumes"
	"berth/rpc"
)

// watched are the parts that look after the mounted volumes. Those that touch file systems share processes.
type watched struct {
	usage     *stats.Poller
	health    *health.Monitor
	healer    *heal.Healer
	quiescing *quiesce.Tasks
}

// endpoints returns the procedures that servers may call.
func (w watched) endpoints() []rpc.Endpoint {
	return append(w.quiescing.Endpoints(), w.usage.Endpoint())
}

func watchMounts(p Parts, plugins *volumes.Manager, pool *helpers.Pool) watched {
	var w watched
	w.health = health.New(health.Config{
		List:    health.Mounted(plugins.Volumes()),
		Helpers: pool,
		Logger:  p.Logger.Named("volume_health"),
	})
	w.healer = heal.New(w.health, pool)
	w.quiescing = quiesce.New(p.DB, p.Logger.Named("snapshot_commands"))
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
