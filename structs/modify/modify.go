// Package modify has the rules for the mutable parameters of volumes. The row of a volume has the wanted
// values, and those that its plugin has applied. The leader makes the plugin apply those that differ.
package modify

import (
	"maps"

	"berth/structs"
)

// Op is the operation that changes parameters, in a CSICall, an outcome and an OperationError.
const Op = "modify"

// NoCapability is the fault of a plugin that cannot change volumes, after its name.
const NoCapability = "has no MODIFY_VOLUME, which mutable_parameters need: " +
	"leave them out, or use another plugin"

// Pending returns the wanted parameters that the plugin has still to apply to a ready volume, nil for none.
func Pending(v *structs.CSIVolume) map[string]string {
	if !v.Modifies() {
		return nil
	}
	changed := map[string]string{}
	for key, value := range v.MutableParameters {
		applied, has := v.AppliedParameters[key]
		if !has || applied != value {
			changed[key] = value
		}
	}
	return changed
}

// Merge returns parameters with those that a request changes. It changes neither map.
func Merge(stored, changed map[string]string) map[string]string {
	if len(changed) == 0 {
		return stored
	}
	merged := map[string]string{}
	maps.Copy(merged, stored)
	maps.Copy(merged, changed)
	return merged
}

// Changes reports whether a request changes a parameter of a volume that was made.
func Changes(old, v *structs.CSIVolume) bool {
	return !maps.Equal(Merge(old.MutableParameters, v.MutableParameters), old.MutableParameters)
}

// Rejected reports whether a volume does not want all parameters of a request: its plugin has rejected them.
func Rejected(v, asked *structs.CSIVolume) bool {
	return !v.Modifies() && !maps.Equal(Merge(v.MutableParameters, asked.MutableParameters), v.MutableParameters)
}
