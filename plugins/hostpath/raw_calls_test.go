package hostpath

import (
	"context"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"berth/csi"
	"berth/structs"
)

// The driver serves calls that berth's client does not make. Tests make them over a separate connection.

// rawCall makes one call. Its error has the kind that berth's client would give it.
func rawCall[T any](w *fixture, call func(context.Context, *grpc.ClientConn) (T, error)) (T, error) {
	w.t.Helper()
	conn, err := grpc.NewClient(w.cfg.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	w.must("dial", err)
	defer conn.Close()
	resp, err := call(w.t.Context(), conn)
	if err != nil {
		err = structs.Errorf(structs.KindFromGRPC(uint32(status.Code(err))), "%w", err)
	}
	return resp, err
}

// codeName names the gRPC code of a failed call, "" if the driver did not reject it.
func codeName(err error) string {
	if code := status.Code(err); code != codes.Unknown && code != codes.OK {
		return code.String()
	}
	return csi.Code(err)
}

// Snapshot makes a snapshot of a volume, or finds it again, and returns its ID.
func (w *fixture) snapshot(volumeID, name string) (string, error) {
	w.t.Helper()
	req := &spec.CreateSnapshotRequest{SourceVolumeId: volumeID, Name: name}
	resp, err := rawCall(w,
		func(ctx context.Context, conn *grpc.ClientConn) (*spec.CreateSnapshotResponse, error) {
			return spec.NewControllerClient(conn).CreateSnapshot(ctx, req)
		})
	return resp.GetSnapshot().GetSnapshotId(), err
}

func (w *fixture) deleteSnapshot(id string) error {
	w.t.Helper()
	_, err := rawCall(w, func(ctx context.Context, conn *grpc.ClientConn) (*spec.DeleteSnapshotResponse, error) {
		return spec.NewControllerClient(conn).DeleteSnapshot(ctx, &spec.DeleteSnapshotRequest{SnapshotId: id})
	})
	return err
}

// groupSnapshot makes a group snapshot of volumes, or finds it again.
func (w *fixture) groupSnapshot(name string, volumes ...string) (*spec.VolumeGroupSnapshot, error) {
	w.t.Helper()
	req := &spec.CreateVolumeGroupSnapshotRequest{SourceVolumeIds: volumes, Name: name}
	resp, err := rawCall(w,
		func(ctx context.Context, conn *grpc.ClientConn) (*spec.CreateVolumeGroupSnapshotResponse, error) {
			return spec.NewGroupControllerClient(conn).CreateVolumeGroupSnapshot(ctx, req)
		})
	return resp.GetGroupSnapshot(), err
}

// membersOf returns the IDs of the snapshots of a group.
func membersOf(g *spec.VolumeGroupSnapshot) (ids []string) {
	for _, s := range g.GetSnapshots() {
		ids = append(ids, s.GetSnapshotId())
	}
	return ids
}

// deleteGroup deletes a group with the list of its snapshots, or with another one.
func (w *fixture) deleteGroup(g *spec.VolumeGroupSnapshot, others ...string) error {
	w.t.Helper()
	req := &spec.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: g.GetGroupSnapshotId(), SnapshotIds: others}
	if others == nil {
		req.SnapshotIds = membersOf(g)
	}
	_, err := rawCall(w,
		func(ctx context.Context, conn *grpc.ClientConn) (*spec.DeleteVolumeGroupSnapshotResponse, error) {
			return spec.NewGroupControllerClient(conn).DeleteVolumeGroupSnapshot(ctx, req)
		})
	return err
}

// getGroup reads a group with a list of its snapshots.
func (w *fixture) getGroup(id string, members ...string) (*spec.VolumeGroupSnapshot, error) {
	w.t.Helper()
	req := &spec.GetVolumeGroupSnapshotRequest{GroupSnapshotId: id, SnapshotIds: members}
	resp, err := rawCall(w,
		func(ctx context.Context, conn *grpc.ClientConn) (*spec.GetVolumeGroupSnapshotResponse, error) {
			return spec.NewGroupControllerClient(conn).GetVolumeGroupSnapshot(ctx, req)
		})
	return resp.GetGroupSnapshot(), err
}

// capacity returns the free capacity for volumes in a place, nil for any.
func (w *fixture) capacity(segments map[string]string) (*spec.GetCapacityResponse, error) {
	w.t.Helper()
	req := &spec.GetCapacityRequest{}
	if segments != nil {
		req.AccessibleTopology = &spec.Topology{Segments: segments}
	}
	return rawCall(w, func(ctx context.Context, conn *grpc.ClientConn) (*spec.GetCapacityResponse, error) {
		return spec.NewControllerClient(conn).GetCapacity(ctx, req)
	})
}

// totalBytes returns the size of a volume by its statistics.
func (o *testVolume) totalBytes() (int64, error) {
	o.t.Helper()
	req := &spec.NodeGetVolumeStatsRequest{VolumeId: o.id, VolumePath: o.target}
	resp, err := rawCall(o.fixture,
		func(ctx context.Context, conn *grpc.ClientConn) (*spec.NodeGetVolumeStatsResponse, error) {
			return spec.NewNodeClient(conn).NodeGetVolumeStats(ctx, req)
		})
	for _, u := range resp.GetUsage() {
		if u.GetUnit() == spec.VolumeUsage_BYTES {
			return u.GetTotal(), err
		}
	}
	return 0, err
}
