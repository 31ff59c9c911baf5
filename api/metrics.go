package api

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"berth/structs"
	"berth/structs/access"
)

var metricsGet = NewEndpoint[[]byte](Get, "/v1/metrics", serveMetrics, Needs(access.NeedsNothing))

// Metrics are the metrics of one process (see internal/telemetry).
type Metrics interface {
	// Summary returns the newest finished interval for JSON.
	Summary() (any, error)
	// Prometheus serves all series as text. It is nil if the agent's configuration does not enable it.
	Prometheus() http.Handler
}

// maxMetrics bounds the bytes that the client reads of an answer.
const maxMetrics = 64 << 20

// The values of ?format of /v1/metrics.
const (
	MetricsJSON       = "json"
	MetricsPrometheus = "prometheus"
)

// serveMetrics answers with the metrics of this agent: the newest finished interval in JSON, or all series as
// text for Prometheus.
func serveMetrics(c *Call) (any, error) {
	switch format := c.Param("format"); format {
	case "", MetricsJSON:
		return c.Agent.Metrics().Summary()
	case MetricsPrometheus:
		return nil, c.servePrometheus()
	default:
		return nil, badParam("format", format, MetricsJSON+" or "+MetricsPrometheus)
	}
}

func (c *Call) servePrometheus() error {
	text := c.Agent.Metrics().Prometheus()
	if text == nil {
		return structs.Preconditionf(
			"this agent does not serve Prometheus: set prometheus_metrics = true in its telemetry block")
	}
	c.began = true
	text.ServeHTTP(c.w, c.r)
	return nil
}

// Metrics returns the metrics of the called agent in a format, MetricsJSON or MetricsPrometheus.
func (c *Client) Metrics(ctx context.Context, format string) ([]byte, error) {
	resp, err := metricsGet.route.open(ctx, c, Request{
		Query: url.Values{"format": {format}},
	})
	if err != nil {
		return nil, err
	}
	defer closeBody(resp)
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxMetrics))
	if err != nil {
		return nil, structs.Unavailablef("the metrics are incomplete: %w", err)
	}
	return text, nil
}
