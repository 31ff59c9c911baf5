package operator

import (
	"context"
	"io"
	"net/url"

	"berth/api"
	"berth/structs"
	"berth/structs/access"
)

var metricsGet = api.NewEndpoint[[]byte](&table, api.Get, "/v1/metrics",
	serveMetrics, api.Needs(access.NeedsNothing))

// maxMetrics bounds the bytes that the client reads of an answer.
const maxMetrics = 64 << 20

// The values of ?format of /v1/metrics.
const (
	MetricsJSON       = "json"
	MetricsPrometheus = "prometheus"
)

// serveMetrics answers with the metrics of this agent: the newest finished interval in JSON, or all series as
// text for Prometheus.
func serveMetrics(c *api.Call) (any, error) {
	switch format := c.Param("format"); format {
	case "", MetricsJSON:
		return c.Agent.Metrics().Summary()
	case MetricsPrometheus:
		return nil, servePrometheus(c)
	default:
		return nil, api.BadParam("format", format, MetricsJSON+" or "+MetricsPrometheus)
	}
}

func servePrometheus(c *api.Call) error {
	text := c.Agent.Metrics().Prometheus()
	if text == nil {
		return structs.Preconditionf(
			"this agent does not serve Prometheus: set prometheus_metrics = true in its telemetry block")
	}
	c.Began = true
	text.ServeHTTP(c.Writer, c.Request)
	return nil
}

// Metrics returns the metrics of the called agent in a format, MetricsJSON or MetricsPrometheus.
func Metrics(ctx context.Context, c *api.Client, format string) ([]byte, error) {
	resp, err := metricsGet.Open(ctx, c, api.Request{
		Query: url.Values{"format": {format}},
	})
	if err != nil {
		return nil, err
	}
	defer api.CloseBody(resp)
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxMetrics))
	if err != nil {
		return nil, structs.Unavailablef("the metrics are incomplete: %w", err)
	}
	return text, nil
}
