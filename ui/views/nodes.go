package views

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/api/show"
	"berth/structs"
	"berth/structs/cluster"
)

// NodeColumns are the columns of NodeRow.
var NodeColumns = show.Nodes.Pick("Name|ID|Datacenter|Pool|Class|Address|Status|Eligibility|Drain|Version")

// nodeTones are the tones of the states of a node.
var nodeTones = map[string]Tone{
	structs.NodeReady:        Good,
	structs.NodeInit:         Busy,
	structs.NodeDown:         Bad,
	structs.NodeDisconnected: Bad,
}

// NodeRow shows a node of a list.
func NodeRow(n *structs.NodeListStub) Row {
	return Row{
		Key: n.ID,
		Cells: cells(NodeColumns, n, marks{
			"Name":        link(cmp.Or(n.Name, n.ID), To(NodePath, "", n.ID)),
			"Status":      nodeStatus(n),
			"Eligibility": {Tone: toneIf(Busy, n.SchedulingEligibility != structs.NodeEligible)},
		}),
	}
}

func nodeStatus(n *structs.NodeListStub) Cell {
	c := toned(n.Status, nodeTones)
	if n.Returning {
		c = Cell{Text: n.Status + ", returning", Tone: Busy}
	}
	return c
}

// InstanceTable shows the plugin instances of a half.
func InstanceTable(caption string, all map[string]*structs.CSIInfo, to func(key string) Cell) Table {
	t := Table{
		Caption: caption,
		Columns: []string{"Name", "Health", "Reason", "Version", "Allocation", "Changed"},
		Empty:   "There are none.",
	}
	for key, i := range show.Sorted(all) {
		if i == nil {
			continue
		}
		health := Cell{Text: show.HealthWord(i.Healthy), Tone: Bad}
		if i.Healthy {
			health.Tone = Good
		}
		t.Rows = append(t.Rows, Row{
			Key: key,
			Cells: []Cell{
				to(key), health, text(show.HealthText(i.Healthy, i.HealthDescription)), text(i.ProviderVersion),
				linkTo(AllocPath, "", i.AllocID), age(i.UpdateTime),
			},
		})
	}
	return t
}

// OfNode makes the cell of a node by its ID, and OfPlugin that of a plugin.
func OfNode(id string) Cell   { return linkTo(NodePath, "", id) }
func OfPlugin(id string) Cell { return link(id, To(PluginPath, "", id)) }

// DriverTable shows the task drivers of a node.
func DriverTable(all map[string]*structs.DriverInfo) Table {
	t := Table{
		Caption: "Task drivers",
		Columns: []string{"Name", "Health", "Reason"},
		Empty:   "The node has no task drivers.",
	}
	for name, d := range show.Sorted(all) {
		if d == nil || !d.Detected {
			continue
		}
		health := Cell{Text: show.HealthWord(d.Healthy), Tone: Bad}
		if d.Healthy {
			health.Tone = Good
		}
		reason := text(show.HealthText(d.Healthy, d.HealthDescription))
		t.Rows = append(t.Rows, Row{Key: name, Cells: []Cell{text(name), health, reason}})
	}
	return t
}

// NodeEventTable shows the newest events of a node, the newest first.
func NodeEventTable(all []*structs.NodeEvent) Table {
	t := Table{
		Caption: "Events",
		Columns: []string{"Time", "Subsystem", "Text"},
		Empty:   "The node has no events.",
	}
	for i, e := range slices.Backward(all) {
		when := e.Timestamp.UTC().Format(time.RFC3339)
		t.Rows = append(t.Rows, Row{
			Key:   fmt.Sprint(i),
			Cells: []Cell{text(when), text(e.Subsystem), text(e.Message)},
		})
	}
	return t
}

// PluginColumns are the titles of PluginRow.
var PluginColumns = []string{"ID", "Provider", "Controllers healthy", "Nodes healthy"}

// PluginRow shows a plugin of a list.
func PluginRow(g *structs.CSIPluginListStub) Row {
	controllers := text("not needed")
	if g.ControllerRequired {
		controllers = outOf(g.ControllersHealthy, max(g.ControllersExpected, 1))
	}
	return Row{
		Key: g.ID,
		Cells: []Cell{
			OfPlugin(g.ID), text(g.Provider), controllers, outOf(g.NodesHealthy, g.NodesExpected),
		},
	}
}

// VolumeTable shows some volumes.
func VolumeTable(all []*structs.CSIVolumeListStub) Table {
	t := Table{
		Caption: "Volumes",
		Columns: VolumeColumns.Titles,
		Empty:   "There are no volumes.",
	}
	for _, v := range all {
		t.Rows = append(t.Rows, VolumeRow(v))
	}
	return t
}

// Tile is a machine in the picture of the cluster.
type Tile struct {
	Name   string
	To     string // a path of the page, "" for none
	Status string // in words
	Tone   Tone
}

// Pool has the nodes of a node pool in a datacenter.
type Pool struct {
	Name  string
	Ready int
	Nodes []Tile
}

// Datacenter has the machines of a datacenter.
type Datacenter struct {
	Name    string
	Servers []Tile
	Pools   []Pool
}

// Topology groups servers and nodes by their datacenters, in the order of the names. leader is the RPC
// address of the leading server, "" for none. Servers without a datacenter are in the one with the name "".
func Topology(servers []*cluster.AgentMember, leader string, nodes []*structs.NodeListStub) []Datacenter {
	byName := map[string]*Datacenter{}
	of := func(name string) *Datacenter {
		if byName[name] == nil {
			byName[name] = &Datacenter{Name: name}
		}
		return byName[name]
	}

	for _, s := range servers {
		dc := of(s.Tags["dc"])
		dc.Servers = append(dc.Servers, serverTile(s, leader))
	}
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *structs.NodeListStub) int {
		return cmp.Or(strings.Compare(a.NodePool, b.NodePool), strings.Compare(a.Name, b.Name),
			strings.Compare(a.ID, b.ID))
	})
	for _, n := range nodes {
		of(n.Datacenter).add(n)
	}

	var all []Datacenter
	for _, dc := range show.Sorted(byName) {
		all = append(all, *dc)
	}
	return all
}

// add adds a node. Nodes come in the order of their pools.
func (dc *Datacenter) add(n *structs.NodeListStub) {
	last := len(dc.Pools) - 1
	if last < 0 || dc.Pools[last].Name != n.NodePool {
		dc.Pools = append(dc.Pools, Pool{Name: n.NodePool})
		last++
	}
	pool := &dc.Pools[last]
	status := nodeStatus(n)
	words := status.Text
	tone := status.Tone
	if n.Status == structs.NodeReady {
		pool.Ready++
	}
	switch {
	case n.Drain:
		words += ", draining"
		tone = Busy
	case n.SchedulingEligibility != structs.NodeEligible:
		words += ", " + n.SchedulingEligibility
		tone = Busy
	}
	pool.Nodes = append(pool.Nodes, Tile{
		Name:   cmp.Or(n.Name, show.ShortID(n.ID)),
		To:     To(NodePath, "", n.ID),
		Status: words,
		Tone:   tone,
	})
}

func serverTile(m *cluster.AgentMember, leader string) Tile {
	t := Tile{Name: m.Name, Status: m.Status, Tone: Bad}
	if m.Status == "alive" {
		t.Tone = Good
	}
	if leader != "" && m.Tags["rpc_addr"] == leader {
		t.Status += ", leads"
	}
	return t
}
