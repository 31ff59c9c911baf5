package control

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/internal/backoff"
	"berth/state"
)

// gaugeLoop reports how many rows are in which state. When it ends it sets every gauge that it set to 0,
// so that the sum over all servers counts each row once.
type gaugeLoop struct{ Deps }

// gaugeInterval is the time between two counts of the rows.
const gaugeInterval = 10 * time.Second

func (g gaugeLoop) run(ctx context.Context) {
	reported := gauges{}
	defer func() { reported.zeroWithout(nil) }()
	for {
		now := gauges{}
		now.report(state.CountTotals(g.Store.Read()))
		reported.zeroWithout(now) // for example a plugin that is gone
		reported = now
		if !backoff.Sleep(ctx, gaugeInterval) {
			return
		}
	}
}

// gauges are those that were set, by name and labels.
type gauges map[string]func(value float32)

func (g gauges) report(t state.Totals) {
	for status, n := range t.Nodes {
		g.reportGauge([]string{"control", "nodes"}, n, label("status", status))
	}
	for state, n := range t.Claims {
		g.reportGauge([]string{"csi", "claims"}, n, label("state", state))
	}
	for state, n := range t.Attachments {
		g.reportGauge([]string{"csi", "attachments_pending"}, n, label("state", state))
	}
	for state, n := range t.Volumes {
		g.reportGauge([]string{"csi", "volumes_pending"}, n, label("state", state))
	}
	for _, p := range t.Plugins {
		plugin := label("plugin", p.PluginID)
		kind := label("kind", string(p.Kind))
		g.reportGauge([]string{"csi", "plugin_healthy"}, p.Tally.Healthy, plugin, kind)
		g.reportGauge([]string{"csi", "plugin_expected"}, p.Tally.Expected(), plugin, kind)
	}
}

func label(name, value string) metrics.Label { return metrics.Label{Name: name, Value: value} }

// reportGauge sets a gauge. test/refdocs finds the names of metrics in its calls.
func (g gauges) reportGauge(name []string, n int, labels ...metrics.Label) {
	set := func(value float32) { metrics.SetGaugeWithLabels(name, value, labels) }
	set(float32(n))
	g[fmt.Sprint(name, labels)] = set
}

// zeroWithout sets the gauges that now does not have to 0.
func (g gauges) zeroWithout(now gauges) {
	for key, set := range g {
		if now[key] == nil {
			set(0)
		}
	}
}
