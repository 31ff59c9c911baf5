package upkeep

import (
	"context"

	"berth/client/csi/mounts"
	"berth/client/csi/volumes"
	"berth/structs/storage"
)

// TrimmedVolumes returns the function that lists the volumes of a node that are to be trimmed, by its
// records. Of a volume that several allocations may write, it takes the shortest time.
func TrimmedVolumes(v *volumes.Volumes) func() ([]TrimmedVolume, error) {
	return func() ([]TrimmedVolume, error) {
		all, err := v.Mounts()
		if err != nil {
			return nil, err
		}
		staged := map[storage.UsageKey]string{}
		for _, m := range all {
			if m.AllocID == "" && m.Writes {
				staged[m.Volume] = m.Path
			}
		}

		byKey := map[storage.UsageKey]*TrimmedVolume{}
		var list []*TrimmedVolume
		for _, m := range all {
			if m.AllocID == "" || !m.Writes || m.Trim <= 0 {
				continue
			}
			known := byKey[m.Volume]
			if known == nil {
				known = &TrimmedVolume{
					Key:      m.Volume,
					PluginID: m.PluginID,
					Path:     m.Path,
					Every:    m.Trim,
				}
				if path := staged[m.Volume]; path != "" {
					known.Path = path
				}
				byKey[m.Volume] = known
				list = append(list, known)
			}
			known.Every = min(known.Every, m.Trim)
			known.Users = append(known.Users, m.AllocID)
		}

		out := make([]TrimmedVolume, len(list))
		for i, known := range list {
			out[i] = *known
		}
		return out, nil
	}
}

// Aside returns TrimmerConfig.Aside for the volumes of a node.
func Aside(v *volumes.Volumes) func(context.Context, storage.UsageKey, func(context.Context)) bool {
	return func(ctx context.Context, k storage.UsageKey, do func(context.Context)) bool {
		return volumes.Aside(ctx, v, volumes.VolumeKey{Namespace: k.Namespace, ID: k.VolumeID}, do)
	}
}

// IsWhole reports whether the mount table has a whole file system at exactly a path.
func IsWhole(path string) (bool, error) {
	table, err := mounts.Read()
	if err != nil {
		return false, err
	}
	return table.IsWhole(path), nil
}
