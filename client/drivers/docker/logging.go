package docker

import (
	"maps"

	"github.com/moby/moby/api/types/container"

	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/driver"
)

// logConfigOf makes the daemon keep the output as the job says. Otherwise the daemon keeps it where its log
// stream can be read, for the time in which no helper reads it.
func logConfigOf(cfg *driver.TaskConfig, want *taskconfig.Logging) container.LogConfig {
	if want == nil && cfg.LogConfig.Disabled {
		return container.LogConfig{Type: taskconfig.LogNone}
	}
	if want == nil {
		want = &taskconfig.Logging{Driver: taskconfig.LogJSON}
	}
	options := map[string]string{}
	if want.Driver == taskconfig.LogJSON || want.Driver == taskconfig.LogLocal {
		options["max-size"] = taskconfig.KeptOutput // the daemon's default is no bound
		options["max-file"] = taskconfig.KeptFiles
	}
	// The job has the last word, also on the bounds.
	maps.Copy(options, want.Options)
	return container.LogConfig{Type: want.Driver, Config: options}
}

// withReadableLogs returns the configuration of a task without logs if the daemon cannot be asked for its
// output.
func (d *Driver) withReadableLogs(cfg *driver.TaskConfig, want *taskconfig.Logging) *driver.TaskConfig {
	if want == nil || want.Readable() || cfg.LogConfig.Disabled {
		return cfg
	}
	d.emit(cfg.ID, "The logs of the task stay empty: its config.logging lets the daemon keep no output")
	without := *cfg
	without.LogConfig.Disabled = true
	return &without
}
