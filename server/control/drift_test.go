package control

import (
	"slices"
	"sync"
	"testing"
	"time"

	"berth/fsm"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// TestDrift_RepairsCallThePlugin has a plugin that has lost the attachment of one volume, and has attached
// another one by itself. The repairs are the calls of the loop of controllers, as for any attachment.
func TestDrift_RepairsCallThePlugin(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		i := csi.Instance(w.Store.Read(), "pl", structs.CSIKindController, "n1").Copy()
		i.ControllerInfo.SupportsListVolumes = true
		i.ControllerInfo.SupportsListVolumesAttachedNodes = true
		put(w, fsm.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
			NodeID: "n1", Upserts: []*structs.CSIPluginInstance{i},
		})
		put(w, fsm.PluginConfigSet, &storage.PluginSettingsRequest{
			ID: "pl", PluginDrift: storage.PluginDrift{Drift: storage.DriftRepair},
		})
		w.addVolume(aVolume("lost", structs.VolumeReady))
		w.addVolume(aVolume("stray", structs.VolumeReady))
		attached := map[string][]string{"ext-stray": {"ext-n1"}}
		var mu sync.Mutex
		w.setAnswer(func(c nodeCall) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			return storageWith(attached, c), nil
		})
		defer w.runLoop("controllers")()
		w.addClaim("lost", "a1", "n1")
		after(time.Second)
		delete(attached, "ext-lost")
		defer w.runLoop("drift")()

		after(3 * storage.DefaultDriftInterval)
		if len(attached["ext-stray"]) != 0 || w.attachment("stray", "n1") != nil {
			t.Errorf("the stray attachment is still there: %v", attached)
		}
		a := w.attachment("lost", "n1")
		if !slices.Equal(attached["ext-lost"], []string{"ext-n1"}) || a.State != structs.AttachmentAttached {
			t.Errorf("the lost attachment is not back: %v, %+v", attached, a)
		}
		if n, m := len(w.called(attachMethod)), len(w.called(detachMethod)); n != 2 || m != 1 {
			t.Errorf("%d attaches and %d detaches, want 2 and 1", n, m)
		}
		w.check()
	})
}

// storageWith answers calls of a plugin with storage that has the nodes of each volume.
func storageWith(attached map[string][]string, c nodeCall) any {
	switch req := c.req.(type) {
	case *nodecalls.ClientCSIAttachRequest:
		attached[req.ExternalID] = []string{req.ExternalNodeID}
		return &nodecalls.ClientCSIAttachResponse{}
	case *nodecalls.ClientCSIDetachRequest:
		delete(attached, req.ExternalID)
	case *nodecalls.ClientCSIListRequest:
		page := &nodecalls.ClientCSIListResponse{}
		for _, id := range []string{"ext-lost", "ext-stray"} {
			page.Volumes = append(page.Volumes, &structs.CSIVolumeExternalStub{
				ExternalID: id, PublishedNodesKnown: true, PublishedExternalNodeIDs: attached[id],
			})
		}
		return page
	}
	return nil
}
