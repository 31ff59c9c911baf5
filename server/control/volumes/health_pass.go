package volumes

import (
	"context"
	"slices"
	"time"

	"berth/internal/backoff"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/state/volumesecrets"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
	"berth/structs/validate/report"
)

// codeUnimplemented is the code of an answer that a plugin does not know a call.
const codeUnimplemented = "Unimplemented"

// healthPass is one round of a plugin. One goroutine owns it.
type healthPass struct {
	HealthLoop
	*healthMemory
	plugin string
	begin  *state.ReadTx // the rows before the calls
	// Of the controllers that are reachable: whether there is one, and what one announces.
	reachable, lists, gets bool

	ill    map[string]*storage.VolumeCondition // by the plugin's ID of the volume
	asked  int
	silent bool // a call for a volume has not ended in time: there is no further one in this round
	found  []*storage.VolumeHealth
	gone   []volumeKey
}

func newHealthPass(l HealthLoop, pluginID string, m *healthMemory) *healthPass {
	if m.clean == nil {
		m.clean = map[volumeKey]int{}
		m.delayed = map[volumeKey]*delayed{}
	}
	p := &healthPass{
		HealthLoop:   l,
		healthMemory: m,
		plugin:       pluginID,
		begin:        l.Store.Read(),
		ill:          map[string]*storage.VolumeCondition{},
	}
	for i := range csi.InstancesByPluginKind(p.begin, pluginID, structs.CSIKindController) {
		if i.Healthy && i.ControllerInfo != nil && nodeconn.Reachable(state.Node(p.begin, i.NodeID)) {
			p.reachable = true
			p.lists = p.lists || i.ControllerInfo.SupportsListHealth
			p.gets = p.gets || i.ControllerInfo.SupportsCondition
		}
	}
	return p
}

// list reads the ill volumes of all parts of the storage. The volumes of a part count although another part
// fails. The error says why the list is not complete.
func (p *healthPass) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Time)
	defer cancel()
	up, someDown := placesOf(p.begin, p.plugin)
	var err error
	for _, nodes := range up {
		err = listPages(ctx, nodes, p.page)
		if err != nil {
			break
		}
	}

	tx := p.Store.Read()
	for id, c := range p.ill {
		if v := csi.VolumeByExternal(tx, p.plugin, id); v != nil {
			p.note(tx, v, c)
		}
	}
	if err != nil {
		clear(p.clean) // a list that is not complete breaks the row
		return err
	}
	p.findRecovered(ctx, tx, someDown)
	return ctx.Err()
}

// page reads a page at the controller on a node.
func (p *healthPass) page(ctx context.Context, node, token string) (next string, err error) {
	req := &nodecalls.ClientCSIListHealthRequest{
		PluginID:      p.plugin,
		MaxEntries:    pageSize,
		StartingToken: token,
	}
	nodeconn.Address(p.begin, req)
	to := nodeconn.Target{Nodes: p.Nodes, IDs: []string{node}, Limit: healthCallTime}
	page, err := nodeconn.Call(ctx, to, nodecalls.ClientCSIListHealth, req)
	if err == nil {
		err = report.ListedHealth(page)
	}
	if err != nil {
		return "", err
	}
	for _, v := range page.Volumes {
		// A volume that is listed twice counts as ill if one entry says so.
		if v != nil && !v.Condition.IsEmpty() {
			v.Condition.Bound()
			p.ill[v.ExternalID] = v.Condition
		}
	}
	if len(p.ill) > maxIll {
		return "", structs.Internalf("the list has more than %d volumes that are ill", maxIll)
	}
	return page.NextToken, nil
}

// findRecovered looks at the volumes that have a row, and that a complete list has left out.
func (p *healthPass) findRecovered(ctx context.Context, tx *state.ReadTx, someDown bool) {
	for _, row := range rowsOf(tx, p.plugin) {
		k := row.Key()
		v := csi.Volume(tx, k.Namespace, k.VolumeID)
		if _, ill := p.ill[row.ExternalID]; ill {
			delete(p.clean, k)
			continue
		}
		if v == nil || !wasReached(p.begin, tx, v, someDown) {
			continue
		}

		p.clean[k]++
		answered, able := p.askFor(ctx, tx, v)
		switch {
		case answered:
			delete(p.clean, k)
		case able: // an error is no recovery
			p.clean[k] = 0
		case p.clean[k] >= 2:
			p.gone = append(p.gone, k)
			delete(p.clean, k)
		}
	}
}

