package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// Gauge is a value under a name that does not begin with Service, for dashboards that know this name. The
// parts of a name of the dialect are separated by dots, and Prometheus gets "_" for them.
type Gauge struct {
	Name, Help string
	Labels     map[string]string
	Value      float64
	// Counts says that the value only grows while the labelled thing exists.
	Counts bool
}

// gauges are the sources of the process.
var gauges struct {
	sync.Mutex
	sources map[*func(func(Gauge))]bool
}

// Gauges adds a source, which is called at each request of metrics: it must not wait for anything. remove
// takes it away.
func Gauges(source func(yield func(Gauge))) (remove func()) {
	gauges.Lock()
	defer gauges.Unlock()
	if gauges.sources == nil {
		gauges.sources = map[*func(func(Gauge))]bool{}
	}
	gauges.sources[&source] = true
	return func() {
		gauges.Lock()
		defer gauges.Unlock()
		delete(gauges.sources, &source)
	}
}

// running is the configuration of the present sinks, nil without sinks.
var running atomic.Pointer[Config]

// Settings returns the configuration of the present sinks. Without sinks nothing is to be published.
func Settings() Config {
	cfg := running.Load()
	if cfg == nil {
		return Config{}
	}
	return *cfg
}

// eachGauge yields the gauges of all sources that this configuration serves. Their labels become UTF-8: the
// name of a device may be in no encoding. Of two with the same name and labels it yields one.
func (n named) eachGauge(yield func(Gauge)) {
	gauges.Lock()
	sources := slices.Collect(maps.Keys(gauges.sources))
	gauges.Unlock()
	seen := map[string]bool{}
	for _, source := range sources {
		(*source)(func(g Gauge) {
			if strings.HasPrefix(g.Name, Dialect+".") {
				if !n.keeps(g.Name) {
					return
				}
				g.Labels = n.withHost(g.Labels)
			}
			g.Labels = inUTF8(g.Labels)
			key := fmt.Sprint(g.Name, g.Labels) // a map is printed in the order of its keys
			if !seen[key] {
				seen[key] = true
				yield(g)
			}
		})
	}
}

// withHost returns the labels and the host's.
func (n named) withHost(labels map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, labels)
	for _, l := range n.host {
		all[l.Name] = l.Value
	}
	return all
}

// inUTF8 returns the labels with U+FFFD in place of bytes that are no text.
func inUTF8(labels map[string]string) map[string]string {
	all := make(map[string]string, len(labels))
	for name, value := range labels {
		all[name] = strings.ToValidUTF8(value, "\uFFFD")
	}
	return all
}

// collector collects the gauges of all sources. Their names are not known before.
type collector struct{ named }

// Describe implements prometheus.Collector.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	c.eachGauge(func(g Gauge) {
		kind := prometheus.GaugeValue
		if g.Counts {
			kind = prometheus.CounterValue
		}
		desc := prometheus.NewDesc(strings.ReplaceAll(g.Name, ".", "_"), g.Help, nil, g.Labels)
		// A bad name is left out of the answer, with a warning.
		m, err := prometheus.NewConstMetric(desc, kind, g.Value)
		if err != nil {
			m = prometheus.NewInvalidMetric(desc, err)
		}
		out <- m
	})
}

// addGauges adds the gauges of the dialect to an interval in JSON, also gauges that count.
func (n named) addGauges(s *metrics.MetricsSummary) {
	n.eachGauge(func(g Gauge) {
		if strings.HasPrefix(g.Name, Dialect+".") {
			s.Gauges = append(s.Gauges, metrics.GaugeValue{
				Name:          g.Name,
				Value:         float32(g.Value),
				DisplayLabels: g.Labels,
			})
		}
	})
}
