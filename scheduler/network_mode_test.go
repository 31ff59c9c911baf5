package scheduler

import (
	"strings"
	"testing"

	"berth/scheduler/rejects"
	"berth/structs"
)

// inMode gives the group of a job a network.
func inMode(mode string) func(*structs.Job) {
	return func(j *structs.Job) {
		j.TaskGroups[0].Networks = []*structs.NetworkResource{{Mode: mode}}
	}
}

// withModes adds networks of allocations to a node whose driver starts tasks in them.
func withModes(n *structs.Node, modes ...string) *structs.Node {
	for _, mode := range modes {
		n.NodeResources.NodeNetworks = append(n.NodeResources.NodeNetworks,
			&structs.NodeNetworkResource{Mode: mode})
	}
	for name, d := range n.Drivers {
		d.Attributes = map[string]string{structs.AttrNetworkNamespace(name): "1"}
	}
	return n
}

func TestNetworkMode_FiltersNodes(t *testing.T) {
	for _, c := range []struct {
		mode string
		node func(*structs.Node)
		want string // the reason, "" for a place
	}{
		{"host", func(*structs.Node) {}, ""},
		{"none", func(n *structs.Node) { withModes(n) }, ""},
		{"none", func(*structs.Node) {}, "cannot start tasks in the network of a group here"},
		{"bridge", func(n *structs.Node) { withModes(n, "bridge") }, ""},
		{"bridge", func(n *structs.Node) { withModes(n, "cni/lab") }, `the node has no network with mode "bridge"`},
		{"cni/lab", func(n *structs.Node) { withModes(n, "bridge", "cni/lab") }, ""},
		{"cni/lab", func(n *structs.Node) { withModes(n, "cni/lab2") }, `no network with mode "cni/lab"`},
	} {
		w := newFixture(t)
		n := aNode("n1")
		c.node(n)
		w.node(n)
		w.job(aJob("web", structs.JobService, inMode(c.mode)))
		p := w.run("web")
		if c.want == "" {
			if len(p.Place) != 1 {
				t.Errorf("%s: %s", c.mode, describe(p))
			}
			continue
		}
		blocked := w.evals(structs.EvalBlocked)
		if len(p.Place) > 0 || len(blocked) != 1 {
			t.Errorf("%s: %s", c.mode, describe(p))
			continue
		}
		rejections := blocked[0].FailedTGAllocs["g"].Rejections
		if len(rejections) != 1 || rejections[0].Filter != rejects.FilterNetwork ||
			!strings.Contains(rejections[0].Reason, c.want) {
			t.Errorf("%s: rejections %+v", c.mode, rejections)
		}
	}
}

// A job that waits for a network gets its place when the node reports the network.
func TestNetworkMode_ANewNetworkUnblocks(t *testing.T) {
	w := newFixture(t)
	w.node(withModes(aNode("n1")))
	w.job(aJob("web", structs.JobService, inMode("bridge")))
	w.run("web")
	if blocked := w.evals(structs.EvalBlocked); len(blocked) != 1 {
		t.Fatalf("%d blocked evaluations", len(blocked))
	}
	w.node(withModes(aNode("n1"), "bridge"))
	if p := w.run("web"); len(p.Place) != 1 {
		t.Errorf("with the network: %s", describe(p))
	}
}

func TestShape_DiffersWithTheNetwork(t *testing.T) {
	shapes := map[string]bool{}
	for _, mode := range []string{"none", "bridge", "cni/a"} {
		w := newFixture(t)
		w.job(aJob("web", structs.JobService, inMode(mode)))
		w.run("web")
		shapes[w.evals(structs.EvalBlocked)[0].Shape] = true
	}
	if len(shapes) != 3 {
		t.Errorf("the shapes are %v", shapes)
	}
}
