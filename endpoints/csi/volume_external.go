package csi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/endpoints/query"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/validate/report"
)

const (
	// It bounds a call and not the request, which makes up to structs.MaxExternalAsk of them.
	externalTimeout = 30 * time.Second // of one call: a user waits for the answer
	// It bounds the calls, and the answers in memory, for one user.
	externalAtOnce = 8 // places that are called at the same time
)

// place is a part of the storage of a plugin: the volumes that the controllers of one topology know. Drivers
// of node-local storage run a controller on each node that knows only its own volumes. Shared storage has no
// topology, so all of its controllers are one place.
type place struct {
	key   string   // orders the places and names one in a page token
	nodes []string // whose controllers are reachable, any of them
	token string   // the plugin's token of the page to begin with
	down  []string // nodes whose controllers are not reachable

	// The last answer.
	page *nodecalls.ClientCSIListResponse
	err  error
}

// placesOf returns the parts of a plugin's storage in the order of their keys.
func placesOf(tx *state.ReadTx, pluginID string) []*place {
	// The key of a topology names the same place in each request, although the controllers change.
	byKey := map[string]*place{}
	placeOf := func(c nodeconn.Controller) *place {
		key := topologyKey(c.Topology)
		if byKey[key] == nil {
			byKey[key] = &place{key: key}
		}
		return byKey[key]
	}

	// A place all of whose controllers are down has no nodes. The call of it fails, and the answer has a
	// warning.
	healthy, others := nodeconn.AllControllers(tx, pluginID)
	for _, c := range healthy {
		p := placeOf(c)
		p.nodes = append(p.nodes, c.NodeID)
	}

	for _, c := range others {
		p := placeOf(c)
		p.down = append(p.down, c.NodeID)
	}

	// The order is the same for each page: a token names a place by its key.
	byName := func(a, b *place) int {
		return strings.Compare(a.key, b.key)
	}
	return slices.SortedFunc(maps.Values(byKey), byName)
}

// topologyKey returns a topology as a text, "" for none. Segment keys compare without regard to case. CSI
// wants keys of segments to be equal without regard to case (CSI spec, Topology).
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

// placesFrom returns the places from the one that a page token names. That place begins at the token of the
// plugin. A place that has gone since the last page is skipped: the list goes on with the next one.
func placesFrom(places []*place, token string) ([]*place, error) {
	key, err := query.ParseToken(token)
	if err != nil || len(key) == 0 {
		return places, err
	}
	compare := func(p *place, key string) int {
		return strings.Compare(p.key, key)
	}
	first, found := slices.BinarySearchFunc(places, key[0], compare)
	// The token of a plugin may have any bytes, also the separator. The rest of the parts is joined again.
	if found {
		places[first].token = strings.Join(key[1:], "\x00")
	}
	return places[first:], nil
}

// External returns one page of the volumes that the plugin itself lists, in all parts of its storage. An
// unreachable part is a warning, unless no other part answers.
func (v Volumes) External(
	ctx context.Context,
	req *structs.CSIVolumeExternalRequest,
) (*structs.CSIVolumeExternalResponse, error) {
	tx := v.Store.Read()
	plugin := csi.Plugin(tx, req.PluginID)
	if plugin == nil {
		return nil, noPlugin(req.PluginID)
	}

	// Without a healthy controller the capability is unknown. The call tells.
	info := controllerInfo(tx, plugin.ID)
	if info != nil && !info.SupportsListVolumes {
		return nil, structs.Preconditionf("CSI plugin %q cannot list its volumes", plugin.ID)
	}

	places := placesOf(tx, plugin.ID)

	places, err := placesFrom(places, req.NextToken)
	if err != nil {
		return nil, err
	}

	l := &externalList{
		Volumes: v,
		plugin:  plugin,
		places:  places,
		limit:   int(max(0, req.PerPage)),
		// Two controllers of one storage list the same volumes when their topologies differ.
		seen: map[string]bool{},
		resp: &structs.CSIVolumeExternalResponse{
			Volumes: []*structs.CSIVolumeExternalStub{},
		},
	}

	if err := l.fillPage(ctx); err != nil {
		return nil, fmt.Errorf("listing the volumes of plugin %q: %w",
			plugin.ID, err)
	}

	return l.resp, nil
}

// externalList is a page in the making. One goroutine owns it. Those of callPlaces change only the place that
// they call.
type externalList struct {
	Volumes
	plugin *structs.CSIPluginRow
	places []*place // still to be called
	// Without a limit the bounds in structs end the page.
	limit  int // 0: not given
	calls  int
	bytes  int             // of the volumes on the page
	seen   map[string]bool // external IDs: controllers of shared storage list the same volumes
	failed error           // the last
	resp   *structs.CSIVolumeExternalResponse
}

