package csi

import (
	"context"
	"fmt"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// Snapshots are the calls of a client about snapshots of volumes.
type Snapshots struct{ *Client }

// Create takes the snapshot named req.Name of a volume, or finds it again. A snapshot that is not
// ready yet is cut: the same call, later, tells whether it is.
func (c Snapshots) Create(
	ctx context.Context, req *nodecalls.ClientCSISnapshotRequest,
) (*storage.CSISnapshot, error) {
	const rpc = "CreateSnapshot"
	has, err := c.controllerHas(ctx)
	if err != nil {
		return nil, err
	}

	err = c.checkRequest(rpc,
		requirement{"name", volumeNameFault(req.Name)},
		notEmpty("source_volume_id", req.SourceExternalID),
		requirement{"capability", faultIf(!has.SupportsCreateDeleteSnapshot, "the plugin has no volume snapshots")},
		smallMap("parameters", req.Parameters))
	if err != nil {
		return nil, err
	}

	resp, err := c.controller.CreateSnapshot(ctx, &spec.CreateSnapshotRequest{
		SourceVolumeId: req.SourceExternalID,
		Name:           req.Name,
		Secrets:        req.Secrets,
		Parameters:     req.Parameters,
	})
	if err != nil {
		return nil, err
	}

	s := resp.GetSnapshot()
	other := s.GetSourceVolumeId() != req.SourceExternalID
	err = c.checkResponse(rpc,
		requirement{"snapshot", faultIf(s == nil, "is missing")},
		requirement{"snapshot.source_volume_id", faultIf(other, "is not that of the request")})
	if err != nil {
		return nil, err
	}
	return c.read(rpc, "snapshot.", s)
}

// read checks and reads a snapshot of an answer. at is its place there.
func (c Snapshots) read(rpc, at string, s *spec.Snapshot) (*storage.CSISnapshot, error) {
	// Members of a group may be deleted with it alone (CSI spec, Snapshot.group_snapshot_id).
	grouped := rpc == "CreateSnapshot" && s.GetGroupSnapshotId() != ""
	large := s.GetSizeBytes() > structs.MaxVolumeBytes
	err := c.checkResponse(rpc,
		requirement{at + "snapshot_id", idFault(s.GetSnapshotId(), structs.MaxCSIID)},
		requirement{at + "source_volume_id", sizeFault(s.GetSourceVolumeId(), structs.MaxCSIID)},
		requirement{at + "group_snapshot_id", faultIf(grouped, "names a group, and none was requested")},
		notNegative(at+"size_bytes", s.GetSizeBytes()),
		requirement{at + "size_bytes", faultIf(large, "is above that of any volume")},
		requirement{at + "creation_time", timeFault(s.GetCreationTime())},
		requirement{at + "accessible_topology", topologiesFault(s.GetAccessibleTopology())})
	if err != nil {
		return nil, err
	}

	return &storage.CSISnapshot{
		ID:                     s.GetSnapshotId(),
		ExternalSourceVolumeID: s.GetSourceVolumeId(),
		SizeBytes:              s.GetSizeBytes(),
		CreateTime:             s.GetCreationTime().GetSeconds(),
		IsReady:                s.GetReadyToUse(),
		AccessibleTopologies:   fromTopologies(s.GetAccessibleTopology()),
	}, nil
}

// timeFault describes the fault of the time of a cut, "" for none. Some plugins leave it out.
func timeFault(at *timestamppb.Timestamp) string {
	if at == nil || at.IsValid() && at.GetSeconds() >= 0 {
		return ""
	}
	return "is no time since 1970"
}

// Delete deletes a snapshot. A snapshot that does not exist is no error.
func (c Snapshots) Delete(ctx context.Context, req *nodecalls.ClientCSISnapshotDeleteRequest) error {
	err := c.checkRequest("DeleteSnapshot", notEmpty("snapshot_id", req.ExternalID))
	if err != nil {
		return err
	}
	_, err = c.controller.DeleteSnapshot(ctx, &spec.DeleteSnapshotRequest{
		SnapshotId: req.ExternalID,
		Secrets:    req.Secrets,
	})
	return err
}

// List returns one page. Pages are not a consistent view: a snapshot may be missing from one pass or
// come twice.
func (c Snapshots) List(
	ctx context.Context, req *nodecalls.ClientCSISnapshotListRequest,
) (*nodecalls.ClientCSISnapshotListResponse, error) {
	const rpc = "ListSnapshots"
	err := c.checkRequest(rpc, notNegative("max_entries", int64(req.MaxEntries)))
	if err != nil {
		return nil, err
	}

	msg := &spec.ListSnapshotsRequest{
		MaxEntries:    req.MaxEntries,
		StartingToken: req.StartingToken,
		Secrets:       req.Secrets,
	}
	// A plugin may ignore max_entries and send its whole list, so this answer may be larger than others.
	resp, err := c.controller.ListSnapshots(ctx, msg, grpc.MaxCallRecvMsgSize(structs.MaxCSIList))
	if err != nil {
		return nil, err
	}

	page := &nodecalls.ClientCSISnapshotListResponse{NextToken: resp.GetNextToken()}
	err = c.checkNextToken(rpc, req.StartingToken, page.NextToken)
	if err != nil {
		return nil, err
	}

	for i, e := range resp.GetEntries() {
		s, err := c.read(rpc, fmt.Sprintf("entries[%d].snapshot.", i), e.GetSnapshot())
		if err != nil {
			return nil, err
		}
		page.Snapshots = append(page.Snapshots, s)
	}
	return page, nil
}
