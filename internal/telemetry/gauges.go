package telemetry

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Gauge is a value under a name that does not begin with Service, for dashboards that know this name. Only
// Prometheus gets it.
type Gauge struct {
	Name, Help string
	Labels     map[string]string
	Value      float64
}

// gauges are the sources of the process.
var gauges struct {
	sync.Mutex
	sources map[*func(func(Gauge))]bool
}

// Gauges adds a source, which is called at each request of Prometheus: it must not wait for anything. remove
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

// collector collects the gauges of all sources. Their names are not known before.
type collector struct{}

// Describe implements prometheus.Collector.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (collector) Collect(out chan<- prometheus.Metric) {
	gauges.Lock()
	sources := slices.Collect(maps.Keys(gauges.sources))
	gauges.Unlock()
	for _, source := range sources {
		(*source)(func(g Gauge) {
			desc := prometheus.NewDesc(g.Name, g.Help, nil, g.Labels)
			// It fails for no gauge without variable labels; a bad name shows in the answer.
			m, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, g.Value)
			if err != nil {
				m = prometheus.NewInvalidMetric(desc, err)
			}
			out <- m
		})
	}
}
