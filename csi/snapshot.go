package csi

import (
	"context"
	"fmt"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"berth/structs"
)

// SnapshotRequest is the request for a snapshot of a volume. The same Name is the same snapshot.
type SnapshotRequest struct {
	SourceID   string // the plugin's volume_id
	Name       string
	Parameters map[string]string
	Secrets    structs.Secrets
}

// Snapshot is a snapshot as the plugin knows it. One that is not Ready is cut but still being processed: a
// repeat of the CreateSnapshot call shows its progress.
type Snapshot struct {
	ID         string
	SourceID   string
	GroupID    string // not "": a member of a group, never to be deleted alone
	SizeBytes  int64  // the least size of a volume made from it; 0: not known
	CreateTime time.Time
	Ready      bool
	Topologies []*structs.CSITopology // where it can be restored; none: everywhere
}

// CreateSnapshot cuts a snapshot, or finds it again by its name.
func (c *Client) CreateSnapshot(ctx context.Context, req *SnapshotRequest) (*Snapshot, error) {
	const rpc = "CreateSnapshot"
	err := c.checkRequest(rpc,
		notEmpty("source_volume_id", req.SourceID), requirement{"name", objectNameFault(req.Name)},
		smallMap("parameters", req.Parameters))
	if err != nil {
		return nil, err
	}
	resp, err := call(ctx, c, rpc, c.controller.CreateSnapshot, &spec.CreateSnapshotRequest{
		SourceVolumeId: req.SourceID, Name: req.Name, Parameters: req.Parameters, Secrets: req.Secrets})
	if err != nil {
		return nil, err
	}
	return c.snapshot(rpc, "snapshot", resp.GetSnapshot())
}

// DeleteSnapshot deletes a snapshot; one that does not exist is deleted already.
func (c *Client) DeleteSnapshot(ctx context.Context, id string, secrets structs.Secrets) error {
	const rpc = "DeleteSnapshot"
	if err := c.checkRequest(rpc, notEmpty("snapshot_id", id)); err != nil {
		return err
	}
	req := &spec.DeleteSnapshotRequest{SnapshotId: id, Secrets: secrets}
	_, err := call(ctx, c, rpc, c.controller.DeleteSnapshot, req)
	return err
}

// SnapshotListRequest is the request for a page of snapshots: all, those of one volume, or one.
type SnapshotListRequest struct {
	SourceID      string
	SnapshotID    string
	MaxEntries    int32
	StartingToken string
	Secrets       structs.Secrets
}

// ListSnapshots returns one page; next is "" on the last.
func (c *Client) ListSnapshots(
	ctx context.Context, req *SnapshotListRequest,
) (list []*Snapshot, next string, err error) {
	const rpc = "ListSnapshots"
	if err := c.checkRequest(rpc, notNegative("max_entries", int64(req.MaxEntries))); err != nil {
		return nil, "", err
	}
	resp, err := call(ctx, c, rpc, c.controller.ListSnapshots, &spec.ListSnapshotsRequest{
		MaxEntries: req.MaxEntries, StartingToken: req.StartingToken, SourceVolumeId: req.SourceID,
		SnapshotId: req.SnapshotID, Secrets: req.Secrets}, grpc.MaxCallRecvMsgSize(maxList))
	if err != nil {
		return nil, "", err
	}
	if err := c.checkResponse(rpc, atMostBytes("next_token", resp.GetNextToken(), maxToken)); err != nil {
		return nil, "", err
	}
	if t := resp.GetNextToken(); t != "" && t == req.StartingToken {
		return nil, "", c.badResponse(rpc, "next_token", "is the starting token again")
	}
	for i, e := range resp.GetEntries() {
		s, err := c.snapshot(rpc, fmt.Sprintf("entries[%d].snapshot", i), e.GetSnapshot())
		if err != nil {
			return nil, "", err
		}
		list = append(list, s)
	}
	return list, resp.GetNextToken(), nil
}

// snapshot checks and reads a snapshot of an answer.
func (c *Client) snapshot(rpc, at string, s *spec.Snapshot) (*Snapshot, error) {
	err := c.checkResponse(rpc,
		requirement{at, missingFault(s == nil)},
		requirement{at + ".snapshot_id", idFault(s.GetSnapshotId(), maxID)},
		requirement{at + ".source_volume_id", idFault(s.GetSourceVolumeId(), maxID)},
		atMostBytes(at+".group_snapshot_id", s.GetGroupSnapshotId(), maxID),
		requirement{at + ".accessible_topology", topologiesFault(s.GetAccessibleTopology())},
		requirement{at + ".creation_time", missingFault(s.GetCreationTime() == nil)},
		notNegative(at+".size_bytes", s.GetSizeBytes()))
	if err != nil {
		return nil, err
	}
	return &Snapshot{
		ID: s.GetSnapshotId(), SourceID: s.GetSourceVolumeId(), GroupID: s.GetGroupSnapshotId(),
		SizeBytes: s.GetSizeBytes(), CreateTime: s.GetCreationTime().AsTime(), Ready: s.GetReadyToUse(),
		Topologies: fromTopologies(s.GetAccessibleTopology()),
	}, nil
}
