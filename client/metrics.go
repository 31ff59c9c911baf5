package client

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner"
	"berth/client/machine"
	"berth/internal/backoff"
	"berth/internal/telemetry"
	"berth/structs"
)

// MeasuredNode is the agent of a node.
type MeasuredNode interface {
	// MeasuredNode returns the row of the node.
	Node() *structs.Node
	// Allocs returns the states of the allocations on the node.
	Allocs() map[string]*structs.AllocClientUpdate
	// Find returns the runner of an allocation. The error is not-found without one.
	Find(allocID string) (*allocrunner.Runner, error)
}

// Metrics publishes what a node and its tasks use, under the names of the dialect: its dashboards and its
// autoscaler know them. It does so while Run runs.
//
// Facts that need no measurement, such as the number of allocations, are read with each request for metrics.
// The tasks and the machine are measured once in an interval, and only if the configuration publishes them.
// Nothing is kept of an allocation that has left the node.
type Metrics struct {
	Node   MeasuredNode
	Logger hclog.Logger
}

// mostReads bounds the allocations whose tasks are read at once.
const mostReads = 8

// metricsPublisher is a Metrics in work.
type metricsPublisher struct {
	Metrics
	settings telemetry.Config
	tasks    meters
	machine  *machine.Meter // nil before the first reading

	mu       sync.Mutex
	measured []telemetry.Gauge // of the last interval
}

// Run publishes until ctx ends.
func (m Metrics) Run(ctx context.Context) {
	p := &metricsPublisher{Metrics: m, settings: telemetry.Settings(), tasks: meters{}}
	if !p.settings.DialectNames {
		return
	}
	remove := telemetry.Gauges(p.gauges)
	defer remove()

	if !p.settings.PublishAllocationMetrics && !p.settings.PublishNodeMetrics {
		<-ctx.Done()
		return
	}
	for ctx.Err() == nil {
		next := time.Now().Add(p.settings.CollectionInterval)
		p.measure(ctx, next)
		backoff.Sleep(ctx, time.Until(next))
	}
}

// gauges yields all gauges of the node. It waits for nothing.
func (p *metricsPublisher) gauges(yield func(telemetry.Gauge)) {
	p.known(yield)
	p.mu.Lock()
	measured := p.measured
	p.mu.Unlock()
	for _, g := range measured {
		yield(g)
	}
}

// measure measures what the configuration publishes, until the given time at most.
func (p *metricsPublisher) measure(ctx context.Context, until time.Time) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	var found []telemetry.Gauge
	collect := func(g telemetry.Gauge) { found = append(found, g) }
	if p.settings.PublishAllocationMetrics {
		p.measureTasks(ctx, collect)
	}
	if p.settings.PublishNodeMetrics {
		p.measureMachine(ctx, collect)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.measured = found
}

// metricLabels are the labels of a node in the dialect.
func metricLabels(n *structs.Node) map[string]string {
	class := n.NodeClass
	if class == "" {
		class = "none"
	}
	return map[string]string{
		"node_id":                     n.ID,
		"datacenter":                  n.Datacenter,
		"node_class":                  class,
		"node_pool":                   n.NodePool,
		"node_status":                 n.Status,
		"node_scheduling_eligibility": n.SchedulingEligibility,
	}
}
