package state

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"berth/internal/intern"
	"berth/structs"
)

// NodeIsDown is the description of an instance whose node went down. No report of a node may have this text:
// in an older snapshot file only the text shows that the servers set it (see markDown).
const NodeIsDown = "node is down"

// Plugin returns the plugin's row, nil if nothing refers to it.
func Plugin(tx Reader, id string) *structs.CSIPluginRow {
	return plugins.Get(tx, id)
}

// Instance returns one half of a plugin on one node, nil if the node never reported it.
func Instance(tx Reader, plugin string, kind structs.CSIKind, node string) *structs.CSIPluginInstance {
	return instances.Get(tx, plugin, string(kind), node)
}

// InstancesByPlugin yields a plugin's instances, controllers first, by node.
func InstancesByPlugin(tx Reader, plugin string) iter.Seq[*structs.CSIPluginInstance] {
	return instances.Scan(tx, plugin)
}

// InstancesByPluginKind yields one half of a plugin, by node.
func InstancesByPluginKind(
	tx Reader, plugin string, kind structs.CSIKind,
) iter.Seq[*structs.CSIPluginInstance] {
	return instances.Scan(tx, plugin, string(kind))
}

// InstancesByNode yields the instances a node reported, by plugin and kind. The node's row names them: an
// index of them by node would hold as much again as the rows.
func InstancesByNode(tx Reader, node string) iter.Seq[*structs.CSIPluginInstance] {
	return func(yield func(*structs.CSIPluginInstance) bool) {
		n := Node(tx, node)
		if n == nil {
			return
		}
		for _, k := range n.CSIInstances() {
			i := Instance(tx, k.PluginID, k.Kind, node)
			if i != nil && !yield(i) {
				return
			}
		}
	}
}

// PluginDetail puts a plugin together with its instances and allocations as they are now.
func PluginDetail(tx Reader, id string) *structs.CSIPlugin {
	d := pluginFrame(tx, id)
	if d == nil {
		return nil
	}
	d.Controllers = make(map[string]*structs.CSIInfo, tallyOf(tx, id, structs.CSIKindController).Instances)
	d.Nodes = make(map[string]*structs.CSIInfo, tallyOf(tx, id, structs.CSIKindNode).Instances)
	halves := instances.Cursor(tx, id)
	fill := func() {
		for i := halves.Next(); i != nil; i = halves.Next() {
			addInstance(d, i)
		}
	}
	// A large plugin's rows are in no cache, and both of these wait for memory.
	var filled sync.WaitGroup
	defer filled.Wait()
	if d.ControllersExpected+d.NodesExpected >= largePlugin {
		filled.Go(fill) // needs no transaction, unlike the next steps
	} else {
		fill()
	}
	// In the order of the tree, each allocation would cost a wait for memory. Allocations with known slots
	// are read together.
	placed := make([]*structs.Allocation, 0, d.ControllersExpected+d.NodesExpected)
	for a := range allocsByPlugin.Scan(tx, id) {
		placed = append(placed, a)
	}
	d.Allocations = make([]*structs.AllocListStub, len(placed))
	stubs := make([]structs.AllocListStub, len(placed)) // of one answer, dropped together
	stub := AllocStubs(tx)
	for i, a := range placed {
		stub(a, &stubs[i])
		d.Allocations[i] = &stubs[i]
	}
	return d
}

// largePlugin is from how many instances on another core helps to put a plugin together.
const largePlugin = 1000

// PluginPage is PluginDetail with at most limit of the instances, beginning with the first that is not
// before the one named, and with the allocations that run these. next names where the next page begins, nil
// on the last.
func PluginPage(
	tx Reader, id string, begin *structs.CSIPluginInstance, limit int,
) (d *structs.CSIPlugin, next *structs.CSIPluginInstance) {
	d = pluginFrame(tx, id)
	if d == nil {
		return nil, nil
	}
	d.Controllers = map[string]*structs.CSIInfo{}
	d.Nodes = map[string]*structs.CSIInfo{}
	d.Allocations = []*structs.AllocListStub{}
	instances.Has(tx, id) // a waiting query waits for any of them
	rows := instances.Seek(tx, id)
	stub := AllocStubs(tx)
	seen := map[string]bool{}
	if begin != nil {
		rows = instances.Seek(tx, id,
			string(begin.Kind), begin.NodeID)
	}
	for i := rows.Next(); i != nil && i.PluginID == id; i = rows.Next() {
		if len(d.Controllers)+len(d.Nodes) == limit {
			return d, i
		}
		addInstance(d, i)
		a := Alloc(tx, i.AllocID)
		if a != nil && !seen[a.ID] {
			seen[a.ID] = true
			s := new(structs.AllocListStub)
			stub(a, s)
			d.Allocations = append(d.Allocations, s)
		}
	}
	return d, nil
}

