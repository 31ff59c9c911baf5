package volumes

import (
	"context"
	"reflect"
	"sync/atomic"
	"time"

	"berth/client/csi/registry"
	"berth/csi"
	"berth/internal/backoff"
	"berth/structs"
)

// instance manages the connection to one half of a plugin as one allocation runs it, and holds its last
// report.
type instance struct {
	registration *registry.Instance
	client       *csi.Client
	calls        *registry.SuspectGuard
	cancel       context.CancelFunc // ends it at once
	// retire ends it, but leaves calls in flight, or about to begin, their usual time.
	retire context.CancelFunc
	rounds registry.Rounds // of fingerprints

	report atomic.Pointer[structs.CSIInfo] // nil until the first fingerprint has ended; one goroutine sets it
}

// startInstance begins to fingerprint an instance. It ends with stop or with ctx; Run waits for it.
func (m *Manager) startInstance(ctx context.Context, reg *registry.Instance) *instance {
	ctx, cancel := context.WithCancel(ctx)
	// A retired instance is not fingerprinted any more. ctx lives on for its calls.
	watching, retire := context.WithCancel(ctx)
	i := &instance{
		registration: reg,
		cancel:       cancel,
		retire:       retire,
		rounds:       registry.NewRounds(m.cfg.RefreshMin),
	}
	i.calls = m.suspects.Open(registry.PluginHalf{
		ID:      reg.ID,
		Half:    reg.Kind,
		Socket:  reg.SocketPath,
		Version: registry.PluginVersion{Provider: reg.Provider, Driver: reg.Version, Job: reg.JobIndex},
	})

	client, err := csi.Dial(reg.SocketPath, csi.Options{
		Name:    reg.ID,
		Logger:  m.logger,
		Timeout: m.cfg.callLimit(),
		Guard:   i.calls.Do,
		Metrics: func(method, code string, took time.Duration) {
			m.cfg.Metrics(reg.ID, method, code, took)
		},
	})
	if err != nil { // the path is invalid: nothing will ever answer
		i.calls.Close()
		i.setReport(&structs.CSIInfo{
			PluginID:          reg.ID,
			AllocID:           reg.AllocID,
			HealthDescription: err.Error(),
		})
		return i
	}

	i.client = client
	m.wg.Go(func() {
		m.fingerprintLoop(watching, i)

		// A retired instance keeps its connection for the calls in flight.
		if ctx.Err() == nil {
			registry.Sleep(ctx, m.cfg.callLimit())
		}

		if err := client.Close(); err != nil {
			m.logger.Debug("failed to close a plugin connection",
				"plugin_id", reg.ID, "error", err)
		}
		i.calls.Close()
	})

	return i
}

// stop ends the instance without waiting for it and cancels its calls. A nil instance is stopped.
func (i *instance) stop() {
	if i != nil {
		i.cancel()
	}
}

// setReport stores a report and reports whether it differs from the last one.
func (i *instance) setReport(r *structs.CSIInfo) bool {
	last := i.report.Load()
	if last != nil {
		// A report that differs only in its time is no new one.
		r.UpdateTime = last.UpdateTime
		if reflect.DeepEqual(r, last) {
			return false
		}
	}

	r.UpdateTime = time.Now().UnixNano()
	i.report.Store(r)
	return true
}

// fingerprintLoop fingerprints until ctx ends: now, then at the interval. It calls an unhealthy instance
// again sooner, with a backoff. The delays vary, so that a node does not call all its plugins at once. A
// plugin needs no server of berth, so the end of a cut between them and the node ends no delay.
func (m *Manager) fingerprintLoop(ctx context.Context, i *instance) {
	sooner := backoff.Backoff{
		Min: m.cfg.RetryMin,
		Max: m.cfg.FingerprintInterval,
	}
	for {
		r := m.fingerprint(ctx, i)
		if ctx.Err() != nil {
			return // the result of a cancelled fingerprint is worth nothing
		}

		if i.setReport(r) {
			m.logReport(i, r)
			// The end of Run, which reads the reports, ends ctx.
			select {
			case m.newReports <- i.registration.Key():
			case <-ctx.Done():
				return
			}
		}

		wait := m.cfg.FingerprintInterval
		if r.Healthy {
			sooner.Reset()
		} else {
			wait = sooner.Next()
		}

		if !i.rounds.Wait(ctx, wait) {
			return
		}
	}
}

func (m *Manager) logReport(i *instance, r *structs.CSIInfo) {
	m.logger.Info("plugin fingerprinted",
		"plugin_id", r.PluginID, "kind", i.registration.Kind,
		"alloc_id", r.AllocID, "healthy", r.Healthy,
		"description", r.HealthDescription,
		"version", r.ProviderVersion)
}

// fingerprint queries all properties of the plugin. An unhealthy instance keeps its earlier properties, which
// detaches still need.
func (m *Manager) fingerprint(ctx context.Context, i *instance) *structs.CSIInfo {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.ProbeTimeout)
	defer cancel()
	reg := i.registration
	r := &structs.CSIInfo{
		Provider:        reg.Provider,
		ProviderVersion: reg.Version,
	}
	if last := i.report.Load(); last != nil {
		*r = *last
	}

	r.PluginID = reg.ID
	r.AllocID = reg.AllocID
	r.FormerProvider = reg.FormerProvider
	r.EndingCalls = i.calls.Stopped()
	r.Healthy = false
	r.HealthDescription = ""
	ready, err := i.client.Probe(ctx)
	switch {
	case err != nil:
		r.HealthDescription = err.Error()
	case !ready:
		r.HealthDescription = "the plugin is starting: Probe answers ready=false"
	default:
		err := registry.Fingerprint(ctx, i.client, reg.Kind, r)
		if err != nil {
			r.HealthDescription = err.Error()
			break
		}

		r.Healthy = true
		r.HealthDescription = "healthy"
	}

	return r
}
