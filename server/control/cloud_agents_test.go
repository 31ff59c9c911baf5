package control

import (
	"maps"
	"slices"
	"strconv"

	"berth/fsm"
	"berth/internal/level"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// cloudAgent is a node with its agent and the plugins.
type cloudAgent struct {
	w        *cloudWorld
	id, zone string
	down     bool
	claimed  map[string][]structs.CSIClaimKey // by allocation, on disk until the servers know of the release
	answered map[string]bool                  // allocations whose claims the servers have
	mounted  map[string][]string              // IDs of the cloud, by allocation
}

func (w *cloudWorld) addAgent(id, zone string) {
	n := &cloudAgent{
		w:        w,
		id:       id,
		zone:     zone,
		claimed:  map[string][]structs.CSIClaimKey{},
		answered: map[string]bool{},
		mounted:  map[string][]string{},
	}
	w.agents[id] = n
	n.register()
}

func (n *cloudAgent) register() {
	var halves []*structs.CSIPluginInstance
	for _, plugin := range []string{"disk", "share"} {
		info := structs.CSIInfo{
			PluginID:                 plugin,
			Provider:                 plugin + ".csi",
			Healthy:                  true,
			RequiresControllerPlugin: true,
			RequiresTopologies:       true,
		}
		node := &structs.CSIPluginInstance{Kind: structs.CSIKindNode, NodeID: n.id, CSIInfo: info}
		node.NodeInfo = &structs.CSINodeInfo{ID: n.id, AccessibleTopology: inZone(n.zone)}
		controller := &structs.CSIPluginInstance{Kind: structs.CSIKindController, NodeID: n.id, CSIInfo: info}
		controller.ControllerInfo = &structs.CSIControllerInfo{
			SupportsCreateDelete: true,
			SupportsAttachDetach: plugin == "disk",
			SupportsExpand:       true,
		}
		halves = append(halves, node, controller)
	}
	_ = try(n.w, fsm.NodeRegister, &structs.NodeRegisterRequest{
		CSI: halves,
		Node: &structs.Node{
			ID:         n.id,
			SecretID:   "s",
			Name:       n.id,
			Datacenter: "dc1",
			Status:     structs.NodeReady,
			Attributes: map[string]string{structs.AttrNodeLevel: strconv.Itoa(level.Now)},
			Drivers:    map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}},
			NodeResources: &structs.NodeResources{
				CPU:    structs.NodeCPUResources{CpuShares: 1_000_000},
				Memory: structs.NodeMemoryResources{MemoryMB: 1_000_000},
				Disk:   structs.NodeDiskResources{DiskMB: 1_000_000},
			},
		},
		WriteOptions: n.w.stamp(""),
	})
}

// setDown takes the connection from a node, or gives it back.
func (n *cloudAgent) setDown(down bool) {
	update := &structs.NodeStatusUpdate{
		NodeIDs:      []string{n.id},
		Status:       structs.NodeDown,
		WriteOptions: n.w.stamp(""),
	}
	if !down {
		update.Status = structs.NodeReady
		update.Accounted = true
	}
	if try(n.w, fsm.NodeStatus, update) == nil {
		n.down = down
	}
}

// tellClean ends the return of the node. It reports whether the servers know it now.
func (n *cloudAgent) tellClean(row *structs.Node) bool {
	return try(n.w, fsm.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{n.id},
		Status:       structs.NodeReady,
		CleanFor:     row.Epoch,
		WriteOptions: n.w.stamp(""),
	}) == nil
}

// step does the next things for the allocations of the node. It reports whether there were any.
func (n *cloudAgent) step() (did bool) {
	if n.down {
		return false
	}
	tx := n.w.Store.Read()
	if row := state.Node(tx, n.id); row.Returning {
		return n.tellClean(row)
	}
	wanted := map[string]bool{}
	for _, a := range slices.Collect(state.AllocsByNode(tx, n.id)) {
		wanted[a.ID] = true
		switch {
		case a.ServerTerminal() || a.ClientTerminal():
			did = n.end(a.ID, a) || did
		case !n.answered[a.ID]:
			did = n.claim(tx, a) || did
		case n.mounted[a.ID] == nil:
			did = n.mount(tx, a) || did
		case a.ClientStatus != structs.AllocRunning:
			did = n.report(a.ID, structs.AllocRunning) || did
		}
	}
	for _, id := range slices.Sorted(maps.Keys(n.claimed)) {
		if !wanted[id] {
			did = n.end(id, nil) || did
		}
	}
	return did
}

func (n *cloudAgent) claim(tx *state.ReadTx, a *structs.Allocation) bool {
	job := state.JobVersion(tx, a.Namespace, a.JobID, a.JobVersion)
	var keys []structs.CSIClaimKey
	req := &structs.CSIVolumeClaimRequest{NodeID: n.id, SecretID: "s", WriteOptions: n.w.stamp(a.Namespace)}
	for _, r := range job.Group(a.TaskGroup).Volumes {
		c := r.Claim(a.Namespace, a.Index(), a.ID)
		c.AllocID = a.ID
		req.Claims = append(req.Claims, c)
		keys = append(keys, c.Key())
	}
	n.claimed[a.ID] = keys
	err := try(n.w, fsm.VolumeClaim, req)
	if err != nil {
		n.w.note("the claim of %s: %v", a.Name, err)
		if !structs.IsKind(err, structs.KindUnavailable) && !structs.IsKind(err, structs.KindTimeout) {
			n.report(a.ID, structs.AllocFailed)
		}
		return true
	}
	n.answered[a.ID] = true
	return true
}

// mount mounts the volumes once all are ready.
func (n *cloudAgent) mount(tx *state.ReadTx, a *structs.Allocation) bool {
	var ids []string
	for _, key := range n.claimed[a.ID] {
		c := csi.Claim(tx, key.Namespace, key.VolumeID, a.ID)
		v := csi.Volume(tx, key.Namespace, key.VolumeID)
		if c == nil || v == nil || c.State != structs.ClaimGranted || v.ExternalID == "" {
			return false
		}
		at := csi.Attachment(tx, key.Namespace, key.VolumeID, n.id)
		attached := at != nil && at.State == structs.AttachmentAttached
		if v.PluginID == "disk" && !attached {
			return false
		}
		ids = append(ids, v.ExternalID)
	}
	for _, id := range ids {
		n.w.cloud.mount(id, a, n.zone)
	}
	n.mounted[a.ID] = ids
	return true
}

// end unmounts the volumes of an allocation and reports both. The row may be gone.
func (n *cloudAgent) end(id string, a *structs.Allocation) bool {
	for _, volume := range n.mounted[id] {
		n.w.cloud.unmount(volume, id)
	}
	delete(n.mounted, id)
	if a != nil && !a.ClientTerminal() {
		n.report(id, structs.AllocComplete)
		return true
	}
	keys := n.claimed[id]
	if keys == nil {
		return false
	}
	err := try(n.w, fsm.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		NodeID:       n.id,
		SecretID:     "s",
		Claims:       keys,
		WriteOptions: n.w.stamp(""),
	})
	if err == nil {
		delete(n.claimed, id)
		delete(n.answered, id)
	}
	return true
}

func (n *cloudAgent) report(id, status string) bool {
	_ = try(n.w, fsm.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		NodeID:       n.id,
		SecretID:     "s",
		Allocs:       []*structs.AllocClientUpdate{{ID: id, ClientStatus: status}},
		WriteOptions: n.w.stamp(""),
	})
	return true
}
