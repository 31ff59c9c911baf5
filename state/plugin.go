package state

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"berth/internal/intern"
	"berth/structs"
)

// NodeIsDown is the description of an instance whose node went down, and of an allocation lost with its node.
// It is for people: DownWithNode and StopNodeDown say the same to code.
const NodeIsDown = "node is down"

// Plugin returns the plugin's row, nil if nothing refers to it.
func Plugin(tx Reader, id string) *structs.CSIPluginRow {
	return plugins.Get(tx, id)
}

// Instance returns one half of a plugin on one node, nil if the node never reported it.
func Instance(
	tx Reader,
	plugin string,
	kind structs.CSIKind,
	node string,
) *structs.CSIPluginInstance {
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

// InstancesByNode yields the instances that a node reported, by plugin and kind. The node's row names them,
// because an index by node would take as much memory as the rows.
func InstancesByNode(tx Reader, node string) iter.Seq[*structs.CSIPluginInstance] {
	return func(yield func(*structs.CSIPluginInstance) bool) {
		n := nodes.Get(tx, node)
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

// PluginDetail returns a plugin with its instances and allocations.
func PluginDetail(tx Reader, id string) *structs.CSIPlugin {
	d := pluginFrame(tx, id)
	if d == nil {
		return nil
	}

	controllers, nodes := talliesOf(tx, id)
	d.Controllers = make(map[string]*structs.CSIInfo, controllers.Instances)
	d.Nodes = make(map[string]*structs.CSIInfo, nodes.Instances)
	halves := instances.Cursor(tx, id)
	addInstances := func() {
		for i := halves.Next(); i != nil; i = halves.Next() {
			addInstance(d, i)
		}
	}

	expected := d.ControllersExpected + d.NodesExpected
	// A large plugin's rows are in no cache, and both of these wait for memory.
	var added sync.WaitGroup
	defer added.Wait()
	if expected >= largePlugin {
		added.Go(addInstances) // needs no transaction, unlike the next steps
	} else {
		addInstances()
	}

	// In the order of the tree, each allocation would cost a wait for memory. Allocations with known slots
	// are read together.
	placed := slices.AppendSeq(
		make([]*structs.Allocation, 0, expected), allocsByPlugin.Scan(tx, id))
	d.Allocations = make([]*structs.AllocListStub, len(placed))
	stubs := make([]structs.AllocListStub, len(placed)) // of one answer, dropped together
	stub := AllocStubs(tx)
	for i, a := range placed {
		stub(a, &stubs[i])
		d.Allocations[i] = &stubs[i]
	}

	return d
}

// largePlugin is the number of instances from which on PluginDetail is faster with a second core.
const largePlugin = 1000

// PluginPage returns PluginDetail with at most limit instances, from begin on, and with the allocations that
// run these. next is the first instance of the next page, nil on the last page.
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
	instances.Has(tx, id) // so that a blocking query watches all of them
	rows := instances.Seek(tx, id)
	stub := AllocStubs(tx)
	seen := map[string]bool{}
	if begin != nil {
		rows = instances.Seek(tx, id, string(begin.Kind), begin.NodeID)
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

// PluginStub returns the plugin as lists show it.
func PluginStub(tx Reader, row *structs.CSIPluginRow) *structs.CSIPluginListStub {
	controllers, nodes := talliesOf(tx, row.ID)
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

// NodeUpdateCSI stores a node's report of its plugin instances: all of them, or the changes.
func NodeUpdateCSI(tx *WriteTx, p *structs.NodeUpdateCSIRequest) error {
	old, err := findCaller(tx, p)
	if err != nil {
		return err
	}

	was := healthOf(tx, old)
	n := old
	halves := reportedHalves(tx, old, p)
	if !slices.Equal(halves, old.CSIInstances()) {
		n = shallowCopy(old)
		n.SetCSIInstances(halves)
		nodes.Put(tx, n)
	}

	err = updateInstances(tx, old, n, p)
	if err != nil {
		return err
	}

	recordChanges(tx, n.ID, was, p.Now)
	return nil
}

// reportedHalves returns the keys of the instances that a node has after the report, by plugin and kind. old
// is the node before a report of changes. A report of all instances ignores it.
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

		k := i.Key()
		at, there := slices.BinarySearchFunc(keys, k, structs.CSIInstanceKey.Compare)
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

// updateInstances puts the reported instances of a node and deletes the instances that it no longer has. old
// is the previous row of the node, or nil.
func updateInstances(tx *WriteTx, old, n *structs.Node, p *structs.NodeUpdateCSIRequest) error {
	for _, i := range p.Upserts {
		if i == nil || i.PluginID == "" ||
			(i.Kind != structs.CSIKindController && i.Kind != structs.CSIKindNode) {
			return structs.Invalidf("a plugin instance needs a plugin ID and a kind, %s or %s",
				structs.CSIKindController, structs.CSIKindNode)
		}

		c := *i
		c.NodeID = n.ID
		c.DownWithNode = false // only the servers set it
		if n.Status == structs.NodeDown && c.Healthy {
			markInstanceDown(&c)
		}

		putInstance(tx, &c, p.Now)
	}

	if old == nil {
		old = &structs.Node{}
	}

	for _, k := range slices.Concat(old.CSIInstances(), p.Removes) {
		_, has := slices.BinarySearchFunc(n.CSIInstances(), k, structs.CSIInstanceKey.Compare)
		if has {
			continue
		}

		i := Instance(tx, k.PluginID, k.Kind, n.ID)
		if i != nil {
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
	known := ensurePlugin(tx, i.PluginID)
	p := checkDriver(tx, known, i)
	instances.Put(tx, i)
	recountHalf(tx, i.Key(), tallyInstance(old), tallyInstance(i))
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

// SameInstance reports whether a node's report equals the row, except for the time.
func SameInstance(row, report *structs.CSIPluginInstance) bool {
	info := row.CSIInfo
	if row.OtherDriver { // the node reports it healthy, with its own description
		info.Healthy = true
		info.HealthDescription = report.HealthDescription
	}
	info.UpdateTime = report.UpdateTime
	info.NodeInfo = report.NodeInfo
	info.ControllerInfo = report.ControllerInfo
	return info == report.CSIInfo &&
		row.Kind == report.Kind &&
		row.NodeID == report.NodeID &&
		row.DownWithNode == report.DownWithNode &&
		sameNodeInfo(row.NodeInfo, report.NodeInfo) &&
		sameControllerInfo(row.ControllerInfo, report.ControllerInfo)
}

func sameNodeInfo(a, b *structs.CSINodeInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	c := *a
	c.AccessibleTopology = b.AccessibleTopology
	return c == *b &&
		sameTopology(a.AccessibleTopology, b.AccessibleTopology)
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
	recountHalf(tx, i.Key(), tallyInstance(i), tally{})
	dropUnusedPlugin(tx, i.PluginID)
	rebindDriver(tx, i.PluginID, now)
}

// learnPlugin keeps the properties that a healthy instance reports and that must outlive it in the plugin's
// row, and reports whether the row changed.
func learnPlugin(
	tx *WriteTx,
	old *structs.CSIPluginRow,
	i *structs.CSIPluginInstance,
	now int64,
) bool {
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

	if i.Kind == structs.CSIKindController &&
		i.ControllerInfo != nil {
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

// markInstanceDown makes a healthy instance one of a node that is down.
func markInstanceDown(i *structs.CSIPluginInstance) {
	i.Healthy = false
	i.HealthDescription = NodeIsDown
	i.DownWithNode = true
}

func downInstances(tx *WriteTx, node string, now int64) {
	for i := range InstancesByNode(tx, node) {
		if i.Healthy {
			c := *i
			markInstanceDown(&c)
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

// ensurePlugin returns the plugin's row. It puts the row for the first reference.
func ensurePlugin(tx *WriteTx, id string) *structs.CSIPluginRow {
	p := Plugin(tx, id)
	if p == nil {
		p = &structs.CSIPluginRow{ID: id}
		plugins.Put(tx, p)
	}
	return p
}

// dropUnusedPlugin deletes the plugin's row after its last reference.
func dropUnusedPlugin(tx *WriteTx, id string) {
	p := Plugin(tx, id)
	if p == nil || pluginReferences(tx, id) != "" {
		return
	}
	plugins.Delete(tx, p)
	deleteUnblock(tx, structs.WakePlugin(id))
}

// pluginReferences names one row of each kind that refers to a plugin, and returns "" if there is none.
func pluginReferences(tx Reader, id string) string {
	var refs []string
	addRef := func(format string, args ...any) {
		refs = append(refs, fmt.Sprintf(format, args...))
	}
	if i := instances.First(tx, id); i != nil {
		addRef("its %s instance on node %s", i.Kind, i.NodeID)
	}

	if a := allocsByPlugin.First(tx, id, liveRow); a != nil {
		addRef("allocation %s of job %s", a.ID, a.JobID)
	}

	if v := volumesByPlugin.First(tx, id); v != nil {
		addRef("volume %s in namespace %s", v.ID, v.Namespace)
	}

	if a := attachmentsByExternal.First(tx, id); a != nil {
		addRef("the attachment of volume %s in namespace %s to node %s%s",
			a.VolumeID, a.Namespace, nodeName(tx, a.NodeID), failing(a.LastError))
	}

	return strings.Join(refs, ", ")
}

// PluginDelete succeeds if the plugin is gone. The plugin row is deleted with its last reference.
// PluginDelete rejects a plugin with references and names them.
func PluginDelete(tx *WriteTx, p *structs.CSIPluginDeleteRequest) error {
	refs := pluginReferences(tx, p.ID)
	if refs != "" {
		return structs.Preconditionf("plugin %q is in use by %s", p.ID, refs)
	}
	return nil
}
