package state

import (
	"slices"
	"sync"

	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
)

// PluginDetail returns a plugin with its instances and allocations.
func PluginDetail(tx Reader, id string) *structs.CSIPlugin {
	d := pluginFrame(tx, id)
	if d == nil {
		return nil
	}

	controllers, nodes := csi.TalliesOf(tx, id)
	d.Controllers = make(map[string]*structs.CSIInfo, controllers.Instances)
	d.Nodes = make(map[string]*structs.CSIInfo, nodes.Instances)
	halves := schema.Instances.Cursor(tx, id)
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
		make([]*structs.Allocation, 0, expected), schema.AllocsByPlugin.Scan(tx, id))
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
	schema.Instances.Has(tx, id) // so that a blocking query watches all of them
	rows := schema.Instances.Seek(tx, id)
	stub := AllocStubs(tx)
	seen := map[string]bool{}
	if begin != nil {
		rows = schema.Instances.Seek(tx, id, string(begin.Kind), begin.NodeID)
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
	row := csi.Plugin(tx, id)
	if row == nil {
		return nil
	}
	s := csi.PluginStub(tx, row)
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
