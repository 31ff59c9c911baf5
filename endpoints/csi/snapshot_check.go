package csi

import (
	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate"
	"berth/structs/validate/field"
)

// checkSnapshot checks a requested snapshot. No parameter and no secret appears in the error.
func checkSnapshot(ask *storage.CSISnapshot) error {
	f := field.New("snapshot %q", structs.Cut(ask.Name, structs.MaxQuoted))
	if ask.Name != "" {
		f.CheckName("Name", ask.Name)
		f.CheckBytes("Name", len(ask.Name), structs.MaxCSIString)
	}
	f.CheckName("SourceVolumeID", ask.SourceVolumeID)
	f.CheckString("PluginID", ask.PluginID, structs.MaxCSIString)
	f.CheckCSIMap("Parameters", ask.Parameters)
	checkSnapshotSecrets(f, ask.Secrets)
	return f.Err()
}

func checkSnapshotSecrets(f field.Errors, given structs.Secrets) {
	if len(given) > 0 {
		err := validate.VolumeSecrets(given)
		f.Require(err == nil, "Secrets: %v", err)
	}
}

// checkSnapshotDelete checks that a request names one snapshot.
func checkSnapshotDelete(req *storage.SnapshotDeleteRequest) error {
	f := field.New("deleting a snapshot")
	byID := req.PluginID != "" && req.SnapshotID != ""
	f.Require((req.SnapshotName != "") != byID && (byID || req.PluginID == "" && req.SnapshotID == ""),
		"expected either the name of a snapshot, or a plugin with its ID of a snapshot")
	f.Require(!req.Force || req.SnapshotName != "",
		"Force deletes the row of a snapshot, and leaves it at its plugin; expected the name of the snapshot")
	f.CheckString("SnapshotName", req.SnapshotName, structs.MaxName)
	f.CheckString("PluginID", req.PluginID, structs.MaxCSIString)
	f.CheckString("SnapshotID", req.SnapshotID, structs.MaxCSIID)
	checkSnapshotSecrets(f, req.Secrets)
	return f.Err()
}
