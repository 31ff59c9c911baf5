package csi

import (
	"context"
	"slices"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/fsm"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate/field"
)

// SnapshotGroups serves the methods of group snapshots. A request is recorded as rows. The loop of the leader
// calls the plugin and records the outcome, for which the caller waits.
type SnapshotGroups struct{ *core.Server }

// List lists the groups of a namespace.
func (SnapshotGroups) List(
	tx *state.ReadTx, req *storage.SnapshotGroupListRequest, resp *storage.SnapshotGroupListResponse,
) (err error) {
	l := query.List[storage.GroupSnapshot, storage.GroupSnapshot]{
		Key:  func(g *storage.GroupSnapshot) []string { return []string{g.Namespace, g.Name} },
		Stub: func(g, stub *storage.GroupSnapshot) { *stub = *g },
		Keep: func(g *storage.GroupSnapshot) bool {
			return req.PluginID == "" || g.PluginID == req.PluginID
		},
	}
	rows := snapshot.GroupsFrom(tx, req.RequestNamespace(), req.Prefix, query.Start(req))
	resp.Groups, err = l.Page(rows, req, resp)
	return err
}

// Get reads a group with its members. The error is not-found.
func (SnapshotGroups) Get(
	tx *state.ReadTx, req *storage.SnapshotGroupGetRequest, resp *storage.SnapshotGroupGetResponse,
) error {
	g := snapshot.Group(tx, req.RequestNamespace(), req.GroupName)
	if g == nil {
		return snapshot.GroupNotFound(req.RequestNamespace(), req.GroupName)
	}
	resp.Group = g
	resp.Snapshots = shownMembers(tx, g)
	return nil
}

// shownMembers returns the members as answers have them.
func shownMembers(tx state.Reader, g *storage.GroupSnapshot) (rows []*storage.VolumeSnapshot) {
	for _, m := range snapshot.Members(tx, g) {
		rows = append(rows, shownSnapshot(m))
	}
	return rows
}

// Create takes a group, and waits until its members can be restored. One that is cut is no failure when the
// time of the request ends: its plugin may need hours.
func (p SnapshotGroups) Create(
	ctx context.Context, req *storage.SnapshotGroupCreateRequest, resp *storage.SnapshotGroupCreateResponse,
) (uint64, error) {
	entry, err := p.entryOf(p.Store.Read(), req)
	if err != nil {
		return 0, err
	}
	entry.WriteOptions = req.WriteOptions
	index, err := fsm.Propose(ctx, p.Raft, fsm.SnapshotGroupPut, entry)
	if err != nil {
		return 0, err
	}

	g, err := p.object(entry.Group.Namespace, entry.Group.Name).awaitTaken(ctx)
	if err != nil {
		return 0, err
	}
	resp.Group = g
	resp.Snapshots = shownMembers(p.Store.Read(), g)
	return max(index, g.ModifyIndex), nil
}

// entryOf returns the rows for a requested group.
func (p SnapshotGroups) entryOf(
	tx *state.ReadTx, req *storage.SnapshotGroupCreateRequest,
) (*storage.SnapshotGroupPutEntry, error) {
	err := checkGroupCreate(req)
	if err != nil {
		return nil, err
	}
	volumes, err := groupVolumes(tx, req)
	if err != nil {
		return nil, err
	}
	err = snapshot.CheckGroupAble(tx, volumes[0].PluginID)
	if err == nil {
		err = checkGroupPlaces(tx, volumes)
	}
	if err != nil {
		return nil, err
	}

	entry := snapshot.GroupsOf(volumes, req.GroupName, structs.NewID())
	entry.Group.Parameters = req.Parameters
	if len(req.Secrets) > 0 {
		first := entry.Members[0]
		first.SecretsFrom = ""
		first.SealedSecrets, err = sealSecrets(p.Server, storage.KindGroup, first, req.Secrets)
	}
	return entry, err
}

