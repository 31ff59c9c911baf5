package volumes

import (
	"context"
	"hash/maphash"
	"slices"
	"time"

	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
	"berth/structs/validate/report"
)

// The budget of a list, beside its pages'.
const (
	// driftCallTime bounds a call, unless the settings of the plugin have a timeout.
	driftCallTime = 30 * time.Second
	maxBytes      = 256 << 20
	maxFound      = 100_000
)

// driftOutcome is what a complete list differs in.
type driftOutcome struct {
	found  map[storage.DriftKey]*storage.VolumeDrift
	strays map[uint64]struct{} // volumes without a row, by a hash of their ID
}

// driftPass compares the rows with one list of a plugin. One goroutine owns it.
type driftPass struct {
	DriftLoop
	plugin string
	begin  *state.ReadTx     // the rows before the list
	nodes  map[string]string // by the plugin's own ID

	seen    map[string]struct{} // the listed volumes with a row, by the plugin's ID
	strays  map[uint64]struct{}
	found   map[string][]*storage.VolumeDrift // by the plugin's ID of the volume
	numbers struct{ bytes, found int }
}

// hashes gives an ID the same hash in each list.
var hashes = maphash.MakeSeed()

func newDriftPass(l DriftLoop, pluginID string) *driftPass {
	p := &driftPass{
		DriftLoop: l,
		plugin:    pluginID,
		begin:     l.Store.Read(),
		nodes:     map[string]string{},
		seen:      map[string]struct{}{},
		strays:    map[uint64]struct{}{},
		found:     map[string][]*storage.VolumeDrift{},
	}
	for i := range csi.InstancesByPluginKind(p.begin, pluginID, structs.CSIKindNode) {
		id := i.NodeReport().ID
		if id != "" && !i.OtherDriver {
			p.nodes[id] = i.NodeID
		}
	}
	return p
}

// run lists all parts of the storage. The error says why the list is not complete.
func (p *driftPass) run(ctx context.Context) (*driftOutcome, error) {
	ctx, cancel := context.WithTimeout(ctx, Time)
	defer cancel()
	up, someDown := placesOf(p.begin, p.plugin)
	if len(up) == 0 {
		return nil, nodeconn.ErrNoController
	}
	for _, nodes := range up {
		err := listPages(ctx, nodes, p.listPage)
		if err != nil {
			return nil, err
		}
	}

	p.addUnlisted(someDown)
	out := &driftOutcome{found: map[storage.DriftKey]*storage.VolumeDrift{}, strays: p.strays}
	for _, all := range p.found {
		for _, d := range all {
			out.found[d.Key()] = d
		}
	}
	return out, nil
}

// listPage reads a page at the controller on a node, and compares it with the rows.
func (p *driftPass) listPage(ctx context.Context, node, token string) (next string, err error) {
	req := &nodecalls.ClientCSIListRequest{PluginID: p.plugin, MaxEntries: pageSize, StartingToken: token}
	nodeconn.Address(p.begin, req)
	to := nodeconn.Target{Nodes: p.Nodes, IDs: []string{node}, Limit: driftCallTime}
	page, err := nodeconn.Call(ctx, to, nodecalls.ClientCSIControllerList, req)
	if err == nil {
		err = report.Listed(page)
	}
	if err != nil {
		return "", err
	}
	return page.NextToken, p.comparePage(page)
}

// comparePage compares the volumes of a page with their rows.
func (p *driftPass) comparePage(page *nodecalls.ClientCSIListResponse) error {
	tx := p.Store.Read()
	for _, v := range page.Volumes {
		if v != nil && v.ExternalID != "" {
			p.numbers.bytes += v.Bytes()
			p.compareVolume(tx, v)
		}
	}
	n := p.numbers
	if n.bytes > maxBytes || n.found > maxFound {
		return structs.Internalf("the list has more than %d bytes or %d differences", maxBytes, maxFound)
	}
	return nil
}

