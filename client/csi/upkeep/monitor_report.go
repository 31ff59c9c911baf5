package upkeep

import (
	"github.com/hashicorp/go-metrics"

	"berth/structs/storage"
)

// report sets the gauge of each volume.
func (m *Monitor) report() {
	for k, v := range m.summary() {
		labels := []metrics.Label{
			{Name: "namespace", Value: k.Namespace},
			{Name: "volume", Value: k.VolumeID},
			{Name: "plugin", Value: v.plugin},
		}
		metrics.SetGaugeWithLabels([]string{"csi", "volume_unhealthy"}, float32(v.ill), labels)
	}
}

// volume is what the gauge of a volume needs.
type volume struct {
	plugin string
	ill    int // mounts
}

func (m *Monitor) summary() map[storage.UsageKey]volume {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[storage.UsageKey]volume{}
	for _, s := range m.mounts {
		v := all[s.Volume]
		v.plugin = s.PluginID
		if s.health.Ill() {
			v.ill++
		}
		all[s.Volume] = v
	}
	return all
}
