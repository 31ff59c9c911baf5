package csi

import (
	"cmp"
	"context"
	"errors"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/fsm"
	"berth/state"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/structs"
	"berth/structs/storage"
)

// Snapshots serves the methods of snapshots of volumes. A request is recorded as a row. The loop of the
// leader calls the plugin and records the outcome, for which the caller waits.
type Snapshots struct{ *core.Server }

// List lists the rows of a namespace.
func (Snapshots) List(
	tx *state.ReadTx, req *storage.SnapshotListRequest, resp *storage.SnapshotListResponse,
) (err error) {
	l := query.List[storage.VolumeSnapshot, storage.VolumeSnapshot]{
		Key:  func(s *storage.VolumeSnapshot) []string { return []string{s.Namespace, s.Name} },
		Stub: func(s, stub *storage.VolumeSnapshot) { *stub = *shownSnapshot(s) },
		Keep: func(s *storage.VolumeSnapshot) bool {
			return (req.VolumeID == "" || s.VolumeID == req.VolumeID) &&
				(req.PluginID == "" || s.PluginID == req.PluginID)
		},
	}
	rows := csi.SnapshotsFrom(tx, req.RequestNamespace(), req.Prefix, query.Start(req))
	resp.Snapshots, err = l.Page(rows, req, resp)
	return err
}

// shownSnapshot returns a row as answers have it.
func shownSnapshot(s *storage.VolumeSnapshot) *storage.VolumeSnapshot {
	c := s.Copy()
	c.SealedSecrets = nil
	return c
}

// Get reads a row. The error is not-found.
func (Snapshots) Get(
	tx *state.ReadTx, req *storage.SnapshotGetRequest, resp *storage.SnapshotGetResponse,
) error {
	s := csi.Snapshot(tx, req.RequestNamespace(), req.SnapshotName)
	if s == nil {
		return snapshot.NotFound(req.RequestNamespace(), req.SnapshotName)
	}
	resp.Snapshot = shownSnapshot(s)
	return nil
}

// Create takes snapshots, and waits until they can be restored. One that is cut is no failure when the time
// of the request ends: its plugin may need hours.
func (p Snapshots) Create(
	ctx context.Context, req *storage.SnapshotCreateRequest, resp *storage.SnapshotCreateResponse,
) (uint64, error) {
	n := len(req.Snapshots)
	if n == 0 || n > storage.MaxSnapshotAsks {
		return 0, structs.Invalidf("Snapshots: %d are given; expected 1 to %d", n, storage.MaxSnapshotAsks)
	}

	entry := &storage.SnapshotPutEntry{WriteOptions: req.WriteOptions}
	tx := p.Store.Read()
	seen := map[string]bool{}
	for i, ask := range req.Snapshots {
		if ask == nil {
			return 0, structs.Invalidf("Snapshots[%d]: nothing is given; expected a snapshot", i)
		}
		row, err := p.rowOf(tx, req.RequestNamespace(), ask)
		if err != nil {
			return 0, err
		}
		if seen[row.Name] {
			return 0, structs.Invalidf("snapshot %q is given twice", row.Name)
		}
		seen[row.Name] = true
		entry.Snapshots = append(entry.Snapshots, row)
	}

	index, err := fsm.Propose(ctx, p.Raft, fsm.SnapshotPut, entry)
	if err != nil {
		return 0, err
	}

	var faults []error
	for _, wanted := range entry.Snapshots {
		row, err := p.object(wanted.Namespace, wanted.Name).awaitTaken(ctx)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		index = max(index, row.ModifyIndex)
		resp.Snapshots = append(resp.Snapshots, shownSnapshot(row))
	}
	return index, errors.Join(faults...)
}

// rowOf returns the row for a requested snapshot.
func (p Snapshots) rowOf(
	tx *state.ReadTx, ns string, ask *storage.CSISnapshot,
) (*storage.VolumeSnapshot, error) {
	err := checkSnapshot(ask)
	if err != nil {
		return nil, err
	}
	v := csi.Volume(tx, ns, ask.SourceVolumeID)
	if v == nil {
		return nil, structs.NotFoundf("no volume %q in namespace %q", ask.SourceVolumeID, ns)
	}
	if ask.PluginID != "" && ask.PluginID != v.PluginID {
		return nil, structs.Invalidf("volume %q has the plugin %q, not %q", v.ID, v.PluginID,
			structs.Cut(ask.PluginID, structs.MaxQuoted))
	}

	id := structs.NewID()
	s := snapshot.Of(v, cmp.Or(ask.Name, snapshotName(v.ID, id)), id)
	s.Parameters = ask.Parameters
	err = snapshot.CheckAble(tx, v)
	if err == nil && len(ask.Secrets) > 0 {
		s.SecretsFrom = ""
		s.SealedSecrets, err = sealSecrets(p.Server, storage.KindSnapshot, s, ask.Secrets)
	}
	return s, err
}

// snapshotName makes the name of a snapshot without one.
func snapshotName(volume, id string) string {
	return volume[:min(len(volume), 100)] + "-" + structs.ShortID(id)
}

// object returns a snapshot by its name.
func (p Snapshots) object(ns, name string) object[*storage.VolumeSnapshot] {
	return object[*storage.VolumeSnapshot]{p.Server, storage.KindSnapshot, name,
		func(tx *state.ReadTx) *storage.VolumeSnapshot { return csi.Snapshot(tx, ns, name) }}
}

// Delete deletes a snapshot at its plugin, and then its row. A snapshot without a row is deleted by its
// plugin alone.
func (p Snapshots) Delete(
	ctx context.Context, req *storage.SnapshotDeleteRequest, _ *structs.Empty,
) (uint64, error) {
	err := checkSnapshotDelete(req)
	if err != nil {
		return 0, err
	}

	row := namedSnapshot(p.Store.Read(), req)
	switch {
	case row == nil && req.SnapshotName != "":
		return 0, snapshot.NotFound(req.RequestNamespace(), req.SnapshotName)
	case row == nil:
		return p.Store.Index(), p.deleteExternal(ctx, req)
	}

	entry := &storage.SnapshotDeleteEntry{
		Name:         row.Name,
		RowIndex:     row.CreateIndex,
		Force:        req.Force,
		WriteOptions: req.WriteOptions,
	}
	entry.Namespace = row.Namespace
	if len(req.Secrets) > 0 {
		entry.SealedSecrets, err = sealSecrets(p.Server, storage.KindSnapshot, row, req.Secrets)
	}
	if err != nil {
		return 0, err
	}
	return p.object(row.Namespace, row.Name).remove(ctx, fsm.SnapshotDelete, entry)
}

// namedSnapshot returns the row of a request to delete a snapshot, nil if there is none. By the ID at its
// plugin it may be in another namespace.
func namedSnapshot(tx state.Reader, req *storage.SnapshotDeleteRequest) *storage.VolumeSnapshot {
	if req.SnapshotName != "" {
		return csi.Snapshot(tx, req.RequestNamespace(), req.SnapshotName)
	}
	return csi.SnapshotByExternal(tx, req.PluginID, req.SnapshotID)
}