// pluginFrame returns the response for a plugin without its instances and allocations.
func pluginFrame(tx Reader, id string) *structs.CSIPlugin {
	row := Plugin(tx, id)
	if row == nil {
		return nil
	}
	s := PluginStub(tx, row)
	return &structs.CSIPlugin{
		ID:                  row.ID,
		Provider:            row.Provider,
		Version:             row.Version,
		ControllerRequired:  row.ControllerRequired,
		ControllersHealthy:  s.ControllersHealthy,
		ControllersExpected: s.ControllersExpected,
		NodesHealthy:        s.NodesHealthy,
		NodesExpected:       s.NodesExpected,
		Indexes:             row.Indexes,
	}
}

func addInstance(d *structs.CSIPlugin, i *structs.CSIPluginInstance) {
	half := d.Nodes
	if i.Kind == structs.CSIKindController {
		half = d.Controllers
	}
	half[i.NodeID] = &i.CSIInfo
}

// PluginStub is the plugin as lists show it.
func PluginStub(tx Reader, row *structs.CSIPluginRow) *structs.CSIPluginListStub {
	controllers, nodes := halvesOf(tx, row.ID)
	return &structs.CSIPluginListStub{
		ID:                  row.ID,
		Provider:            row.Provider,
		ControllerRequired:  row.ControllerRequired,
		ControllersHealthy:  controllers.Healthy,
		ControllersExpected: controllers.Expected(),
		NodesHealthy:        nodes.Healthy,
		NodesExpected:       nodes.Expected(),
		Indexes:             row.Indexes,
	}
}

// NodeUpdateCSI takes a node's report of its plugin instances, whole or as a difference.
func NodeUpdateCSI(tx *WriteTx, p *structs.NodeUpdateCSIRequest) error {
	old, err := mustNode(tx, p.NodeID, p.SecretID)
	if err != nil {
		return err
	}
	n := old
	halves := reportedHalves(tx, old, p)
	if !slices.Equal(halves, old.CSIInstances()) {
		n = edited(old)
		n.SetCSIInstances(halves)
		nodes.Put(tx, n)
	}
	return updateInstances(tx, old, n, p)
}

// reportedHalves names the instances that a node has after the report, by plugin and kind; old is the node
// before it, of which a report that is whole leaves nothing.
func reportedHalves(
	tx *WriteTx, old *structs.Node, p *structs.NodeUpdateCSIRequest,
) []structs.CSIInstanceKey {
	var keys []structs.CSIInstanceKey
	if !p.Full {
		keys = slices.Clone(old.CSIInstances())
	}
	for _, i := range p.Upserts {
		if i == nil {
			continue
		}
		k := structs.CSIInstanceKey{
			PluginID: i.PluginID,
			Kind:     i.Kind,
		}
		at, there := slices.BinarySearchFunc(keys, k, compareHalves)
		if !there {
			keys = slices.Insert(keys, at, k)
		}
	}
	keys = slices.DeleteFunc(keys, func(k structs.CSIInstanceKey) bool {
		return slices.Contains(p.Removes, k)
	})
	if len(keys) == 0 {
		return nil
	}
	return *intern.Value(&keys)
}

func compareHalves(a, b structs.CSIInstanceKey) int {
	return cmp.Or(cmp.Compare(a.PluginID, b.PluginID),
		cmp.Compare(a.Kind, b.Kind))
}