// askFor asks the plugin for one volume, and notes the answer. able is false if the plugin cannot be asked,
// or not in this round.
func (p *healthPass) askFor(
	ctx context.Context, tx *state.ReadTx, v *structs.CSIVolume,
) (answered, able bool) {
	k := keyOf(v)
	wait := p.delayed[k]
	switch {
	case !p.gets || p.asked >= maxAsked:
		return false, false
	case p.silent, wait != nil && time.Now().Before(wait.until):
		return false, true
	}

	p.asked++
	c, err := p.get(ctx, tx, v)
	p.silent = structs.IsKind(err, structs.KindTimeout)
	switch {
	case structs.CodeOf(err) == codeNotFound:
		p.delay(k)
		return false, true
	case p.silent:
		p.delay(k) // the next round asks for the others
	default:
		delete(p.delayed, k)
	}
	if err != nil {
		p.Logger.Debug("plugin does not tell the health of a volume", "plugin_id", p.plugin, "volume_id", v.ID,
			"namespace", v.Namespace, "error", err)
		return false, structs.CodeOf(err) != codeUnimplemented
	}
	p.note(tx, v, c)
	return true, true
}

// delay delays the next call for a volume that the plugin does not know, or for which it does not answer. If
// its row is gone meanwhile, no call follows. The comparison with the list of the plugin shows a volume that
// the storage has lost.
func (p *healthPass) delay(k volumeKey) {
	wait := p.delayed[k]
	if wait == nil {
		wait = &delayed{pause: backoff.Backoff{Min: 2 * healthInterval, Max: maxDelay}}
		p.delayed[k] = wait
	}
	wait.until = time.Now().Add(wait.pause.Next())
}

// get calls ControllerGetVolumeHealth.
func (p *healthPass) get(
	ctx context.Context, tx *state.ReadTx, v *structs.CSIVolume,
) (*storage.VolumeCondition, error) {
	opened, err := volumesecrets.OpenForCall(tx, p.Keys, v)
	if err != nil {
		return nil, err
	}
	req := &nodecalls.ClientCSIGetHealthRequest{
		PluginID:   p.plugin,
		ExternalID: v.ExternalID,
		Secrets:    opened.Secrets,
	}
	nodeconn.Address(tx, req)
	to := nodeconn.Target{Nodes: p.Nodes, IDs: nodeconn.VolumeControllers(tx, v), Limit: healthCallTime}
	resp, err := nodeconn.Call(ctx, to, nodecalls.ClientCSIGetHealth, req)
	if err != nil {
		return nil, err
	}
	if resp.Condition == nil {
		return nil, structs.Internalf("the answer has no health")
	}
	resp.Condition.Bound()
	return resp.Condition, nil
}

// note notes what the plugin says of a volume, if the row says something else.
func (p *healthPass) note(tx *state.ReadTx, v *structs.CSIVolume, c *storage.VolumeCondition) {
	old := csi.HealthOf(tx, keyOf(v))
	row := rowOf(v, c)
	switch {
	case !c.IsEmpty() && !row.Says(old):
		p.found = append(p.found, row)
	case c.IsEmpty() && old != nil:
		p.gone = append(p.gone, old.Key())
	}
}

// askInTurn asks a plugin that does not list for its volumes, one after the other. A round has at most
// maxAsked of them, and the next one goes on. It ends when the plugin does not answer in time, or cannot be
// asked at all.
func (p *healthPass) askInTurn(ctx context.Context) error {
	var all []*structs.CSIVolume
	for v := range schema.VolumesByPlugin.Scan(p.begin, p.plugin) {
		if v.State == structs.VolumeReady && v.ExternalID != "" {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b *structs.CSIVolume) int {
		return storage.CompareUsageKeys(keyOf(a), keyOf(b))
	})
	at, _ := slices.BinarySearchFunc(all, p.after, func(v *structs.CSIVolume, k volumeKey) int {
		// The last one itself counts as before, so that the search finds its successor.
		if storage.CompareUsageKeys(keyOf(v), k) <= 0 {
			return -1
		}
		return 1
	})

	for _, v := range slices.Concat(all[at:], all[:at])[:min(len(all), maxAsked)] {
		p.after = keyOf(v)
		_, able := p.askFor(ctx, p.Store.Read(), v)
		if !able {
			return structs.Preconditionf("the plugin cannot be asked for volume %s", v.ID)
		}
		if p.silent {
			return structs.Timeoutf("the plugin does not answer in time for volume %s", v.ID)
		}
		if !backoff.Sleep(ctx, Pause) {
			return ctx.Err()
		}
	}
	return nil
}

// forget lets all rows of the plugin go.
func (p *healthPass) forget() {
	for _, row := range rowsOf(p.Store.Read(), p.plugin) {
		p.gone = append(p.gone, row.Key())
	}
}

// dropOld lets the rows go whose volume is gone, and forgets such volumes.
func (p *healthPass) dropOld() {
	tx := p.Store.Read()
	for _, row := range rowsOf(tx, p.plugin) {
		if csi.HealthOf(tx, row.Key()) == nil {
			p.gone = append(p.gone, row.Key())
		}
	}
	for k := range p.delayed {
		if csi.Volume(tx, k.Namespace, k.VolumeID) == nil {
			delete(p.delayed, k)
		}
	}
	for k := range p.clean {
		if csi.HealthOf(tx, k) == nil {
			delete(p.clean, k)
		}
	}
}
