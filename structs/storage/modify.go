package storage

import (
	"maps"

	"berth/structs"
)

// OpModify is the operation that changes parameters, in a CSICall, an outcome and an OperationError.
const OpModify = "modify"

// NoModifyVolume is the fault of a plugin that cannot change volumes, after its name.
const NoModifyVolume = "has no MODIFY_VOLUME, which mutable_parameters need: " +
	"leave them out, or use another plugin"

// PendingParameters returns the wanted parameters that the plugin has still to apply to a ready volume, nil
// for none.
func PendingParameters(v *structs.CSIVolume) map[string]string {
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

// MergeParameters returns parameters with the changes of a request. It changes neither map.
func MergeParameters(stored, changed map[string]string) map[string]string {
	if len(changed) == 0 {
		return stored
	}
	merged := map[string]string{}
	maps.Copy(merged, stored)
	maps.Copy(merged, changed)
	return merged
}

// ChangesParameters reports whether a request changes a parameter of a volume that was made.
func ChangesParameters(old, v *structs.CSIVolume) bool {
	return !maps.Equal(MergeParameters(old.MutableParameters, v.MutableParameters), old.MutableParameters)
}

// ParametersRejected reports whether a volume does not want all parameters of a request: its plugin has
// rejected them.
func ParametersRejected(v, asked *structs.CSIVolume) bool {
	return !v.Modifies() &&
		!maps.Equal(MergeParameters(v.MutableParameters, asked.MutableParameters), v.MutableParameters)
}
