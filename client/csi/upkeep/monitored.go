package upkeep

import (
	"berth/client/csi/volumes"
	"berth/structs/storage"
)

// MonitoredMounts returns the function that lists the mounts of volumes by the records of a node.
func MonitoredMounts(v *volumes.Volumes) func() ([]Mount, error) {
	return func() ([]Mount, error) {
		all, err := v.Mounts()
		list := make([]Mount, len(all))
		for i, m := range all {
			list[i] = Mount{
				Volume:   storage.UsageKey{Namespace: m.Namespace, VolumeID: m.ID},
				AllocID:  m.AllocID,
				PluginID: m.PluginID,
				Path:     m.Path,
				Writes:   m.Writes,
			}
		}
		return list, err
	}
}
