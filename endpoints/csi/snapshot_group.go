package csi

import (
	"context"
	"fmt"
	"slices"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/fsm"
	"berth/internal/keyring"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate"
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
		m = m.Copy()
		m.SealedSecrets = nil
		rows = append(rows, m)
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

	g, err := p.await(ctx, entry.Group, isGroupTaken)
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
		first.SealedSecrets, err = p.seal(first, req.Secrets)
	}
	return entry, err
}

// checkGroupCreate checks a request. No parameter and no secret appears in the error.
func checkGroupCreate(req *storage.SnapshotGroupCreateRequest) error {
	f := field.New("group snapshot %q", structs.Cut(req.GroupName, structs.MaxQuoted))
	f.CheckName("GroupName", req.GroupName)
	f.CheckCSIMap("Parameters", req.Parameters)
	if len(req.Secrets) > 0 {
		err := validate.VolumeSecrets(req.Secrets)
		f.Require(err == nil, "Secrets: %v", err)
	}

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
	var want *structs.CSITopologyRequest
	if len(v.Topologies) > 0 {
		want = &structs.CSITopologyRequest{Required: v.Topologies}
	}
	return nodeconn.Controllers(tx, v.PluginID, want, v.Namespace+"/"+v.ID)
}

// seal encrypts the secrets for the calls of a group, for the place of its first member.
func (p SnapshotGroups) seal(
	first *storage.VolumeSnapshot, secrets structs.Secrets,
) (*structs.Sealed, error) {
	if p.Keys.Active() == "" {
		return nil, structs.Preconditionf("the secrets of a group snapshot are stored encrypted, " +
			"and the cluster has no root key, or this server has not opened it: " +
			"berth operator root keyring list; or give the first volume a variable with them: secrets_from")
	}
	return keyring.SealSecrets(p.Keys, first.Namespace, first.VolumeID, secrets)
}

// isGroupTaken reports whether a requested group needs no more waiting. row is nil for one that was deleted.
func isGroupTaken(row *storage.GroupSnapshot, name string) (bool, error) {
	switch {
	case row == nil:
		return false, structs.Conflictf("group snapshot %q was deleted meanwhile", name)
	case row.State == storage.SnapshotDeleting:
		return false, structs.Preconditionf("group snapshot %q is being deleted", name)
	case row.State == storage.SnapshotFailed:
		kind := structs.KindPrecondition
		if row.LastError != nil {
			kind = row.LastError.Kind
		}
		help := groupRemedy(row.LastError)
		return false, structs.Errorf(kind, "taking group snapshot %q: %s%s", name, row.Reason, help)
	}
	return row.State == storage.SnapshotReady, nil
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

// await waits until the row of a group satisfies done: see awaitProgress.
func (p SnapshotGroups) await(
	ctx context.Context,
	g *storage.GroupSnapshot,
	done func(row *storage.GroupSnapshot, name string) (bool, error),
) (row *storage.GroupSnapshot, err error) {
	err = awaitProgress(ctx, p.Server, groupTitle(g.Name),
		func(tx *state.ReadTx) (*storage.Progress, bool, error) {
			row = snapshot.Group(tx, g.Namespace, g.Name)
			ok, err := done(row, g.Name)
			if ok || err != nil {
				return nil, ok, err
			}
			return &row.Progress, false, nil
		})
	return row, err
}

// groupTitle names a group in an error.
func groupTitle(name string) string { return fmt.Sprintf("group snapshot %q", name) }

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
	index, err := fsm.Propose(ctx, p.Raft, fsm.SnapshotGroupDelete, entry)
	if err != nil {
		return 0, err
	}

	_, err = p.await(ctx, row, func(now *storage.GroupSnapshot, name string) (bool, error) {
		if now == nil || now.CreateIndex != row.CreateIndex {
			return true, nil // the plugin has deleted it
		}
		return false, undeleted(&now.Progress, groupTitle(name))
	})
	return max(index, p.Store.Index()), err
}
