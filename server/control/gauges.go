package control

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/internal/backoff"
	"berth/state"
	"berth/state/quotas"
	"berth/structs/quotause"
)

// gaugeLoop reports the number of rows in each state. When it ends it sets every gauge that it set to 0,
// so that the sum over all servers counts each row once.
type gaugeLoop struct{ Deps }

// gaugeInterval is the time between two counts of the rows.
const gaugeInterval = 10 * time.Second

func (g gaugeLoop) run(ctx context.Context) {
	reported := gauges{}
	defer func() { reported.zeroUnless(nil) }()
	for {
		now := gauges{}
		tx := g.Store.Read()
		now.report(state.CountTotals(tx))
		now.reportQuotas(tx)
		reported.zeroUnless(now) // for example a plugin that is gone
		reported = now
		if !backoff.Sleep(ctx, gaugeInterval) {
			return
		}
	}
}

// gauges has the gauges that were set, by name and labels.
type gauges map[string]func(value float32)

func (g gauges) report(t state.Totals) {
	g.reportGauges([]string{"control", "nodes"}, "status", t.Nodes)
	g.reportGauges([]string{"csi", "claims"}, "state", t.Claims)
	g.reportGauges([]string{"csi", "attachments_pending"}, "state", t.Attachments)
	g.reportGauges([]string{"csi", "volumes_pending"}, "state", t.Volumes)
	for _, p := range t.Plugins {
		plugin := metricLabel("plugin", p.PluginID)
		kind := metricLabel("kind", string(p.Kind))
		g.reportGauge([]string{"csi", "plugin_healthy"}, p.Tally.Healthy, plugin, kind)
		g.reportGauge([]string{"csi", "plugin_expected"}, p.Tally.Expected(), plugin, kind)
	}
}

// reportQuotas reports each bound of the quotas with its use.
func (g gauges) reportQuotas(tx *state.ReadTx) {
	for s := range quotas.All(tx) {
		for _, b := range quotause.Compare(s, quotas.Used(tx, s.Name)) {
			name := metricLabel("quota", s.Name)
			of := metricLabel("of", b.Of.String())
			g.reportGauge([]string{"quota", "used"}, int(b.Used), name, of)
			g.reportGauge([]string{"quota", "allowed"}, int(b.Most), name, of)
		}
	}
}

// reportGauges sets a gauge for each value of a label. test/refdocs finds the names of metrics in its calls.
func (g gauges) reportGauges(name []string, labelName string, counts map[string]int) {
	for value, n := range counts {
		g.reportGauge(name, n, metricLabel(labelName, value))
	}
}

func metricLabel(name, value string) metrics.Label {
	return metrics.Label{Name: name, Value: value}
}

// reportGauge sets a gauge. test/refdocs finds the names of metrics in its calls.
func (g gauges) reportGauge(name []string, n int, labels ...metrics.Label) {
	set := func(value float32) {
		metrics.SetGaugeWithLabels(name, value, labels)
	}
	set(float32(n))
	g[fmt.Sprint(name, labels)] = set
}

// zeroUnless sets the gauges to 0 that are not among the present ones.
func (g gauges) zeroUnless(now gauges) {
	for key, set := range g {
		if now[key] == nil {
			set(0)
		}
	}
}
