package telemetry

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// The bounds of the settings. A shorter interval has costs without use. A longer retention keeps intervals
// in memory that no one reads.
const (
	minInterval  = time.Second
	maxInterval  = time.Hour
	maxRetention = 24 * time.Hour
	maxIntervals = 1000 // kept in memory at once
)

// Config is the block telemetry of an agent's configuration.
type Config struct {
	// CollectionInterval is the time between two readings of the runtime and of the leader's gauges.
	CollectionInterval time.Duration `hcl:"collection_interval"`
	// InMemoryCollectionInterval is the time over which /v1/metrics aggregates.
	InMemoryCollectionInterval time.Duration `hcl:"in_memory_collection_interval"`
	// InMemoryRetentionPeriod is how long a finished interval is kept in memory.
	InMemoryRetentionPeriod time.Duration `hcl:"in_memory_retention_period"`
	// PrometheusMetrics serves /v1/metrics?format=prometheus.
	PrometheusMetrics bool `hcl:"prometheus_metrics"`
	// PrometheusRetention is how long a series without updates is served; 0 serves it without end.
	PrometheusRetention time.Duration `hcl:"prometheus_retention"`
	// StatsdAddress and StatsiteAddress are host:port of a server that every metric is sent to; "" is none.
	StatsdAddress   string `hcl:"statsd_address"`
	StatsiteAddress string `hcl:"statsite_address"`
	// PrefixFilter allows (+) or drops (-) the metrics whose name begins with the rest of an entry.
	PrefixFilter []string `hcl:"prefix_filter"`
	// FilterDefault decides whether a metric without an entry in PrefixFilter is kept.
	FilterDefault bool `hcl:"filter_default"`

	// DialectNames serves metrics also under the names of the dialect, for its dashboards.
	DialectNames bool `hcl:"dialect_names"`
	// PublishAllocationMetrics measures the tasks of a node at each CollectionInterval.
	PublishAllocationMetrics bool `hcl:"publish_allocation_metrics"`
	// PublishNodeMetrics measures the machine of a node at each CollectionInterval.
	PublishNodeMetrics bool `hcl:"publish_node_metrics"`
	// DisableHostname leaves the label host out of the metrics of the dialect.
	DisableHostname bool `hcl:"disable_hostname"`
	// DisableDispatchedJobSummaryMetrics leaves out the summaries of dispatched jobs.
	DisableDispatchedJobSummaryMetrics bool `hcl:"disable_dispatched_job_summary_metrics"`
}

// DefaultConfig keeps a minute of intervals of ten seconds and serves Prometheus.
func DefaultConfig() Config {
	return Config{
		CollectionInterval:         10 * time.Second,
		InMemoryCollectionInterval: 10 * time.Second,
		InMemoryRetentionPeriod:    time.Minute,
		PrometheusMetrics:          true,
		PrometheusRetention:        24 * time.Hour,
		FilterDefault:              true,
		DialectNames:               true,
	}
}

// Validate joins all faults of the block.
func (c Config) Validate() error {
	faults := []error{
		checkRange("collection_interval", c.CollectionInterval, minInterval, maxInterval),
		checkRange("in_memory_collection_interval", c.InMemoryCollectionInterval, minInterval, maxInterval),
		checkRange("in_memory_retention_period", c.InMemoryRetentionPeriod, minInterval, maxRetention),
		checkRange("prometheus_retention", c.PrometheusRetention, 0, 365*24*time.Hour),
	}

	if c.InMemoryCollectionInterval > 0 &&
		c.InMemoryRetentionPeriod/c.InMemoryCollectionInterval > maxIntervals {
		faults = append(faults,
			fmt.Errorf("telemetry: in_memory_retention_period holds more than %d intervals", maxIntervals))
	}

	for _, entry := range c.PrefixFilter {
		if entry == "" || !strings.Contains("+-", entry[:1]) {
			faults = append(faults,
				fmt.Errorf("telemetry: prefix_filter: %.64q begins with neither + nor -", entry))
		}
	}

	addresses := map[string]string{
		"statsd_address":   c.StatsdAddress,
		"statsite_address": c.StatsiteAddress,
	}

	for name, addr := range addresses {
		_, _, err := net.SplitHostPort(addr)
		if addr != "" && err != nil {
			faults = append(faults,
				fmt.Errorf("telemetry: %s: %w; expected host:port", name, err))
		}
	}

	return errors.Join(faults...)
}

func checkRange(name string, value, least, most time.Duration) error {
	if value < least || value > most {
		return fmt.Errorf("telemetry: %s is %s; expected %s to %s",
			name, value, least, most)
	}
	return nil
}

// prefixes splits the filter into allowed and dropped prefixes.
func (c Config) prefixes() (allowed, blocked []string) {
	for _, entry := range c.PrefixFilter {
		prefix := entry[1:]
		if entry[0] == '+' {
			allowed = append(allowed, prefix)
		} else {
			blocked = append(blocked, prefix)
		}
	}

	return allowed, blocked
}
