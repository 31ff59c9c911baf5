package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/internal/backoff"
	"berth/internal/telemetry"
	"berth/server/control/loop"
	"berth/server/control/workqueue"
	"berth/state"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/structs"
	"berth/structs/quota"
	"berth/structs/storage"
)

// GaugeLoop reports the number of rows in each state. When it ends it sets every gauge that it set to 0, so
// that the sum over all servers counts each row once.
//
// It reports on the leader how many rows are in each state, and how many calls of plugins wait.
type GaugeLoop struct {
	loop.Common
	Calls *workqueue.Loads // of the loop of the controllers, whose groups are plugins
}

// GaugeInterval is the time between two counts of the rows.
const GaugeInterval = 10 * time.Second

// answerTime is how long Run waits for the loads of the calls.
const answerTime = time.Second

// Run reports until ctx ends.
func (l GaugeLoop) Run(ctx context.Context) {
	published := &DialectGauges{}
	defer telemetry.Gauges(published.Gauges)()

	reported := gauges{}
	defer func() { reported.zeroUnless(nil) }()
	for {
		next := time.Now().Add(GaugeInterval)
		now := gauges{}
		tx := l.Store.Read()
		now.report(state.CountTotals(tx))
		now.reportQuotas(tx)
		now.reportDrift(tx)
		now.reportHealth(tx)
		now.reportCalls(l.loads(ctx))
		now.reportGauge([]string{"control", "summaries_left_out"}, published.Count(tx))
		reported.zeroUnless(now) // for example a plugin that is gone
		reported = now
		if !backoff.Sleep(ctx, time.Until(next)) {
			return
		}
	}
}

// loads returns the loads of the calls by plugin. Just after the begin of a leadership there may be none yet.
func (l GaugeLoop) loads(ctx context.Context) map[string]workqueue.Load {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	loads, _ := l.Calls.Read(ctx)
	return loads
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

// reportCalls reports the calls of each plugin that are in flight or wait.
func (g gauges) reportCalls(loads map[string]workqueue.Load) {
	for id, l := range loads {
		plugin := metricLabel("plugin", id)
		g.reportGauge([]string{"csi", "calls_in_flight"}, l.Working, plugin)
		g.reportGauge([]string{"csi", "backlog"}, l.Waiting, plugin)
		age := 0
		if l.Waiting > 0 {
			age = int(time.Since(l.Since).Seconds())
		}
		g.reportGauge([]string{"csi", "backlog_age_seconds"}, age, plugin)
	}
}

// reportQuotas reports each bound of the quotas with its use.
func (g gauges) reportQuotas(tx *state.ReadTx) {
	for s := range namespace.Quotas(tx) {
		for _, b := range quota.Compare(s, namespace.QuotaUsed(tx, s.Name)) {
			name := metricLabel("quota", s.Name)
			of := metricLabel("of", b.Of.String())
			g.reportGauge([]string{"quota", "used"}, int(b.Used), name, of)
			g.reportGauge([]string{"quota", "allowed"}, int(b.Most), name, of)
		}
	}
}

// reportDrift reports the differences between volumes and storage. A plugin without a summary has none.
func (g gauges) reportDrift(tx *state.ReadTx) {
	for s := range csi.DriftSummaries(tx) {
		plugin := metricLabel("plugin", s.PluginID)
		for _, kind := range storage.DriftKinds {
			g.reportGauge([]string{"csi", "drift"}, s.Counts[kind], plugin, metricLabel("kind", kind))
		}
	}
}

// reportHealth reports how many volumes of each plugin its controllers report as abnormal. A plugin without a
// row has none.
func (g gauges) reportHealth(tx *state.ReadTx) {
	counts := map[string]int{}
	for h := range csi.HealthFrom(tx, structs.AllNamespaces) {
		counts[h.PluginID] += 0
		if h.Condition.Abnormal {
			counts[h.PluginID]++
		}
	}
	g.reportGauges([]string{"csi", "volumes_abnormal"}, "plugin", counts)
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
