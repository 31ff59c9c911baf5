package snapshots

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/endpoints/query"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/snapshot"
	"berth/structs/validate/report"
)

// callTime bounds one call of a plugin: a user waits for the answer.
const callTime = 30 * time.Second

// deleteTime bounds the deletion of a snapshot without a row.
const deleteTime = 2 * time.Minute

// place is the controllers of one topology, which have the same storage. Drivers of node-local storage run a
// controller on each node that knows only its own snapshots.
type place struct {
	key   string // "" without a topology
	nodes []string
}

// placesOf returns the places of the reachable controllers of a plugin, in the order of their keys.
func placesOf(tx *state.ReadTx, plugin string) (all []*place) {
	healthy, _ := nodeconn.AllControllers(tx, plugin)
	for _, c := range healthy {
		key := topologyKey(c.Topology)
		i := slices.IndexFunc(all, func(p *place) bool { return p.key == key })
		if i < 0 {
			i = len(all)
			all = append(all, &place{key: key})
		}
		all[i].nodes = append(all[i].nodes, c.NodeID)
	}
	slices.SortFunc(all, func(a, b *place) int { return strings.Compare(a.key, b.key) })
	return all
}

// topologyKey returns a topology as a text, "" for none. Keys of segments compare without regard to case.
func topologyKey(t *structs.CSITopology) string {
	if t == nil {
		return ""
	}
	var parts []string
	for k, v := range t.Segments {
		parts = append(parts, strings.ToLower(k)+"="+v)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// External returns one page of the snapshots that the plugin itself lists, in all parts of its storage. An
// unreachable part is a warning, unless no part answers. For a plugin that does not list its snapshots, the
// page has the rows.
func (p Procedures) External(
	ctx context.Context, req *snapshot.SnapshotExternalRequest,
) (*snapshot.SnapshotExternalResponse, error) {
	tx := p.Store.Read()
	plugin := csi.Plugin(tx, req.PluginID)
	if plugin == nil {
		return nil, structs.NotFoundf("there is no CSI plugin %q", structs.Cut(req.PluginID, structs.MaxQuoted))
	}
	if !lists(tx, plugin.ID) {
		return ofRows(tx, req), nil
	}

	places := placesOf(tx, plugin.ID)
	if len(places) == 0 {
		return nil, nodeconn.ErrNoController
	}
	l := &listing{
		Procedures: p,
		req:        req,
		plugin:     plugin,
		seen:       map[string]bool{},
		resp:       &snapshot.SnapshotExternalResponse{Snapshots: []*snapshot.CSISnapshot{}},
	}
	err := l.fill(ctx, places)
	if err != nil {
		return nil, fmt.Errorf("listing the snapshots of plugin %q: %w", plugin.ID, err)
	}
	addRows(tx, req, l.resp.Snapshots)
	return l.resp, nil
}

// lists reports whether the plugin may list its snapshots. Without a healthy controller the call tells.
func lists(tx *state.ReadTx, plugin string) bool {
	for i := range csi.InstancesByPluginKind(tx, plugin, structs.CSIKindController) {
		if i.Healthy && i.ControllerInfo != nil && !i.ControllerInfo.SupportsListSnapshots {
			return false
		}
	}
	return true
}

// ofRows returns the cut snapshots of a plugin that have rows, those of all namespaces as those of a plugin.
func ofRows(tx *state.ReadTx, req *snapshot.SnapshotExternalRequest) *snapshot.SnapshotExternalResponse {
	resp := &snapshot.SnapshotExternalResponse{Snapshots: []*snapshot.CSISnapshot{}}
	most := cmp.Or(int(req.PerPage), structs.MaxExternal)
	for s := range csi.SnapshotsOfPlugin(tx, req.PluginID) {
		if s.ExternalID == "" || s.ExternalID < req.NextToken {
			continue
		}
		if len(resp.Snapshots) >= most {
			resp.NextToken = s.ExternalID
			break
		}
		resp.Snapshots = append(resp.Snapshots, &snapshot.CSISnapshot{
			ID:                     s.ExternalID,
			ExternalSourceVolumeID: s.SourceExternalID,
			SizeBytes:              s.SizeBytes,
			CreateTime:             s.CutTime / int64(time.Second),
			IsReady:                s.State == snapshot.Ready,
		})
	}
	addRows(tx, req, resp.Snapshots)
	return resp
}

// addRows adds the plugin to listed snapshots, and what their rows in the namespace of the request have: the
// name and the volume. The rights of the caller are about that namespace alone.
func addRows(tx *state.ReadTx, req *snapshot.SnapshotExternalRequest, all []*snapshot.CSISnapshot) {
	for _, s := range all {
		s.PluginID = req.PluginID
		row := csi.SnapshotByExternal(tx, req.PluginID, s.ID)
		if row != nil && row.Namespace == req.RequestNamespace() {
			s.Name = row.Name
			s.SourceVolumeID = row.VolumeID
		}
	}
}

// listing is a page in the making.
type listing struct {
	Procedures
	req    *snapshot.SnapshotExternalRequest
	plugin *structs.CSIPluginRow
	calls  int
	seen   map[string]bool // IDs: two controllers of one storage list the same snapshots
	resp   *snapshot.SnapshotExternalResponse
}

// fill calls place after place until the page is full. A token has the key of a place, and the plugin's own
// token there.
func (l *listing) fill(ctx context.Context, places []*place) error {
	token := ""
	if l.req.NextToken != "" {
		parts, err := query.ParseToken(l.req.NextToken)
		if err != nil {
			return err
		}
		// The token of a plugin may have any bytes, also the separator.
		token = strings.Join(parts[1:], "\x00")
		i := slices.IndexFunc(places, func(p *place) bool { return p.key >= parts[0] })
		if i < 0 {
			return nil
		}
		if places[i].key != parts[0] {
			token = ""
		}
		places = places[i:]
	}

	var failed error
	for _, at := range places {
		next, err := l.addPlace(ctx, at, token)
		token = ""
		if err != nil {
			failed = err
			l.resp.Warnings = append(l.resp.Warnings, fmt.Sprintf("the snapshots %s(controller on node %s) are not "+
				"listed: %v", in(at.key), structs.ShortID(at.nodes[0]), err))
		}
		if next != nil {
			l.resp.NextToken = query.Token(at.key, *next)
			l.resp.QueryMeta.NextToken = l.resp.NextToken
			return nil
		}
	}
	if len(l.resp.Warnings) == len(places) {
		return failed
	}
	return nil
}

func in(key string) string {
	if key == "" {
		return ""
	}
	return "in " + strconv.Quote(key) + " "
}

// addPlace adds the pages of a place. It returns the token to continue with if the page is full before the
// place ends.
func (l *listing) addPlace(ctx context.Context, at *place, token string) (next *string, err error) {
	for {
		if l.full() {
			return &token, nil
		}

		l.calls++
		page, err := l.call(ctx, at, token)
		if err != nil {
			return nil, err
		}
		for _, s := range page.Snapshots {
			if !l.seen[s.ID] {
				l.seen[s.ID] = true
				l.resp.Snapshots = append(l.resp.Snapshots, s)
			}
		}
		token = page.NextToken
		if token == "" {
			return nil, nil
		}
	}
}

// full reports whether the page takes no more: of memory, or of calls of plugins.
func (l *listing) full() bool {
	return len(l.resp.Snapshots) >= cmp.Or(int(l.req.PerPage), structs.MaxExternal) ||
		l.calls >= structs.MaxExternalAsk
}

// call calls a place for its next page. Its nodes know the same snapshots, so any of them may answer.
func (l *listing) call(
	ctx context.Context, at *place, token string,
) (*nodecalls.ClientCSISnapshotListResponse, error) {
	most := 0
	if l.req.PerPage > 0 {
		most = int(l.req.PerPage) - len(l.resp.Snapshots)
	}
	to := nodeconn.Target{Nodes: l.Nodes, IDs: at.nodes, Limit: callTime}
	page, err := nodeconn.Call(ctx, to, nodecalls.ClientCSISnapshotList, &nodecalls.ClientCSISnapshotListRequest{
		PluginID:      l.plugin.ID,
		Provider:      l.plugin.Provider,
		MaxEntries:    int32(most),
		StartingToken: token,
		Secrets:       l.req.Secrets,
	})
	if err == nil {
		// The answer is of a plugin, so its sizes are checked before they count.
		err = report.Snapshots(page)
	}
	return page, err
}

// deleteExternal deletes a snapshot without a row, in each part of the storage: a plugin that does not know a
// snapshot answers that it is deleted.
func (p Procedures) deleteExternal(ctx context.Context, req *snapshot.SnapshotDeleteRequest) error {
	tx := p.Store.Read()
	if csi.Plugin(tx, req.PluginID) == nil {
		return structs.NotFoundf("there is no CSI plugin %q", structs.Cut(req.PluginID, structs.MaxQuoted))
	}
	places := placesOf(tx, req.PluginID)
	if len(places) == 0 {
		return nodeconn.ErrNoController
	}

	for _, at := range places {
		for i, node := range at.nodes {
			call := &nodecalls.ClientCSISnapshotDeleteRequest{
				PluginID:   req.PluginID,
				ExternalID: req.SnapshotID,
				Secrets:    req.Secrets,
			}
			nodeconn.Address(tx, call)
			nodeconn.StampEpoch(tx, node, call)
			to := nodeconn.Target{Nodes: p.Nodes, IDs: []string{node}, Limit: deleteTime}
			_, err := nodeconn.Call(ctx, to, nodecalls.ClientCSISnapshotDelete, call)
			if nodeconn.TryNext(err) && i < len(at.nodes)-1 {
				continue
			}
			if err != nil && !structs.IsKind(err, structs.KindNotFound) {
				return err
			}
			break
		}
	}
	return nil
}
