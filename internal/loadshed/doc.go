// Package loadshed bounds the load that a process takes on, and refuses the rest with the time after which
// to retry.
//
//   - Budget bounds the bytes of requests in flight.
//   - Places bounds how many go on at once. Queue adds a bounded queue in front of them, and spreads the
//     times after which refused requests come back.
//   - Gate refuses a share of the reads while the process is asked for more than it can do.
//   - Conns counts connections by host. HTTPConns bounds those of an HTTP server.
//
// What is refused has had no effect. Which requests a bound is for is left to the callers.
package loadshed

import "github.com/hashicorp/go-metrics"

// CountRefused counts n requests or connections that were refused because of a limit.
func CountRefused(limit string, n int) {
	labels := []metrics.Label{{Name: "limit", Value: limit}}
	metrics.IncrCounterWithLabels([]string{"rpc", "refused"}, float32(n), labels)
}
