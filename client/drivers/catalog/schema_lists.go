package catalog

import (
	"maps"

	"github.com/hashicorp/hcl/v2/hcldec"
)

// listMaps returns a configuration in which each map that stands for a list of maps is a list of one, as the
// dialect reads `sysctl = { ... }`. It changes no value that it is given.
func listMaps(spec hcldec.Spec, given any) any {
	switch s := spec.(type) {
	case *hcldec.DefaultSpec:
		return listMaps(s.Primary, given)
	case *hcldec.AttrSpec:
		one, isMap := given.(map[string]any)
		if isMap && s.Type.IsListType() && s.Type.ElementType().IsMapType() {
			return []any{one}
		}

	case *hcldec.BlockSpec:
		return listMapsOfBlocks(s.Nested, given)
	case *hcldec.BlockListSpec:
		return listMapsOfBlocks(s.Nested, given)
	case *hcldec.BlockSetSpec:
		return listMapsOfBlocks(s.Nested, given)
	// Only the settings of an object have names by which a configuration gives them.
	case hcldec.ObjectSpec:
		settings, isMap := given.(map[string]any)
		if !isMap {
			break
		}

		// The caller's map belongs to the job, which others read.
		settings = maps.Clone(settings)
		for _, inner := range s {
			name := settingOf(inner)
			if value, set := settings[name]; set {
				settings[name] = listMaps(inner, value)
			}
		}

		return settings
	}
	return given
}

// listMapsOfBlocks is listMaps for one block or a list of blocks.
func listMapsOfBlocks(nested hcldec.Spec, given any) any {
	blocks, isList := given.([]any)
	// A job may give one block as a map. hcldec itself takes that for a list of one.
	if !isList {
		return listMaps(nested, given)
	}

	// The caller's list stays as it is, too.
	out := make([]any, len(blocks))
	for i, block := range blocks {
		out[i] = listMaps(nested, block)
	}
	return out
}

// settingOf returns the name of the setting that a spec reads, "" if it is of no kind that listMaps changes.
func settingOf(spec hcldec.Spec) string {
	switch s := spec.(type) {
	case *hcldec.DefaultSpec:
		return settingOf(s.Primary)
	case *hcldec.AttrSpec:
		return s.Name
	case *hcldec.BlockSpec:
		return s.TypeName
	case *hcldec.BlockListSpec:
		return s.TypeName
	case *hcldec.BlockSetSpec:
		return s.TypeName
	}
	return ""
}
