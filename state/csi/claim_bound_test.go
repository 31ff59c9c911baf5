package csi_test

import (
	"slices"
	"strings"
	"testing"

	"berth/state/csi"
	"berth/structs"
)

// TestNoMultiWriter_IsTheWordOfAHealthyInstance: a plugin whose instances are not known, or not healthy, may
// have the mode. A volume is registered, and the claim on a node is checked again.
func TestNoMultiWriter_IsTheWordOfAHealthyInstance(t *testing.T) {
	const (
		controller = structs.CSIKindController
		half       = structs.CSIKindNode
	)
	type instance struct {
		node    string
		kind    structs.CSIKind
		healthy bool
		has     bool // announces SINGLE_NODE_MULTI_WRITER
	}
	for _, c := range []struct {
		name      string
		attaches  bool // the plugin needs a controller
		instances []instance
		lacks     string // "any": every volume of the plugin, or the nodes that cannot have one
	}{
		{"no instance", false, nil, ""},
		{"a controller", true, []instance{{"n1", controller, true, false}}, "any n1 n2"},
		{"an unhealthy controller", true, []instance{{"n1", controller, false, false}}, ""},
		{"a healthy controller beside an unhealthy one", true,
			[]instance{{"n1", controller, false, false}, {"n2", controller, true, true}}, ""},
		{"an unhealthy controller beside a healthy one", true,
			[]instance{{"n1", controller, false, true}, {"n2", controller, true, false}}, "any n1 n2"},
		{"the half of one node", false, []instance{{"n1", half, true, false}, {"n2", half, true, true}}, "n1"},
		{"the half of the last node", false, []instance{{"n1", half, true, true}, {"n2", half, true, false}}, "n2"},
		{"all halves", false, []instance{{"n1", half, true, false}, {"n2", half, true, false}}, "any n1 n2"},
		{"an unhealthy half", false, []instance{{"n1", half, false, false}}, ""},
		{"the halves of a plugin whose controller is not known", true,
			[]instance{{"n1", half, true, false}, {"n2", half, true, false}}, "n1 n2"},
	} {
		w := newFixture(t)
		w.Node("n1")
		w.Node("n2")
		for _, i := range c.instances {
			row := anInstance("p", i.kind, i.healthy)
			row.RequiresControllerPlugin = c.attaches
			if i.kind == controller {
				row.ControllerInfo.SupportsSingleNodeMultiWriter = i.has
			} else {
				row.NodeInfo.MultiWriter = i.has
			}
			w.Update(i.node, row)
		}
		var lacks []string
		for node, name := range map[string]string{"": "any", "n1": "n1", "n2": "n2"} {
			fault := csi.NoMultiWriter(w.Store.Read(), "p", node)
			if fault == "" {
				continue
			}
			lacks = append(lacks, name)
			if !strings.HasPrefix(fault, "CSI plugin p has no SINGLE_NODE_MULTI_WRITER") {
				t.Errorf("%s: got %s", c.name, fault)
			}
		}
		slices.Sort(lacks)
		got := strings.Join(lacks, " ")
		if got != c.lacks {
			t.Errorf("%s: it lacks the mode for %q, want %q", c.name, got, c.lacks)
		}
	}
}
