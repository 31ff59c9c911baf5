package nomad

import (
	"context"
	"net/url"
	"path"

	"berth/convert/jobfile"
	"berth/convert/report"
	"berth/structs/hostvol"
)

// hostVolumes writes a file for each dynamic host volume, by which `berth volume create` makes a new one.
func (m *migration) hostVolumes(ctx context.Context) error {
	all, err := list[stub](ctx, m.client, "/v1/volumes", url.Values{"type": {"host"}})
	if err != nil {
		return m.unread(err, "dynamic host volumes")
	}
	for _, s := range all {
		item := m.report.Add("host volume", s.Namespace, s.ID)
		var v hostvol.DynamicHostVolume
		_, err = m.client.get(ctx, "/v1/volume/host/"+url.PathEscape(s.ID), s.ofNamespace(), &v)
		if err != nil {
			item.Add(report.Not, "it was not read: "+err.Error())
			continue
		}
		err = m.hostVolume(item, &s, &v)
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *migration) hostVolume(item *report.Item, s *stub, v *hostvol.DynamicHostVolume) error {
	item.Name = v.Name // the ID is a new one in berth
	item.Add(report.Warnings, "its data stay on the node "+v.NodeID+", in "+v.HostPath+
		": copy them into the new volume, or offer the directory as a static host volume of this name there")
	if v.PluginID != "" && v.PluginID != hostvol.BuiltIn {
		item.Add(report.Warnings, "its plugin "+v.PluginID+
			" is not one of berth: the file leaves the plugin and its parameters out")
		v.PluginID = ""
		v.Parameters = nil
	}
	constraints, warnings := dropConstraints(v.Constraints)
	if len(warnings) > 0 {
		item.Add(report.Warnings, warnings...)
	}
	row := &hostvol.DynamicHostVolume{
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
	err := row.Check()
	if err != nil {
		item.Add(report.Not, err.Error())
	}
	// Nodes may have volumes of the same name, so the file has the ID.
	name := path.Join("volumes", report.FileName(s.Namespace), report.FileName(s.ID)+".hcl")
	return m.write(item, name, jobfile.HostVolume(row, item.Notes))
}
