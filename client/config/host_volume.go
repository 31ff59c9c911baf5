package config

import (
	"path/filepath"

	"berth/structs"
	"berth/structs/validate/report"
)

// HostVolume is a directory of the node that jobs may mount by its name.
type HostVolume struct {
	Name     string `hcl:",label"`
	Path     string `hcl:"path,required"` // absolute
	ReadOnly bool   `hcl:"read_only"`     // jobs can only read it
}

// HostVolume returns the host volume with a name, nil if there is none.
func (c *Config) HostVolume(name string) *HostVolume {
	for _, v := range c.HostVolumes {
		if v.Name == name {
			return v
		}
	}
	return nil
}

func (c *Config) checkHostVolumes() (faults []error) {
	if n := len(c.HostVolumes); n > structs.MaxHostVolumes {
		faults = append(faults, structs.Invalidf("client.host_volume: there are %d; at most %d are allowed",
			n, structs.MaxHostVolumes))
	}

	seen := map[string]bool{}
	for i, v := range c.HostVolumes {
		for _, other := range c.HostVolumes[:i] {
			// A volume with one writer would have two, under two names.
			if other.Name != v.Name && (contains(v.Path, other.Path) || contains(other.Path, v.Path)) {
				faults = append(faults, structs.Invalidf("client.host_volume %q: path %q is that of %q, or one is in "+
					"the other; offer directories that are apart", v.Name, v.Path, other.Name))
			}
		}

		row := &structs.HostVolume{Path: v.Path}
		if err := report.HostVolume(row, v.Name); err != nil {
			faults = append(faults, structs.Invalidf("client.%w", err))
		}

		if seen[v.Name] {
			faults = append(faults, structs.Invalidf("client.host_volume %q: there are two of them", v.Name))
		}

		seen[v.Name] = true
	}

	return faults
}

// contains reports whether a path is a directory or below it.
func contains(dir, path string) bool {
	below, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(below)
}
