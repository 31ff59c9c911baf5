package ui

import (
	"berth/api/show"
	"berth/structs"
	"berth/ui/pages"
)

// properties makes a list of facts from titles and values in turn. It leaves out those without a value.
func properties(pairs ...string) (list []pages.Property) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			list = append(list, pages.Property{Name: pairs[i], Value: pairs[i+1]})
		}
	}
	return list
}

// volumeProperties has the facts of berth volume status that the picture does not show.
func volumeProperties(v *structs.CSIVolumeDetail) []pages.Property {
	controllers := ""
	if v.ControllerRequired {
		controllers = show.Count(v.ControllersHealthy, v.ControllersExpected)
	}
	return properties(
		"ID", v.ID,
		"Name", v.Name,
		"Namespace", v.Namespace,
		"External ID", v.ExternalID,
		"Plugin", v.PluginID,
		"Class", v.Class,
		"Labels", structs.LabelsText(v.Labels),
		"Provider", show.JoinComma(v.Provider, v.ProviderVersion),
		"Capacity", show.Size(v.Capacity),
		"Grows to", show.GrowthText(v),
		"Schedulable", show.YesNo(v.Schedulable),
		"Blocked", show.BlockedText(v),
		"Controllers healthy", controllers,
		"Nodes healthy", show.Count(v.NodesHealthy, v.NodesExpected),
		"Access mode", string(v.AccessMode),
		"Attachment mode", string(v.AttachmentMode),
		"On node loss", v.LossPolicy,
		"Reclaim", v.Reclaim,
		"Created", show.Nanos(v.CreateTime),
		"Modified", show.Nanos(v.ModifyTime),
	)
}
