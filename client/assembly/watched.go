package assembly

import (
	"berth/client/csi/csihooks"
	"berth/client/csi/helper"
	"berth/client/csi/upkeep"
	"berth/client/csi/volumes"
	"berth/rpc"
)

// watched are the parts that look after the mounted volumes. Each has its own processes that touch file
// systems.
type watched struct {
	usage     *upkeep.Poller
	health    *upkeep.Monitor
	healer    *upkeep.Healer
	quiescing *csihooks.QuiescedTasks
	trims     *upkeep.Trimmer
}

// endpoints returns the procedures that servers may call.
func (w watched) endpoints() []rpc.Endpoint {
	return append(w.quiescing.Endpoints(), w.usage.Endpoint())
}

// watchMounts makes the parts. command is the program of the processes with its arguments.
func watchMounts(p Parts, plugins *volumes.Manager, command []string) watched {
	var w watched
	pools := helper.NewPools(command)
	w.trims = upkeep.NewTrimmer(upkeep.TrimmerConfig{
		List:    upkeep.TrimmedVolumes(plugins.Volumes()),
		IsWhole: upkeep.IsWhole,
		Aside:   upkeep.Aside(plugins.Volumes()),
		Helper:  command,
		Logger:  p.Logger.Named("volume_trim"),
	})
	w.health = upkeep.NewMonitor(upkeep.MonitorConfig{
		List:    plugins.Volumes().Mounts,
		Helpers: pools.Health,
		Logger:  p.Logger.Named("volume_health"),
	})
	w.healer = upkeep.NewHealer(w.health, pools.Heal)
	w.quiescing = csihooks.NewQuiescedTasks(p.DB, p.Logger.Named("snapshot_commands"))
	w.usage = upkeep.NewPoller(upkeep.PollerConfig{
		List:      upkeep.PolledVolumes(plugins),
		Storages:  upkeep.Storages(plugins),
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
