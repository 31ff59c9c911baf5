package telemetry

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"
)

// BenchmarkMeasure times one measured request.
func BenchmarkMeasure(b *testing.B) {
	name := []string{"rpc", "served"}
	labels := []metrics.Label{{Name: "method", Value: "Node.UpdateStatus"}, {Name: "error"}}
	measure := func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			metrics.MeasureSinceWithLabels(name, time.Now(), labels)
		}
	}
	b.Run("no sink", measure)
	for title, prometheus := range map[string]bool{"memory": false, "memory and prometheus": true} {
		b.Run(title, func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.PrometheusMetrics = prometheus
			tele, err := Start(cfg, hclog.NewNullLogger())
			if err != nil {
				b.Fatal(err)
			}
			defer tele.Close()
			measure(b)
		})
	}
}
