package endpoints

import (
	"berth/state"
	"berth/structs"
)

// plugins serve CSIPlugin.
type plugins struct{ *Endpoints }

func noPlugin(id string) error {
	return structs.Errorf(structs.KindNotFound, "there is no CSI plugin %q", id)
}

func (p plugins) get(tx *state.Read, req *structs.CSIPluginGetRequest, resp *structs.CSIPluginGetResponse) error {
	if resp.Plugin = state.PluginDetail(tx, req.ID); resp.Plugin == nil {
		return noPlugin(req.ID)
	}
	return nil
}

func (p plugins) list(tx *state.Read, req *structs.QueryRequest, resp *structs.CSIPluginListResponse) (err error) {
	l := listing[structs.CSIPluginRow, structs.CSIPluginListStub]{Key: pluginKey, Stub: func(row *structs.CSIPluginRow) *structs.CSIPluginListStub {
		return state.PluginStub(tx, row)
	}}
	resp.Plugins, err = l.page(state.Plugins(tx, req.Prefix), &req.QueryOptions, &resp.QueryMeta)
	return err
}