// checkGroupCreate checks a request. No parameter and no secret appears in the error.
func checkGroupCreate(req *storage.SnapshotGroupCreateRequest) error {
	f := field.New("group snapshot %q", structs.Cut(req.GroupName, structs.MaxQuoted))
	f.CheckName("GroupName", req.GroupName)
	f.CheckCSIMap("Parameters", req.Parameters)
	checkSnapshotSecrets(f, req.Secrets)

	n := len(req.VolumeIDs)
	f.Require(n > 0 && n <= storage.MaxGroupMembers,
		"%d volumes are given; expected 1 to %d", n, storage.MaxGroupMembers)
	seen := map[string]bool{}
	for _, id := range field.FirstOf(f, "VolumeIDs", req.VolumeIDs, storage.MaxGroupMembers) {
		f.CheckName("VolumeIDs", id)
		f.Require(!seen[id], "volume %q is given twice", structs.Cut(id, structs.MaxQuoted))
		seen[id] = true
		name := (&storage.GroupSnapshot{Name: req.GroupName}).Member(id)
		f.Require(len(name) <= structs.MaxCSIString, "the name of its snapshot of volume %q has %d bytes, "+
			"at most %d are allowed; give the group a shorter name",
			structs.Cut(id, structs.MaxQuoted), len(name), structs.MaxCSIString)
	}
	return f.Err()
}

// groupVolumes returns the volumes of a request, which have to be of one plugin.
func groupVolumes(
	tx *state.ReadTx, req *storage.SnapshotGroupCreateRequest,
) (volumes []*structs.CSIVolume, err error) {
	ns := req.RequestNamespace()
	for _, id := range req.VolumeIDs {
		v := csi.Volume(tx, ns, id)
		switch {
		case v == nil:
			return nil, structs.NotFoundf("no volume %q in namespace %q", id, ns)
		case v.State != structs.VolumeReady:
			return nil, structs.Preconditionf("volume %q is %s; only a ready one can have a snapshot taken",
				v.ID, v.State)
		case len(volumes) > 0 && v.PluginID != volumes[0].PluginID:
			return nil, structs.Invalidf("volume %q is of plugin %q, and volume %q of plugin %q; "+
				"a group snapshot is of volumes of one plugin", volumes[0].ID, volumes[0].PluginID, v.ID, v.PluginID)
		}
		volumes = append(volumes, v)
	}
	return volumes, nil
}

// checkGroupPlaces rejects volumes that no one controller reaches: the call for a group goes to one.
func checkGroupPlaces(tx *state.ReadTx, volumes []*structs.CSIVolume) error {
	first := volumes[0]
	common := controllersOf(tx, first)
	for _, v := range volumes[1:] {
		reach := controllersOf(tx, v)
		if len(common) == 0 || len(reach) == 0 {
			return nil // they may come back
		}
		common = slices.DeleteFunc(common, func(node string) bool { return !slices.Contains(reach, node) })
		if len(common) == 0 {
			return structs.Preconditionf("volumes %q and %q: no controller of plugin %q reaches both; "+
				"a group snapshot is of volumes that one controller reaches", first.ID, v.ID, v.PluginID)
		}
	}
	return nil
}

func controllersOf(tx *state.ReadTx, v *structs.CSIVolume) []string {
	reach := &structs.CSITopologyRequest{Required: v.Topologies}
	return nodeconn.Controllers(tx, v.PluginID, reach, v.Namespace+"/"+v.ID)
}

// groupRemedy tells what to do after the error of a plugin to a creation (CSI spec, CreateVolumeGroupSnapshot
// errors), "" for others.
func groupRemedy(e *structs.OperationError) string {
	if e == nil {
		return ""
	}
	switch e.Code {
	case "AlreadyExists":
		return "; take the group under another name"
	case "FailedPrecondition":
		return "; the plugin cannot cut these volumes together: change their configuration, or leave some out"
	case structs.CSICodeExhausted:
		return "; free space at the storage, and repeat the command"
	}
	return ""
}

// object returns a group by its name.
func (p SnapshotGroups) object(ns, name string) object[*storage.GroupSnapshot] {
	return object[*storage.GroupSnapshot]{p.Server, storage.KindGroup, name,
		func(tx *state.ReadTx) *storage.GroupSnapshot { return snapshot.Group(tx, ns, name) }}
}

// Delete deletes a group with its members at the plugin, and then the rows.
func (p SnapshotGroups) Delete(
	ctx context.Context, req *storage.SnapshotGroupDeleteRequest, _ *structs.Empty,
) (uint64, error) {
	ns := req.RequestNamespace()
	row := snapshot.Group(p.Store.Read(), ns, req.GroupName)
	if row == nil {
		return 0, snapshot.GroupNotFound(ns, req.GroupName)
	}
	entry := &storage.SnapshotDeleteEntry{
		Name:         row.Name,
		RowIndex:     row.CreateIndex,
		Force:        req.Force,
		WriteOptions: req.WriteOptions,
	}
	return p.object(ns, row.Name).remove(ctx, fsm.SnapshotGroupDelete, entry)
}
