package nomad

import (
	"context"
	"path"

	"berth/convert/jobfile"
	"berth/convert/report"
	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate"
)

// hostVolumes writes a file for each dynamic host volume, by which `berth volume create` makes a new one.
func (m *migration) hostVolumes(ctx context.Context) error {
	k := kind{name: "host volume", list: "/v1/volumes", typ: structs.VolumeTypeHost, object: "/v1/volume/host/"}
	return each(ctx, m, k, m.hostVolume)
}

func (m *migration) hostVolume(item *report.Item, s *stub, v *storage.DynamicHostVolume) error {
	item.Name = v.Name // the ID is a new one in berth
	item.Add(report.Warnings, "its data stay on the node "+v.NodeID+", in "+v.HostPath+
		": copy them into the new volume, or offer the directory as a static host volume of this name there")
	if v.PluginID != "" && v.PluginID != storage.HostVolumeBuiltIn {
		item.Add(report.Warnings, "its plugin "+v.PluginID+
			" is not one of berth: the file leaves the plugin and its parameters out")
		v.PluginID = ""
		v.Parameters = nil
	}
	constraints, warnings := dropConstraints(v.Constraints)
	if len(warnings) > 0 {
		item.Add(report.Warnings, warnings...)
	}
	row := &storage.DynamicHostVolume{
		Namespace:                 s.Namespace,
		Name:                      v.Name,
		PluginID:                  v.PluginID,
		NodePool:                  v.NodePool,
		Constraints:               constraints,
		RequestedCapacityMinBytes: v.RequestedCapacityMinBytes,
		RequestedCapacityMaxBytes: v.RequestedCapacityMaxBytes,
		RequestedCapabilities:     v.RequestedCapabilities,
		Parameters:                v.Parameters,
	}
	row.Canonicalize()
	err := validate.HostVolume(row)
	if err != nil {
		item.Add(report.Not, err.Error())
	}
	// Nodes may have volumes of the same name, so the file has the ID.
	name := path.Join("volumes", report.FileName(s.Namespace), report.FileName(s.ID)+".hcl")
	return m.write(item, name, jobfile.HostVolume(row, item.Notes))
}
