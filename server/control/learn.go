package control

import (
	"berth/state/csi"
	"berth/structs"
)

// rejected reports whether an error is the rejection of a request by the plugin. Without a code the plugin
// was not called: its half on the node may lack a capability for a moment. Neither was it by a node whose
// plugin such calls have ended: they may have made something before.
func rejectedByPlugin(err error) bool {
	switch structs.KindOf(err) {
	case structs.KindInvalid, structs.KindConflict, structs.KindPrecondition:
		code := structs.CodeOf(err)
		return code != "" && code != structs.CSICodeEndsPlugin
	}
	return false
}

// learned returns the outcome of a creation that is repeated to find the volume to delete. If the plugin
// rejects the request, it made no volume of it before, because it would answer with that volume (CSI spec,
// CreateVolume): then the outcome is as of a deletion. Other errors prove nothing: secrets or the source of
// the volume may have changed meanwhile. ALREADY_EXISTS tells that the plugin has a volume of the name.
// Nobody else uses a name that berth has made, and an earlier call may have made the volume under any name.
// Then the call is repeated, because the row alone names the volume.
func learned(
	v *structs.CSIVolume, outcome *structs.CSIVolumeOutcome, err error,
) (*structs.CSIVolumeOutcome, error) {
	kind := structs.KindOf(err)
	ours := v.Unanswered || v.Call != nil || csi.IsMadeName(v.ID, v.NameAtPlugin())
	switch {
	case !rejectedByPlugin(err):
		return outcome, err
	case kind == structs.KindConflict && ours:
		return nil, structs.Unavailablef("plugin %q may have volume %q under the name %q; if it does not, "+
			"delete the row alone: %s: %w", v.PluginID, v.ID, v.NameAtPlugin(),
			structs.CommandLine(v.Namespace, "volume deregister -force", v.ID), err)
	}
	return &structs.CSIVolumeOutcome{Op: "delete"}, nil
}

// unmade returns the error of a creation that is repeated to find the snapshot or the group to delete: nil if
// it tells that the earlier calls have made nothing. See learned: the names of both are always berth's.
// remove is the command that deletes the row alone.
func unmade(err error, remove string) error {
	switch {
	case !rejectedByPlugin(err):
		return err
	case structs.IsKind(err, structs.KindConflict):
		return structs.Unavailablef("the plugin may have it; if it does not, delete the row alone: %s: %w",
			remove, err)
	}
	return nil
}
