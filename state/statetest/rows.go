package statetest

import "berth/structs"

// Node returns a ready node with resources.
func Node(id string) *structs.Node {
	return &structs.Node{
		ID:         id,
		Name:       "name-" + id,
		SecretID:   "secret-" + id,
		Datacenter: "dc1",
		Status:     structs.NodeReady,
		NodeResources: &structs.NodeResources{
			CPU:    structs.NodeCPUResources{CpuShares: 4000},
			Memory: structs.NodeMemoryResources{MemoryMB: 4000},
			Disk:   structs.NodeDiskResources{DiskMB: 40000},
		},
	}
}

// Instance returns a report on a half of a plugin.
func Instance(plugin string, kind structs.CSIKind, healthy bool) *structs.CSIPluginInstance {
	i := &structs.CSIPluginInstance{
		Kind: kind,
		CSIInfo: structs.CSIInfo{
			PluginID:        plugin,
			Healthy:         healthy,
			Provider:        "provider-" + plugin,
			ProviderVersion: "1",
		},
	}
	if kind == structs.CSIKindController {
		i.ControllerInfo = &structs.CSIControllerInfo{
			SupportsCreateDelete:          true,
			SupportsSingleNodeMultiWriter: true,
		}
	} else {
		i.NodeInfo = &structs.CSINodeInfo{ID: "external", MultiWriter: true}
	}
	return i
}

// AttachingHalves returns both healthy halves of a plugin that attaches.
func AttachingHalves(plugin string) []*structs.CSIPluginInstance {
	return Attaching(
		Instance(plugin, structs.CSIKindNode, true),
		Instance(plugin, structs.CSIKindController, true),
	)
}

// OfDriver returns a healthy report of both halves by a driver with this name.
func OfDriver(provider string) []*structs.CSIPluginInstance {
	halves := AttachingHalves("p")
	for _, i := range halves {
		i.Provider = provider
	}
	return halves
}

// Attaching makes the plugin of the reports one whose controller attaches.
func Attaching(is ...*structs.CSIPluginInstance) []*structs.CSIPluginInstance {
	for _, i := range is {
		i.RequiresControllerPlugin = true
		if i.ControllerInfo != nil {
			i.ControllerInfo.SupportsAttachDetach = true
		}
	}
	return is
}

// Job returns a job with a group of one task, and a task for each plugin that it runs.
func Job(id, kind string, plugins ...string) *structs.Job {
	g := &structs.TaskGroup{
		Name:  "g",
		Count: 1,
		Tasks: []*structs.Task{{
			Name:      "t",
			Driver:    "exec",
			Resources: &structs.Resources{CPU: 100, MemoryMB: 100},
		}},
	}
	for _, p := range plugins {
		g.Tasks = append(g.Tasks, &structs.Task{
			Name: p,
			CSIPluginConfig: &structs.CSIPluginConfig{
				ID:   p,
				Type: structs.CSIPluginMonolith,
			},
		})
	}
	return &structs.Job{
		ID:         id,
		Namespace:  structs.DefaultNamespace,
		Type:       kind,
		Priority:   50,
		TaskGroups: []*structs.TaskGroup{g},
	}
}

// Volume returns a volume that is registered.
func Volume(id, plugin string) *structs.CSIVolume {
	return &structs.CSIVolume{
		ID: id, Namespace: structs.DefaultNamespace,
		CSIVolumeSpec: structs.CSIVolumeSpec{Name: id, PluginID: plugin, ExternalID: "ext-" + id},
	}
}

// Claim returns a claim on a file system.
func Claim(volume, alloc, mode string, access structs.CSIAccessMode) *structs.CSIClaim {
	return &structs.CSIClaim{
		Namespace:      structs.DefaultNamespace,
		VolumeID:       volume,
		AllocID:        alloc,
		Mode:           mode,
		AccessMode:     access,
		AttachmentMode: structs.CSIFileSystem,
	}
}

// Creating makes a volume one that the servers are to create.
func Creating(v *structs.CSIVolume) {
	v.State, v.ExternalID = structs.VolumeCreating, ""
}

// Denied is a final error of a plugin.
func Denied() *structs.OperationError {
	return &structs.OperationError{Message: "no", Kind: structs.KindDenied, Code: "Unauthenticated"}
}