// updateInstances puts the reported instances of a node and deletes those that it no longer has. old is the
// previous row of the node, or nil.
func updateInstances(tx *WriteTx, old, n *structs.Node, p *structs.NodeUpdateCSIRequest) error {
	for _, i := range p.Upserts {
		if i == nil || i.PluginID == "" ||
			(i.Kind != structs.CSIKindController &&
				i.Kind != structs.CSIKindNode) {
			return structs.Invalidf("a plugin instance needs a plugin ID and a kind, %s or %s",
				structs.CSIKindController, structs.CSIKindNode)
		}
		c := *i
		c.NodeID = n.ID
		c.DownWithNode = false // which the servers say
		if n.Status == structs.NodeDown && c.Healthy {
			goDown(&c)
		}
		putInstance(tx, &c, p.Now)
	}
	if old == nil {
		old = &structs.Node{}
	}
	for _, k := range append(slices.Clone(old.CSIInstances()), p.Removes...) {
		_, has := slices.BinarySearchFunc(n.CSIInstances(), k, compareHalves)
		if has {
			continue
		}
		if i := Instance(tx, k.PluginID, k.Kind, n.ID); i != nil {
			removeInstance(tx, i, p.Now)
		}
	}
	return nil
}

// putInstance stores a report if it has changes, and unblocks the evaluations that wait for them.
func putInstance(tx *WriteTx, i *structs.CSIPluginInstance, now int64) {
	old := Instance(tx, i.PluginID, i.Kind, i.NodeID)
	if old == nil || !SameInstance(old, i) {
		storeInstance(tx, old, i, now)
	}
}

// storeInstance stores a report in the place of old, which may be nil.
func storeInstance(tx *WriteTx, old, i *structs.CSIPluginInstance, now int64) {
	known := referPlugin(tx, i.PluginID)
	p := checkDriver(tx, known, i)
	instances.Put(tx, i)
	recount(tx, i.PluginID, i.Kind,
		tallyInstance(old), tallyInstance(i))
	switch {
	case p != known:
		defer restoreInstances(tx, i.PluginID, now)
	case old != nil && old.Provider != i.Provider:
		defer rebindDriver(tx, i.PluginID, now)
	}
	differs := old == nil ||
		!sameNodeInfo(old.NodeInfo, i.NodeInfo) ||
		!sameControllerInfo(old.ControllerInfo, i.ControllerInfo)
	if i.Healthy && learnPlugin(tx, p, i, now) {
		grantPlugin(tx, i.PluginID, now)
	} else if differs && i.Kind == structs.CSIKindNode {
		grantOnNode(tx, i.PluginID, i.NodeID, now)
	}
	if i.Healthy && (differs || !old.Healthy) {
		unblock(tx, structs.WakePlugin(i.PluginID))
	}
}

// SameInstance compares a node's report with its row, except for its time.
func SameInstance(row, report *structs.CSIPluginInstance) bool {
	a := row
	b := report
	x := a.CSIInfo
	y := b.CSIInfo
	if a.OtherDriver { // the node reports it healthy, with its own description
		x.Healthy = true
		x.HealthDescription = y.HealthDescription
	}
	for _, i := range []*structs.CSIInfo{&x, &y} {
		i.UpdateTime = 0
		i.NodeInfo = nil
		i.ControllerInfo = nil
	}
	return x == y && a.Kind == b.Kind &&
		a.NodeID == b.NodeID && a.DownWithNode == b.DownWithNode &&
		sameNodeInfo(a.NodeInfo, b.NodeInfo) && sameControllerInfo(a.ControllerInfo, b.ControllerInfo)
}

func sameNodeInfo(a, b *structs.CSINodeInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	x := *a
	y := *b
	x.AccessibleTopology = nil
	y.AccessibleTopology = nil
	return x == y && sameTopology(a.AccessibleTopology, b.AccessibleTopology)
}

func sameTopology(a, b *structs.CSITopology) bool {
	if a == nil || b == nil {
		return a == b
	}
	return maps.Equal(a.Segments, b.Segments)
}

