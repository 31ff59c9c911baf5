package endpoints

import (
	"context"
	"iter"
	"strings"

	"berth/state"
	"berth/structs"
)

// volumes serve those methods of CSIVolume that show volumes.
type volumes struct{ *Endpoints }

func noVolume(ns, id string) error {
	return structs.Errorf(structs.KindNotFound, "there is no volume %q in namespace %q", id, ns)
}

func (v volumes) get(tx *state.Read, req *structs.CSIVolumeGetRequest, resp *structs.CSIVolumeGetResponse) error {
	row := state.Volume(tx, req.RequestNamespace(), req.ID)
	if row == nil {
		return noVolume(req.RequestNamespace(), req.ID)
	}
	resp.Volume = publicDetail(state.VolumeDetail(tx, row))
	return nil
}

// fewClaims is how many claims of a volume are put together in passing.
const fewClaims = 64

// isSmall reports whether a volume is put together in no time: the answer has all of its claims.
func (v volumes) isSmall(req *structs.CSIVolumeGetRequest) bool {
	return state.ClaimCount(v.store.Read(), req.RequestNamespace(), req.ID) <= fewClaims
}

func (v volumes) list(tx *state.Read, req *structs.CSIVolumeListRequest, resp *structs.CSIVolumeListResponse) (err error) {
	l := listing[structs.CSIVolume, structs.CSIVolumeListStub]{
		Key:     volumeKey,
		Stub:    state.Stubs(tx),
		Passing: state.PassingStubs(tx),
		Keep: func(row *structs.CSIVolume) bool {
			return inNamespace(row.Namespace, &req.QueryOptions) && (req.PluginID == "" || row.PluginID == req.PluginID)
		},
	}
	rows := state.VolumesFrom(tx, req.RequestNamespace(), req.Prefix, begins(&req.QueryOptions))
	if req.NodeID != "" {
		rows = usedOn(tx, req)
	}
	resp.Volumes, err = l.page(rows, &req.QueryOptions, &resp.QueryMeta)
	return err
}

// usedOn yields each volume with a claim on the node, once.
func usedOn(tx *state.Read, req *structs.CSIVolumeListRequest) iter.Seq[*structs.CSIVolume] {
	return func(yield func(*structs.CSIVolume) bool) {
		var last *structs.CSIVolume
		for c := range sorted(state.ClaimsByNode(tx, req.NodeID), lineKey, &req.QueryOptions) {
			row := state.Volume(tx, c.Namespace, c.VolumeID)
			if row == nil || row == last || !strings.HasPrefix(row.ID, req.Prefix) {
				continue
			}
			if last = row; !yield(row) {
				return
			}
		}
	}
}

// external shows one page of what the plugin itself lists. The first healthy controller is asked.
func (v volumes) external(ctx context.Context, req *structs.CSIVolumeExternalRequest) (*structs.CSIVolumeExternalResponse, error) {
	tx := v.store.Read()
	plugin := state.Plugin(tx, req.PluginID)
	if plugin == nil {
		return nil, noPlugin(req.PluginID)
	}
	if info := controllerInfo(tx, plugin.ID); info != nil && !info.SupportsListVolumes {
		return nil, structs.Errorf(structs.KindPrecondition, "CSI plugin %q cannot list its volumes", plugin.ID)
	}
	page, err := CallController(ctx, v.Nodes, v.config.CallTimeout, Controllers(tx, plugin.ID, nil, ""),
		structs.ClientCSIControllerList, &structs.ClientCSIListRequest{
			PluginID: plugin.ID, MaxEntries: max(0, req.PerPage), StartingToken: req.NextToken,
		})
	if err != nil {
		return nil, structs.Errorf(structs.KindOf(err), "listing the volumes of plugin %q: %w", plugin.ID, err)
	}
	resp := &structs.CSIVolumeExternalResponse{Volumes: page.Volumes, NextToken: page.NextToken}
	resp.QueryMeta.NextToken = page.NextToken
	return resp, nil
}

// controllerInfo is what a healthy controller of the plugin says it can do, nil while there is none.
func controllerInfo(tx *state.Read, pluginID string) *structs.CSIControllerInfo {
	for i := range state.InstancesByPluginKind(tx, pluginID, structs.CSIKindController) {
		if i.Healthy && i.ControllerInfo != nil {
			return i.ControllerInfo
		}
	}
	return nil
}
