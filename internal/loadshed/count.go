package loadshed

import "github.com/hashicorp/go-metrics"

// CountRefused counts n requests or connections that were refused because of a limit.
func CountRefused(limit string, n int) {
	labels := []metrics.Label{{Name: "limit", Value: limit}}
	metrics.IncrCounterWithLabels([]string{"rpc", "refused"}, float32(n), labels)
}
