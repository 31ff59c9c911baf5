package external

import (
	"context"
	"sync"
	"time"

	protocol "berth/client/drivers/protocol/driver"
	"berth/internal/backoff"
	"berth/structs"
)

// health is what is known of a process: its own report, and whether it answers calls.
type health struct {
	publish func(*structs.DriverInfo)
	began   time.Time // of the process, or of its use

	mu       sync.Mutex          // held while publish runs
	reported *structs.DriverInfo // nil: nothing yet
	silent   bool                // it did not answer the last probe
}

// setReport publishes a report. A process that reports is not silent.
func (h *health) setReport(info *structs.DriverInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reported = info
	h.silent = false
	// The lock is held, so that reports keep their order.
	h.publish(info)
}

// setProbe publishes the result of a probe: that the process does not answer, has not reported in time, or
// answers again.
func (h *health) setProbe(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil:
		h.silent = true
		h.publish(unhealthy("the driver plugin does not answer: %v", err))
	// The first report may be on its way: nothing is published until it is late.
	case h.reported == nil && time.Since(h.began) < reportTimeout:
	case h.reported == nil:
		h.publish(unhealthy("the driver plugin answers, but has not reported its health"))
	case h.silent:
		h.silent = false
		h.publish(h.reported)
	}
}

// probe asks the process at intervals whether it answers, until ctx ends.
func probe(ctx context.Context, service protocol.DriverClient, h *health) {
	// A plugin that hangs sends no report of that: only a call shows it.
	for backoff.Sleep(ctx, probeInterval) {
		// A probe that ends with the session tells nothing of the plugin.
		err := probeOnce(ctx, service)
		if ctx.Err() != nil {
			return
		}
		h.setProbe(err)
	}
}

// probeOnce returns nil if the process answers, whatever it says.
func probeOnce(ctx context.Context, service protocol.DriverClient) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := service.Capabilities(ctx, &protocol.CapabilitiesRequest{})
	// A plugin that rejects the call has answered, too.
	if err == nil || isFinal(err) {
		return nil
	}
	return callError(err)
}

// unhealthy is the report of a plugin that cannot be used.
func unhealthy(format string, args ...any) *structs.DriverInfo {
	return &structs.DriverInfo{
		HealthDescription: cut(format, args...),
		UpdateTime:        time.Now(),
	}
}
