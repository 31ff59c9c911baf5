package telemetry

import (
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/go-metrics"
)

// Dialect is the first part of the names that dashboards of the dialect know.
const Dialect = "nomad"

// sharedParts are the second parts of the names that libraries give. They are the same in the dialect.
var sharedParts = []string{"raft", "runtime", "serf", "memberlist"}

// dialectNames has the names in the dialect of metrics that berth measures as the dialect does. There they
// have no labels.
var dialectNames = map[string][]string{
	"autopilot.healthy":           {Dialect, Dialect, "autopilot", "healthy"},
	"autopilot.failure_tolerance": {Dialect, Dialect, "autopilot", "failure_tolerance"},
	"control.schedule":            {Dialect, Dialect, "broker", "process_time"},
	"control.plans_in_flight":     {Dialect, Dialect, "broker", "total_unacked"},
	"fsm.apply":                   {Dialect, "raft", "fsm", "apply"},
	"rpc.queries":                 {Dialect, Dialect, "rpc", "query"},
}

// named is what a configuration says of names in the dialect.
type named struct {
	cfg  Config
	host []metrics.Label // empty with disable_hostname
}

func newNamed(cfg Config) named {
	n := named{cfg: cfg}
	host, err := os.Hostname()
	if err == nil && !cfg.DisableHostname {
		n.host = []metrics.Label{{Name: "host", Value: host}}
	}
	return n
}

// keeps reports whether a metric of the dialect is served: the longest matching prefix decides.
func (n named) keeps(name string) bool {
	if !n.cfg.DialectNames {
		return false
	}
	kept := n.cfg.FilterDefault
	longest := 0
	for _, entry := range n.cfg.PrefixFilter {
		prefix := entry[1:]
		if len(prefix) > longest && strings.HasPrefix(name, prefix) {
			longest = len(prefix)
			kept = entry[0] == '+'
		}
	}
	return kept
}

// translate returns the key and the labels of a metric in the dialect. The key is nil if the dialect lacks it
// or it is not served.
func (n named) translate(key []string, labels []metrics.Label) ([]string, []metrics.Label) {
	if len(key) < 2 || key[0] != Service {
		return nil, nil
	}
	var in []string
	if slices.Contains(sharedParts, key[1]) {
		in = append([]string{Dialect}, key[1:]...)
		labels = append(slices.Clip(labels), n.host...)
	} else {
		in = dialectNames[strings.Join(key[1:], ".")]
		labels = n.host
	}
	if in == nil || !n.keeps(strings.Join(in, ".")) {
		return nil, nil
	}
	return in, labels
}

// renaming passes every metric on, and again under its name in the dialect if it has one.
type renaming struct {
	metrics.FanoutSink
	named
}

// SetGauge implements metrics.MetricSink.
func (r renaming) SetGauge(key []string, value float32) { r.SetGaugeWithLabels(key, value, nil) }

// SetGaugeWithLabels implements metrics.MetricSink.
func (r renaming) SetGaugeWithLabels(key []string, value float32, labels []metrics.Label) {
	r.FanoutSink.SetGaugeWithLabels(key, value, labels)
	if in, of := r.translate(key, labels); in != nil {
		r.FanoutSink.SetGaugeWithLabels(in, value, of)
	}
}

// SetPrecisionGauge implements metrics.PrecisionGaugeMetricSink.
func (r renaming) SetPrecisionGauge(key []string, value float64) {
	r.SetPrecisionGaugeWithLabels(key, value, nil)
}

// SetPrecisionGaugeWithLabels implements metrics.PrecisionGaugeMetricSink.
func (r renaming) SetPrecisionGaugeWithLabels(key []string, value float64, labels []metrics.Label) {
	r.FanoutSink.SetPrecisionGaugeWithLabels(key, value, labels)
	if in, of := r.translate(key, labels); in != nil {
		r.FanoutSink.SetPrecisionGaugeWithLabels(in, value, of)
	}
}

// IncrCounter implements metrics.MetricSink.
func (r renaming) IncrCounter(key []string, value float32) { r.IncrCounterWithLabels(key, value, nil) }

// IncrCounterWithLabels implements metrics.MetricSink.
func (r renaming) IncrCounterWithLabels(key []string, value float32, labels []metrics.Label) {
	r.FanoutSink.IncrCounterWithLabels(key, value, labels)
	if in, of := r.translate(key, labels); in != nil {
		r.FanoutSink.IncrCounterWithLabels(in, value, of)
	}
}

// AddSample implements metrics.MetricSink.
func (r renaming) AddSample(key []string, value float32) { r.AddSampleWithLabels(key, value, nil) }

// AddSampleWithLabels implements metrics.MetricSink.
func (r renaming) AddSampleWithLabels(key []string, value float32, labels []metrics.Label) {
	r.FanoutSink.AddSampleWithLabels(key, value, labels)
	if in, of := r.translate(key, labels); in != nil {
		r.FanoutSink.AddSampleWithLabels(in, value, of)
	}
	if slices.Equal(key, servedKey) {
		r.countRequest(labels)
	}
}

// servedKey is the sample of each request that this process has answered.
var servedKey = []string{Service, "rpc", "served"}

// countRequest counts a request, and its failure, as the dialect does: without the method.
func (r renaming) countRequest(labels []metrics.Label) {
	failed := slices.ContainsFunc(labels, func(l metrics.Label) bool {
		return l.Name == "error" && l.Value != ""
	})
	for name, counts := range map[string]bool{"request": true, "request_error": failed} {
		key := []string{Dialect, Dialect, "rpc", name}
		if counts && r.keeps(strings.Join(key, ".")) {
			r.FanoutSink.IncrCounterWithLabels(key, 1, r.host)
		}
	}
}
