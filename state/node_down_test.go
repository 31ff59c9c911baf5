package state_test

import (
	"testing"

	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
)

// wantInstance checks an instance of plugin p on n1.
func wantInstance(w *fixture, when string, healthy, down bool) {
	w.T.Helper()
	i := csi.Instance(w.Store.Read(), "p", structs.CSIKindNode, "n1")
	if i.Healthy != healthy || i.DownWithNode != down {
		w.T.Errorf("%s: got %+v, want healthy %t, down with its node %t", when, i, healthy, down)
	}
}

func TestDownWithNode_DoesNotDependOnTheDescription(t *testing.T) {
	w := newFixture(t)
	w.Node("n1", anInstance("p", structs.CSIKindNode, true))
	unhealthy := func() *structs.CSIPluginInstance {
		i := anInstance("p", structs.CSIKindNode, false)
		i.HealthDescription, i.DownWithNode = schema.NodeIsDown, true // the servers decide both
		return i
	}
	w.Update("n1", unhealthy())
	wantInstance(w, "after the node reported it unhealthy", false, false)
	w.Status(structs.NodeDown, "n1")
	w.Status(structs.NodeReady, "n1")
	wantInstance(w, "after the node came back", false, false)

	w.Update("n1", anInstance("p", structs.CSIKindNode, true))
	w.Status(structs.NodeDown, "n1")
	wantInstance(w, "after the node of a healthy instance went down", false, true)
	w.Update("n1", unhealthy())
	wantInstance(w, "after a report that it is unhealthy", false, false)
	w.Update("n1", anInstance("p", structs.CSIKindNode, true))
	wantInstance(w, "after a report that it is healthy", false, true)
	w.Status(structs.NodeReady, "n1")
	wantInstance(w, "after the node came back again", true, false)
}
