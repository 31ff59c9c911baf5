package hostpath

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"berth/plugins/hostpath/disk"
)

// contentSource converts the source in a volume's record.
func contentSource(s string) *csi.VolumeContentSource {
	kind, id, _ := strings.Cut(s, ":")
	switch kind {
	case "volume":
		return &csi.VolumeContentSource{
			Type: &csi.VolumeContentSource_Volume{
				Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id}}}
	case "snapshot":
		return &csi.VolumeContentSource{
			Type: &csi.VolumeContentSource_Snapshot{
				Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id}}}
	}
	return nil
}

// pageOf returns a page of rows in the order of their ids. A token is the last id of the page before, so that
// it stays valid after changes of the rows.
func pageOf[R disk.Row](
	rows []R, token string, maxEntries int32,
) (page []R, next string, err error) {
	if maxEntries < 0 {
		return nil, "", disk.Invalidf("max_entries is negative")
	}
	if token != "" && !idPattern.MatchString(token) {
		return nil, "", disk.Faultf(codes.Aborted, "starting_token is not a token of this driver")
	}
	for _, r := range rows {
		if r.Header().ID <= token {
			continue
		}
		if maxEntries > 0 && len(page) == int(maxEntries) {
			return page, page[len(page)-1].Header().ID, nil
		}
		page = append(page, r)
	}
	return page, "", nil
}

// ListVolumes lists the volumes of this node.
func (d *controller) ListVolumes(
	_ context.Context, req *csi.ListVolumesRequest,
) (*csi.ListVolumesResponse, error) {
	page, next, err := pageOf(
		d.store.Volumes.ListReady(),
		req.GetStartingToken(),
		req.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	resp := &csi.ListVolumesResponse{NextToken: next}
	for _, v := range page {
		resp.Entries = append(resp.Entries,
			&csi.ListVolumesResponse_Entry{Volume: d.describeVolume(v)})
	}
	return resp, nil
}

// ListSnapshots lists the snapshots of this node, of one volume, or one.
func (d *controller) ListSnapshots(
	_ context.Context, req *csi.ListSnapshotsRequest,
) (*csi.ListSnapshotsResponse, error) {
	ready := d.store.Snapshots.ListReady()
	wanted := slices.DeleteFunc(ready, func(n *disk.Snapshot) bool {
		return n.ID != cmp.Or(req.GetSnapshotId(), n.ID) ||
			n.Source != cmp.Or(req.GetSourceVolumeId(), n.Source)
	})
	page, next, err := pageOf(
		wanted,
		req.GetStartingToken(),
		req.GetMaxEntries())
	if err != nil {
		return nil, err
	}

	resp := &csi.ListSnapshotsResponse{NextToken: next}
	for _, n := range page {
		resp.Entries = append(resp.Entries,
			&csi.ListSnapshotsResponse_Entry{Snapshot: d.describeSnapshot(n)})
	}

	return resp, nil
}