// fillPage calls place after place until the page is full.
func (l *externalList) fillPage(ctx context.Context) error {
	total := len(l.places)
	for len(l.places) > 0 && !l.full() {
		if ctx.Err() != nil {
			return structs.Timeoutf("%w", ctx.Err())
		}

		// Places are called in order, so what is left after a full page is again a suffix of them.
		n := min(len(l.places), l.maxConcurrent())
		called := l.places[:n]
		l.callPlaces(ctx, called)
		// A place that was called and is not added keeps its token, and its answer is thrown away. The next
		// page calls it again.
		for _, p := range called {
			if l.full() || !l.addPages(ctx, p) {
				break
			}

			l.places = l.places[1:]
		}
	}

	// The token has the place and the position in it.
	if len(l.places) > 0 {
		next := l.places[0]
		l.resp.NextToken = query.Token(next.key, next.token)
		l.resp.QueryMeta.NextToken = l.resp.NextToken
	}

	// Each place that failed has one warning, so their number tells whether any answered.
	failed := len(l.resp.Warnings)
	if l.failed != nil && failed == total {
		return l.failed
	}

	// No controller of the plugin is known.
	if total == 0 {
		return nodeconn.ErrNoController
	}

	return nil
}

// full reports whether the page takes no more. The three bounds protect the server: the memory for the
// answer, the calls of plugins, and their bytes.
func (l *externalList) full() bool {
	return len(l.resp.Volumes) >= cmp.Or(l.limit, structs.MaxExternal) ||
		l.calls >= structs.MaxExternalAsk ||
		l.bytes >= structs.MaxExternalSum
}

// callPlaces calls places for their next pages at the same time.
func (l *externalList) callPlaces(ctx context.Context, places []*place) {
	most := l.remaining()

	l.calls += len(places)
	var wg sync.WaitGroup
	for _, p := range places {
		wg.Go(func() {
			l.callPlace(ctx, p, most)
		})
	}

	wg.Wait()
}

// maxConcurrent returns how many places are called at the same time. On a page with a size, the limit of one
// place depends on the earlier answers.
func (l *externalList) maxConcurrent() int {
	if l.limit > 0 {
		return 1
	}
	return externalAtOnce
}

// remaining returns how many more volumes fit on the page, 0 for any number.
func (l *externalList) remaining() int {
	if l.limit == 0 {
		return 0
	}
	// At least 1, because 0 asks the plugin for any number (CSI spec, ListVolumesRequest.max_entries).
	return max(1, l.limit-len(l.resp.Volumes))
}

// callPlace calls a place for its next page with at most the given number of volumes.
func (l *externalList) callPlace(ctx context.Context, p *place, most int) {
	// The nodes of a place know the same volumes, so any of them may answer.
	to := nodeconn.Target{
		Nodes: l.Nodes,
		IDs:   p.nodes,
		Limit: externalTimeout,
	}
	req := &nodecalls.ClientCSIListRequest{
		PluginID:      l.plugin.ID,
		Provider:      l.plugin.Provider,
		MaxEntries:    int32(most),
		StartingToken: p.token,
	}
	p.page, p.err = nodeconn.Call(ctx, to, nodecalls.ClientCSIControllerList, req)
	if p.err == nil {
		// The answer is of a plugin, so its sizes are checked before they count.
		p.err = report.Listed(p.page)
	}
}

// addPages adds the answer of a place and its further pages. It reports false if the page is full before the
// place ends. The token of the place then names the page to continue with.
func (l *externalList) addPages(ctx context.Context, p *place) bool {
	for p.err == nil {
		for _, s := range p.page.Volumes {
			// A place may answer a volume twice over its pages when volumes come and go meanwhile (CSI spec,
			// ListVolumes).
			if s == nil || l.seen[s.ExternalID] {
				continue
			}

			l.seen[s.ExternalID] = true
			l.bytes += s.Bytes()
			l.resp.Volumes = append(l.resp.Volumes, s)
		}

		p.token = p.page.NextToken
		// No token is the end of the list.
		if p.token == "" {
			return true
		}

		if l.full() {
			return false
		}

		l.calls++
		l.callPlace(ctx, p, l.remaining())
	}

	// The volumes that the place has answered before stay on the page.
	l.addWarning(p)
	return true
}

// addWarning says which part of the list is missing, and where to look.
func (l *externalList) addWarning(p *place) {
	l.failed = p.err
	where := "the volumes"
	if p.key != "" {
		where = "the volumes in " + p.key
	}
	// The text is the same for each answer, so the nodes are sorted.
	nodes := slices.Concat(p.nodes, p.down)
	slices.Sort(nodes)
	warning := fmt.Sprintf("%s (controller on node %s) are not listed: %v",
		where, firstFew(nodes), p.err)
	l.resp.Warnings = append(l.resp.Warnings, warning)
}

// firstFew names the first of many nodes.
func firstFew(nodes []string) string {
	var short []string
	shown := min(3, len(nodes))
	for _, id := range nodes[:shown] {
		short = append(short, structs.ShortID(id))
	}
	text := strings.Join(short, ", ")
	if more := len(nodes) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
