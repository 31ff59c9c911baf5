// Package telemetry gathers the metrics of one process and serves them.
//
// All packages emit through the global functions of hashicorp/go-metrics, as Raft, serf and memberlist do.
// Start directs them to sinks. One sink is always in memory and answers /v1/metrics in JSON. Prometheus and
// statsd are sinks if they are configured. A process has one set of sinks: a second Start replaces the first.
//
// docs/reference/metrics.md lists the names. A test generates it from the source of every package that emits.
package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"
	sink "github.com/hashicorp/go-metrics/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Service is the first part of every name.
const Service = "berth"

// Telemetry is the set of sinks that the metrics of the process go to.
type Telemetry struct {
	interval   time.Duration
	global     *metrics.Metrics
	memory     *metrics.InmemSink
	prometheus http.Handler // nil if it is not enabled
	named      named
}

// Start directs the metrics of the process to the sinks of cfg, which must be valid. Close ends them. The
// logger gets a warning of metrics that Prometheus cannot have.
func Start(cfg Config, logger hclog.Logger) (*Telemetry, error) {
	t := &Telemetry{
		interval: cfg.CollectionInterval,
		memory: metrics.NewInmemSink(cfg.InMemoryCollectionInterval,
			cfg.InMemoryRetentionPeriod),
		named: newNamed(cfg),
	}

	sinks := metrics.FanoutSink{t.memory}
	if cfg.PrometheusMetrics {
		s, err := t.newPrometheus(cfg, logger)
		if err != nil {
			return nil, fmt.Errorf("telemetry: prometheus: %w", err)
		}

		sinks = append(sinks, s)
	}

	if cfg.StatsdAddress != "" {
		s, err := metrics.NewStatsdSink(cfg.StatsdAddress)
		if err != nil {
			return nil, fmt.Errorf("telemetry: statsd_address: %w", err)
		}

		sinks = append(sinks, s)
	}

	if cfg.StatsiteAddress != "" {
		s, err := metrics.NewStatsiteSink(cfg.StatsiteAddress)
		if err != nil {
			return nil, fmt.Errorf("telemetry: statsite_address: %w", err)
		}

		sinks = append(sinks, s)
	}

	var all metrics.MetricSink = sinks
	if cfg.DialectNames {
		all = renaming{sinks, t.named}
	}

	var err error
	t.global, err = metrics.NewGlobal(goMetrics(cfg), all)
	running.Store(&t.named.cfg)
	return t, err
}

// goMetrics turns the host's name off, so that a name is the same on every machine, and the library's own
// loop over the runtime, because it could not be stopped.
func goMetrics(cfg Config) *metrics.Config {
	mc := metrics.DefaultConfig(Service)
	mc.EnableHostname = false
	mc.EnableRuntimeMetrics = false
	mc.FilterDefault = cfg.FilterDefault
	mc.AllowedPrefixes, mc.BlockedPrefixes = cfg.prefixes()
	return mc
}

func (t *Telemetry) newPrometheus(cfg Config, logger hclog.Logger) (*sink.PrometheusSink, error) {
	registry := prometheus.NewRegistry()
	s, err := sink.NewPrometheusSinkFrom(sink.PrometheusOpts{
		Expiration: cfg.PrometheusRetention,
		Registerer: registry,
	})
	if err != nil {
		return nil, err
	}

	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collector{t.named},
	)
	t.prometheus = promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true,
		ErrorHandling:     promhttp.ContinueOnError, // one bad metric must not hide all others
		ErrorLog:          &firstFaults{logger: logger},
	})
	return s, nil
}

// firstFaults logs the first fault of each kind alone: a bad metric is there again at each request.
type firstFaults struct {
	kinds  sync.Map
	logger hclog.Logger
}

// Println implements promhttp.Logger. The first part says what failed, such as the gathering.
func (f *firstFaults) Println(fault ...any) {
	_, known := f.kinds.LoadOrStore(fault[0], true)
	if !known {
		f.logger.Warn("metrics are missing in an answer to Prometheus; further ones are not logged",
			"fault", strings.TrimSpace(fmt.Sprintln(fault...)))
	}
}

// Run reads the statistics of the Go runtime at every interval until ctx ends.
func (t *Telemetry) Run(ctx context.Context) {
	tick := time.NewTicker(t.interval)
	defer tick.Stop()
	for {
		t.global.EmitRuntimeStats()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Close ends the sinks. It must be called when nothing of the process emits metrics any more.
func (t *Telemetry) Close() {
	running.CompareAndSwap(&t.named.cfg, nil)
	if metrics.Default() == t.global {
		// NewGlobal fails for no configuration.
		_, _ = metrics.NewGlobal(&metrics.Config{},
			&metrics.BlackholeSink{})
	}
	t.global.Shutdown()
}

// Summary returns the newest finished interval, or the running one while there is no other.
func (t *Telemetry) Summary() (any, error) {
	answer, err := t.memory.DisplayMetrics(nil, nil)
	if summary, ok := answer.(metrics.MetricsSummary); ok {
		t.named.addGauges(&summary)
		return summary, err
	}
	return answer, err
}

// Prometheus serves the metrics as text for Prometheus; nil if the configuration does not enable it.
func (t *Telemetry) Prometheus() http.Handler {
	return t.prometheus
}