func sameControllerInfo(a, b *structs.CSIControllerInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func removeInstance(tx *WriteTx, i *structs.CSIPluginInstance, now int64) {
	instances.Delete(tx, i)
	recount(tx, i.PluginID, i.Kind,
		tallyInstance(i), tally{})
	unreferPlugin(tx, i.PluginID)
	rebindDriver(tx, i.PluginID, now)
}

// learnPlugin keeps the properties that a healthy instance reports and that must outlive it in the plugin's
// row, and reports whether the row changed.
func learnPlugin(tx *WriteTx, old *structs.CSIPluginRow, i *structs.CSIPluginInstance, now int64) bool {
	learned := *old
	learned.Known = true
	learned.ControllerRequired = old.ControllerRequired || i.RequiresControllerPlugin
	if i.Provider != "" &&
		(old.Provider == "" || old.Provider == i.Provider) {
		learned.Provider = i.Provider
		learned.Version = i.ProviderVersion
	}
	if i.Kind == structs.CSIKindController {
		learned.ControllerSeen = true
	}
	if i.Kind == structs.CSIKindController && i.ControllerInfo != nil {
		learned.SupportsAttachDetach = i.ControllerInfo.SupportsAttachDetach
		learned.SupportsReadOnly = i.ControllerInfo.SupportsReadOnlyAttach
		learned.ExpandsOffline = i.ExpandsOffline
	}
	if learned == *old {
		return false
	}
	p := learned.Copy()
	plugins.Put(tx, p)
	if p.SupportsAttachDetach && !old.SupportsAttachDetach {
		attachGranted(tx, p.ID, now)
	}
	return true
}

// goDown makes a healthy instance one of a node that is down.
func goDown(i *structs.CSIPluginInstance) {
	i.Healthy = false
	i.HealthDescription = NodeIsDown
	i.DownWithNode = true
}

func downInstances(tx *WriteTx, node string, now int64) {
	for i := range InstancesByNode(tx, node) {
		if i.Healthy {
			c := *i
			goDown(&c)
			putInstance(tx, &c, now)
		}
	}
}

func reviveInstances(tx *WriteTx, node string, now int64) {
	for i := range InstancesByNode(tx, node) {
		if i.DownWithNode {
			c := *i
			c.Healthy = true
			c.HealthDescription = ""
			c.DownWithNode = false
			putInstance(tx, &c, now)
		}
	}
}

// referPlugin returns the plugin's row, made with its first reference.
func referPlugin(tx *WriteTx, id string) *structs.CSIPluginRow {
	p := Plugin(tx, id)
	if p == nil {
		p = &structs.CSIPluginRow{ID: id}
		plugins.Put(tx, p)
	}
	return p
}

// unreferPlugin deletes the plugin's row with its last.
func unreferPlugin(tx *WriteTx, id string) {
	p := Plugin(tx, id)
	if p == nil || pluginReferences(tx, id) != "" {
		return
	}
	plugins.Delete(tx, p)
	forgetUnblock(tx, structs.WakePlugin(id))
}

// pluginReferences names one of each kind of thing that refers to a plugin, "" if nothing does.
func pluginReferences(tx Reader, id string) string {
	var refs []string
	if i := instances.First(tx, id); i != nil {
		refs = append(refs,
			fmt.Sprintf("its %s instance on node %s", i.Kind, i.NodeID))
	}
	if a := allocsByPlugin.First(tx, id, liveRow); a != nil {
		refs = append(refs,
			fmt.Sprintf("allocation %s of job %s", a.ID, a.JobID))
	}
	if v := volumesByPlugin.First(tx, id); v != nil {
		refs = append(refs,
			fmt.Sprintf("volume %s in namespace %s", v.ID, v.Namespace))
	}
	if a := attachmentsByExternal.First(tx, id); a != nil {
		refs = append(refs, fmt.Sprintf("the attachment of volume %s in namespace %s to node %s%s",
			a.VolumeID, a.Namespace, nodeName(tx, a.NodeID), failing(a.LastError)))
	}
	return strings.Join(refs, ", ")
}

// PluginDelete succeeds if the plugin is gone. The plugin row is deleted with its last reference.
// PluginDelete rejects a plugin with references and names them.
func PluginDelete(tx *WriteTx, p *structs.CSIPluginDeleteRequest) error {
	if refs := pluginReferences(tx, p.ID); refs != "" {
		return structs.Preconditionf("plugin %q is in use by %s", p.ID, refs)
	}
	return nil
}
