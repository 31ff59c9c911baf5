// Package external serves a driver of the peer as an external plugin. The plugin has a name of its own,
// because berth has a driver of the peer's name.
package external

import (
	"context"

	"github.com/hashicorp/go-hclog"
	_ "github.com/hashicorp/nomad/drivers/shared/executor" // runs as its own helper process
	"github.com/hashicorp/nomad/plugins"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/drivers"
)

// Serve serves the driver under its name behind "peer_".
func Serve(newDriver func(context.Context, hclog.Logger) drivers.DriverPlugin) {
	plugins.Serve(func(logger hclog.Logger) any {
		d := newDriver(context.Background(), logger)
		return &renamed{d, d.(drivers.ExecTaskStreamingRawDriver)}
	})
}

type renamed struct {
	drivers.DriverPlugin
	drivers.ExecTaskStreamingRawDriver
}

// PluginInfo implements base.BasePlugin.
func (r *renamed) PluginInfo() (*base.PluginInfoResponse, error) {
	info, err := r.DriverPlugin.PluginInfo()
	if err != nil {
		return nil, err
	}
	changed := *info
	changed.Name = "peer_" + info.Name
	return &changed, nil
}
