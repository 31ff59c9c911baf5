package csi

import (
	"iter"
	"strings"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/endpoints/release"
	"berth/scheduler/explain"
	"berth/state"
	"berth/state/csi"
	"berth/state/volumesecrets"
	"berth/structs"
)

// Volumes serve the methods of CSIVolume that show volumes.
type Volumes struct{ *core.Server }

// noVolume is shared with package release, so that both say the same.
func noVolume(ns, id string) error { return release.NoVolume(ns, id) }

// Get reads a volume without its secrets, with its claims and attachments. The error is not-found.
func (v Volumes) Get(
	tx *state.ReadTx,
	req *structs.CSIVolumeGetRequest,
	resp *structs.CSIVolumeGetResponse,
) error {
	row := csi.Volume(tx, req.RequestNamespace(), req.ID)
	if row == nil {
		return noVolume(req.RequestNamespace(), req.ID)
	}
	// The detail has no secrets, and its mount flags are redacted.
	resp.Volume = state.VolumeDetail(tx, row)
	resp.Volume.SecretsVariable = volumesecrets.Path(tx, row)
	// The missing variable is a warning and no error: the row has to be shown for an operator to see it.
	_, err := volumesecrets.Variable(tx, row)
	if err != nil {
		resp.Volume.Warnings = append(resp.Volume.Warnings, err.Error())
	}
	return nil
}

// fewClaims is how many claims of a volume a quick answer has at most. The rest of the cost of an answer
// comes from its claims, which each have rows to read.
const fewClaims = 64

// IsSmall reports whether the answer for a volume, which has all of its claims, takes no time.
func (v Volumes) IsSmall(req *structs.CSIVolumeGetRequest) bool {
	return csi.ClaimCount(v.Store.Read(), req.RequestNamespace(), req.ID) <= fewClaims
}

func volumeKey(v *structs.CSIVolume) []string {
	return []string{v.Namespace, v.ID}
}

// List lists the volumes of the namespaces of a request, as stubs. Dynamic host volumes have a list of their
// own.
func (v Volumes) List(
	tx *state.ReadTx,
	req *structs.CSIVolumeListRequest,
	resp *structs.CSIVolumeListResponse,
) (err error) {
	// Stubs count the claims by rows of their own.
	l := query.List[structs.CSIVolume, structs.CSIVolumeListStub]{
		Key:  volumeKey,
		Stub: csi.VolumeStubs(tx),
		Keep: func(row *structs.CSIVolume) bool {
			return row.Host == nil && inNamespace(row.Namespace, req) &&
				(req.PluginID == "" || row.PluginID == req.PluginID) &&
				(req.Class == "" || row.Class == req.Class)
		},
	}

	rows := csi.VolumesFrom(tx,
		req.RequestNamespace(),
		req.Prefix,
		query.Start(req))
	// The index by node knows claims, so it yields the volumes with one there.
	if req.NodeID != "" {
		rows = volumesUsedOn(tx, req)
	}

	resp.Volumes, err = l.Page(rows, req, resp)
	return err
}

// volumesUsedOn yields each volume with a claim on the node, once. The claims are sorted by volume, so the
// same volume comes in a row.
func volumesUsedOn(
	tx *state.ReadTx,
	req *structs.CSIVolumeListRequest,
) iter.Seq[*structs.CSIVolume] {
	claims := csi.ClaimsByNode(tx, req.NodeID)
	claims = query.Sorted(claims, compareClaims, req)
	return func(yield func(*structs.CSIVolume) bool) {
		var last *structs.CSIVolume
		for c := range claims {
			row := csi.Volume(tx, c.Namespace, c.VolumeID)
			if row == nil || row == last ||
				!strings.HasPrefix(row.ID, req.Prefix) {
				continue
			}

			last = row
			if !yield(row) {
				return
			}
		}
	}
}

// controllerInfo returns the capabilities that a healthy controller of the plugin reports, nil if there is
// none. Any healthy one will do: the controllers of a plugin run one driver.
func controllerInfo(tx *state.ReadTx, pluginID string) *structs.CSIControllerInfo {
	for i := range csi.InstancesByPluginKind(tx, pluginID, structs.CSIKindController) {
		if i.Healthy && i.ControllerInfo != nil {
			return i.ControllerInfo
		}
	}
	return nil
}

// Why tells why a volume, or a use of it, waits.
func (v Volumes) Why(tx *state.ReadTx, req *structs.CSIVolumeGetRequest, resp *structs.WhyResponse) error {
	row := csi.Volume(tx, req.RequestNamespace(), req.ID)
	if row == nil {
		return noVolume(req.RequestNamespace(), req.ID)
	}
	// Times in the text change without a change of the index, so clients ask again.
	now := v.Clock.Now()
	resp.Waits, resp.Reasons = explain.Volume(explain.View{Tx: tx, Now: now, Fences: v.Fences(tx)}, row)
	if changes := explain.ModificationReasons(row, now); len(changes) > 0 {
		if row.Modifies() && !resp.Waits { // the only reason says that nothing waits
			resp.Reasons = nil
		}
		resp.Reasons = append(changes, resp.Reasons...)
		resp.Waits = resp.Waits || row.Modifies()
	}
	resp.Text = structs.WhyText(resp.Reasons)
	return nil
}
