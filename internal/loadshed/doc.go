// Package loadshed bounds the load that a process accepts, and rejects the rest with the time after which to
// retry.
//
//   - Budget bounds the bytes of requests in flight.
//   - Permits bounds their number. Queue adds a bounded queue in front of them, and spreads the retry times
//     of rejected requests.
//   - Gate rejects a share of the reads while the process is overloaded.
//   - Conns counts connections by host. HTTPConns bounds the connections of an HTTP server.
//
// A rejected request has had no effect. The callers decide which requests a bound applies to.
package loadshed

import "github.com/hashicorp/go-metrics"

// CountRejected counts n requests or connections that were rejected because of a limit.
func CountRejected(limit string, n int) {
	labels := []metrics.Label{{Name: "limit", Value: limit}}
	metrics.IncrCounterWithLabels([]string{"rpc", "rejected"},
		float32(n), labels)
}
