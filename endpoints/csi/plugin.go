package csi

import (
	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// Plugins serve CSIPlugin.
type Plugins struct{ *core.Server }

// noPlugin is also the error for a plugin that has lost its last instance and volume: its row goes with them.
func noPlugin(id string) error {
	return structs.NotFoundf("there is no CSI plugin %q", id)
}

// Get reads a plugin with its instances. The error is not-found.
func (p Plugins) Get(
	tx *state.ReadTx,
	req *structs.CSIPluginGetRequest,
	resp *structs.CSIPluginGetResponse,
) error {
	// Clients of the dialect ask for no page, and get all instances.
	if req.PerPage > 0 {
		return p.getPage(tx, req, resp)
	}
	resp.Plugin = state.PluginDetail(tx, req.ID)
	if resp.Plugin == nil {
		return noPlugin(req.ID)
	}
	resp.Plugin.Allocations = query.SeenStubs(&req.QueryOptions, resp.Plugin.Allocations)
	p.addCalls(resp.Plugin)
	return nil
}

// addCalls adds the calls of a plugin, which only the leader knows. They are no rows, so that a change of
// them ends no wait.
func (p Plugins) addCalls(plugin *structs.CSIPlugin) {
	if p.CallsOf == nil {
		return
	}

	inFlight, waiting, since := p.CallsOf(plugin.ID)
	plugin.CallsInFlight = inFlight
	plugin.CallsWaiting = waiting
	if waiting > 0 {
		plugin.CallsWaitSince = since.UnixNano()
	}
}

// getPage returns a plugin with one page of its instances, of which there may be as many as there are nodes.
func (p Plugins) getPage(
	tx *state.ReadTx,
	req *structs.CSIPluginGetRequest,
	resp *structs.CSIPluginGetResponse,
) error {
	begin, err := query.ParseToken(req.NextToken)
	if err != nil {
		return err
	}

	// The first page has no token. Another number of parts belongs to another list, and begins at the first
	// instance.
	var first *structs.CSIPluginInstance
	if len(begin) == 2 {
		first = &structs.CSIPluginInstance{
			Kind:   structs.CSIKind(begin[0]),
			NodeID: begin[1],
		}
	}

	plugin, next := state.PluginPage(tx, req.ID, first, int(req.PerPage))
	if plugin == nil {
		return noPlugin(req.ID)
	}

	resp.Plugin = plugin
	resp.Plugin.Allocations = query.SeenStubs(&req.QueryOptions, resp.Plugin.Allocations)
	p.addCalls(plugin)
	if next != nil {
		resp.NextToken = query.Token(string(next.Kind), next.NodeID)
	}

	return nil
}

// Plugins have no namespace, so the ID is the whole key.
func pluginKey(p *structs.CSIPluginRow) []string {
	return []string{p.ID}
}

// List lists the plugins by their IDs, as stubs.
func (p Plugins) List(
	tx *state.ReadTx,
	req *structs.QueryRequest,
	resp *structs.CSIPluginListResponse,
) (err error) {
	l := query.List[structs.CSIPluginRow, structs.CSIPluginListStub]{
		Key: pluginKey,
		// The counts of a stub are rows of their own, so a list reads no instances.
		Stub: func(row *structs.CSIPluginRow, s *structs.CSIPluginListStub) {
			*s = *csi.PluginStub(tx, row)
		},
	}
	rows := csi.PluginsFrom(tx, req.Prefix, query.Start(req))
	resp.Plugins, err = l.Page(rows, req, resp)
	return err
}

// Config reads the settings for the volumes of a plugin, which need not exist. An operator may set them
// before the first instance reports.
func (Plugins) Config(
	tx *state.ReadTx,
	req *structs.CSIPluginGetRequest,
	resp *storage.PluginSettingsResponse,
) error {
	resp.Config = csi.PluginConfig(tx, req.ID)
	return nil
}
