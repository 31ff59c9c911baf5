package assembly

import (
	"berth/client/csi/heal"
	"berth/client/csi/health"
	"berth/client/csi/helper"
	"berth/client/csi/quiesce"
	"berth/client/csi/stats"
	"berth/client/csi/trim"
	"berth/client/csi/volumes"
	"berth/rpc"
)

// watched are the parts that look after the mounted volumes. Each has its own processes that touch file
// systems.
type watched struct {
	usage     *stats.Poller
	health    *health.Monitor
	healer    *heal.Healer
	quiescing *quiesce.Tasks
	trims     *trim.Trimmer
}

// endpoints returns the procedures that servers may call.
func (w watched) endpoints() []rpc.Endpoint {
	return append(w.quiescing.Endpoints(), w.usage.Endpoint())
}

// watchMounts makes the parts. command is the program of the processes with its arguments.
func watchMounts(p Parts, plugins *volumes.Manager, command []string) watched {
	var w watched
	pools := helper.NewPools(command)
	w.trims = trim.New(trim.Config{
		List:    trim.Mounted(plugins.Volumes()),
		IsWhole: trim.IsWhole,
		Aside:   trim.Aside(plugins.Volumes()),
		Helper:  command,
		Logger:  p.Logger.Named("volume_trim"),
	})
	w.health = health.New(health.Config{
		List:    health.Mounted(plugins.Volumes()),
		Helpers: pools.Health,
		Logger:  p.Logger.Named("volume_health"),
	})
	w.healer = heal.New(w.health, pools.Heal)
	w.quiescing = quiesce.New(p.DB, p.Logger.Named("snapshot_commands"))
	w.usage = stats.New(stats.Config{
		List:      stats.Mounted(plugins),
		Storages:  stats.Storages(plugins),
		Helpers:   pools.Use,
		NodeID:    p.NodeID,
		Health:    w.health.Of,
		Trim:      w.trims.Of,
		Condition: w.health.SetCondition,
		Interval:  p.Config.VolumeStatsInterval,
		Logger:    p.Logger.Named("volume_stats"),
	})
	return w
}