// compareVolume compares a listed volume with its row. A row that came or went since the list began proves
// nothing. A volume that is listed twice counts as it was listed last.
func (p *driftPass) compareVolume(tx *state.ReadTx, listed *structs.CSIVolumeExternalStub) {
	id := listed.ExternalID
	was := csi.VolumeByExternal(p.begin, p.plugin, id)
	v := csi.VolumeByExternal(tx, p.plugin, id)
	p.seen[id] = struct{}{}
	delete(p.found, id)
	switch {
	case was == nil && v == nil:
		delete(p.seen, id)
		p.strays[maphash.String(hashes, id)] = struct{}{}
	// Without LIST_VOLUMES_PUBLISHED_NODES the nodes mean nothing (CSI spec, ListVolumesResponse).
	case was == nil || v == nil || !listed.PublishedNodesKnown || !isSettled(v) || !isSettled(was):
	default:
		p.compareNodes(tx, v, listed.PublishedExternalNodeIDs)
	}
}

// isSettled reports whether no call for a volume itself is in flight.
func isSettled(v *structs.CSIVolume) bool { return v.State == structs.VolumeReady && v.Call == nil }

// compareNodes compares the nodes at which a volume is listed with its attachments.
func (p *driftPass) compareNodes(tx *state.ReadTx, v *structs.CSIVolume, listed []string) {
	rows := map[string]bool{} // the plugin's IDs of the nodes with a row, now or before the list
	for a := range csi.AttachmentsByVolume(p.begin, v.Namespace, v.ID) {
		rows[a.ExternalNodeID] = true
	}
	for a := range csi.AttachmentsByVolume(tx, v.Namespace, v.ID) {
		rows[a.ExternalNodeID] = true
		same := a.State == structs.AttachmentAttached && a.ModifyIndex <= p.begin.Applied()
		if same && !slices.Contains(listed, a.ExternalNodeID) {
			p.add(v, storage.DriftMissingAttachment, a.ExternalNodeID, a.NodeID)
		}
	}

	for _, external := range listed {
		node := p.nodes[external]
		at := &structs.CSIAttachment{Namespace: v.Namespace, VolumeID: v.ID, NodeID: node}
		switch {
		case rows[external]:
		case node == "":
			p.add(v, storage.DriftUnknownNode, external, "")
		case csi.Attachment(tx, v.Namespace, v.ID, node) == nil && !csi.InUse(tx, at):
			p.add(v, storage.DriftStrayAttachment, external, node)
		}
	}
}

// addUnlisted adds the volumes that the list left out. The storage of a volume whose controllers are not
// reachable was not listed: its differences stay as they are recorded.
func (p *driftPass) addUnlisted(someDown bool) {
	tx := p.Store.Read()
	for was := range schema.VolumesByPlugin.Scan(p.begin, p.plugin) {
		_, listed := p.seen[was.ExternalID]
		if listed || was.ExternalID == "" || !isSettled(was) {
			continue
		}
		v := csi.VolumeByExternal(tx, p.plugin, was.ExternalID)
		switch {
		case v == nil || v.CreateIndex != was.CreateIndex || !isSettled(v):
		case wasReached(p.begin, tx, v, someDown):
			p.add(v, storage.DriftMissingVolume, "", "")
		default:
			for d := range csi.DriftsOfVolume(tx, v.Namespace, v.ID) {
				p.found[v.ExternalID] = append(p.found[v.ExternalID], d)
			}
		}
	}
}

func (p *driftPass) add(v *structs.CSIVolume, kind, external, node string) {
	p.numbers.found++
	p.found[v.ExternalID] = append(p.found[v.ExternalID], &storage.VolumeDrift{
		PluginID:       p.plugin,
		Kind:           kind,
		ExternalID:     v.ExternalID,
		ExternalNodeID: external,
		Namespace:      v.Namespace,
		VolumeID:       v.ID,
		NodeID:         node,
	})
}
