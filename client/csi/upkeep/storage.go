package upkeep

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/client/csi/volumes"
	"berth/csi"
	"berth/structs"
)

// Storage is the storage of a plugin as this node sees it.
type Storage struct {
	PluginID string
	// Ask asks the plugin. The client of the plugin keeps the answer for the next fingerprint.
	Ask func(context.Context) (*structs.CSIStorageHealth, error)
}

// Storages returns the function that lists the plugins of a node that report on their storage.
func Storages(m *volumes.Manager) func() []Storage {
	return func() (list []Storage) {
		for _, i := range m.Instances() {
			if i.Kind != structs.CSIKindNode || i.NodeInfo == nil || !i.NodeInfo.SupportsStorageHealth {
				continue
			}
			conn, err := m.Healthy(i.Kind, i.PluginID)
			if err != nil {
				continue // it does not serve now
			}
			list = append(list, Storage{i.PluginID, func(ctx context.Context) (*structs.CSIStorageHealth, error) {
				return csi.NodeGetStorageHealth(ctx, conn.Client)
			}})
		}
		return list
	}
}

// turn is when something is asked again.
type turn struct {
	due  time.Time
	busy bool // a worker has it
	slow int  // answers in a row that did not come in time, or told that nothing was found
}

// begin reports whether the turn has come, and then marks it as taken.
func (t *turn) begin(now time.Time) bool {
	if t.busy || now.Before(t.due) {
		return false
	}
	t.busy = true
	return true
}

// end sets the next turn, ever later while nothing answers in time, or nothing is found.
func (t *turn) end(interval time.Duration, failed bool) {
	t.busy = false
	pause := interval
	t.slow = min(t.slow+1, MaxPollPause)
	if failed {
		pause = min(pause<<(t.slow-1), MaxPollPause*interval)
	} else {
		t.slow = 0
	}
	// Between nine and eleven tenths.
	t.due = time.Now().Add(pause*9/10 + rand.N(pause/5))
}

// dueStorages returns the storages that are due, and forgets the plugins that are gone.
func (p *Poller) dueStorages(now time.Time) (list []Storage) {
	if p.cfg.Storages == nil {
		return nil
	}
	all := p.cfg.Storages()
	p.mu.Lock()
	defer p.mu.Unlock()
	there := map[string]bool{}
	for _, s := range all {
		there[s.PluginID] = true
		t := p.storages[s.PluginID]
		if t == nil {
			t = &turn{}
			p.storages[s.PluginID] = t
		}
		if t.begin(now) {
			list = append(list, s)
		}
	}
	for id, t := range p.storages {
		if !there[id] && !t.busy {
			delete(p.storages, id)
			reportStorage(id, nil)
		}
	}
	return list
}

// askStorage asks one plugin. After an error the last answer stays: an error is no recovery.
func (p *Poller) askStorage(ctx context.Context, s Storage) {
	limited, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	got, err := s.Ask(limited)
	if err != nil {
		p.cfg.Logger.Debug("plugin does not tell the health of its storage", "plugin_id", s.PluginID, "error", err)
	} else {
		reportStorage(s.PluginID, got)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.storages[s.PluginID].end(p.cfg.Interval, limited.Err() != nil)
}

// reportStorage sets the gauge of a plugin. nil is a storage without an adverse condition.
func reportStorage(plugin string, s *structs.CSIStorageHealth) {
	value := float32(0)
	if s != nil && s.Abnormal {
		value = 1
	}
	metrics.SetGaugeWithLabels([]string{"csi", "storage_unhealthy"}, value,
		[]metrics.Label{{Name: "plugin", Value: plugin}})
}
