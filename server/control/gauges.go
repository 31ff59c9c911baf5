package control

import (
	"context"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/state"
)

// gaugeLoop reports how many rows are in which state. When it ends it sets every gauge that it set to 0,
// so that the sum over all servers counts each row once.
type gaugeLoop struct{ Deps }

func (g gaugeLoop) run(ctx context.Context) {
	tick := time.NewTicker(g.Config.GaugeInterval)
	defer tick.Stop()
	reported := gauges{}
	defer func() { reported.zeroWithout(nil) }()
	for {
		now := gauges{}
		now.report(state.CountTotals(g.Store.Read()))
		reported.zeroWithout(now) // for example a plugin that is gone
		reported = now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// gauges are those that were set, each by a key of its own.
type gauges map[string]func(value float32)

func (g gauges) report(t state.Totals) {
	for status, n := range t.Nodes {
		g.set("nodes "+status, n, func(value float32) {
			metrics.SetGaugeWithLabels([]string{"control", "nodes"}, value, label("status", status))
		})
	}
	for state, n := range t.Claims {
		g.set("claims "+state, n, func(value float32) {
			metrics.SetGaugeWithLabels([]string{"csi", "claims"}, value, label("state", state))
		})
	}
	for state, n := range t.Attachments {
		g.set("attachments "+state, n, func(value float32) {
			metrics.SetGaugeWithLabels([]string{"csi", "attachments_pending"}, value, label("state", state))
		})
	}
	for state, n := range t.Volumes {
		g.set("volumes "+state, n, func(value float32) {
			metrics.SetGaugeWithLabels([]string{"csi", "volumes_pending"}, value, label("state", state))
		})
	}
	for _, p := range t.Plugins {
		g.reportPlugin(p)
	}
}

func (g gauges) reportPlugin(p state.PluginTotal) {
	labels := append(label("plugin", p.PluginID), label("kind", string(p.Kind))...)
	key := p.PluginID + " " + string(p.Kind)
	g.set("healthy "+key, p.Healthy, func(value float32) {
		metrics.SetGaugeWithLabels([]string{"csi", "plugin_healthy"}, value, labels)
	})
	g.set("expected "+key, p.Expected, func(value float32) {
		metrics.SetGaugeWithLabels([]string{"csi", "plugin_expected"}, value, labels)
	})
}

func label(name, value string) []metrics.Label { return []metrics.Label{{Name: name, Value: value}} }

func (g gauges) set(key string, n int, set func(value float32)) {
	set(float32(n))
	g[key] = set
}

// zeroWithout sets the gauges that now does not have to 0.
func (g gauges) zeroWithout(now gauges) {
	for key, set := range g {
		if now[key] == nil {
			set(0)
		}
	}
}
