package state

import (
	"bytes"
	"testing"

	"berth/structs"
)

// wantInstance checks an instance of plugin p on n1.
func wantInstance(w *world, when string, healthy, down bool) {
	w.t.Helper()
	i := Instance(w.s.Read(), "p", structs.CSIKindNode, "n1")
	if i.Healthy != healthy || i.DownWithNode != down {
		w.t.Errorf("%s: %+v", when, i)
	}
}

func TestDownWithNode_IsNoMatterOfWords(t *testing.T) {
	w := newWorld(t)
	w.node("n1", half("p", structs.CSIKindNode, true))
	sick := func() *structs.CSIPluginInstance {
		i := half("p", structs.CSIKindNode, false)
		i.HealthDescription, i.DownWithNode = NodeIsDown, true // the servers decide both
		return i
	}
	w.update("n1", sick())
	wantInstance(w, "the node reports it so", false, false)
	w.status(structs.NodeDown, "n1")
	w.status(structs.NodeReady, "n1")
	wantInstance(w, "the node is back", false, false)

	w.update("n1", half("p", structs.CSIKindNode, true))
	w.status(structs.NodeDown, "n1")
	wantInstance(w, "it was healthy", false, true)
	w.update("n1", sick())
	wantInstance(w, "it was reported sick since", false, false)
	w.update("n1", half("p", structs.CSIKindNode, true))
	wantInstance(w, "it was reported healthy since", false, true)
	w.status(structs.NodeReady, "n1")
	wantInstance(w, "the node is back once more", true, false)
}

func TestDownWithNode_IsCompletedInOlderSnapshots(t *testing.T) {
	w := newWorld(t)
	w.node("n1", half("p", structs.CSIKindNode, true))
	w.status(structs.NodeDown, "n1")
	w.index++
	if err := w.s.Write(w.index, func(tx *WriteTx) error {
		i := *Instance(tx.ReadTx, "p", structs.CSIKindNode, "n1")
		i.DownWithNode = false
		instances.Put(tx, &i)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var saved bytes.Buffer
	if err := w.s.Save(&saved); err != nil {
		t.Fatal(err)
	}
	if err := w.s.Load(&saved); err != nil {
		t.Fatal(err)
	}
	wantInstance(w, "loaded", false, true)
	w.status(structs.NodeReady, "n1")
	wantInstance(w, "the node is back", true, false)
	w.check()
}
