package volumes

import (
	"testing"

	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/kit"
)

// A list may end the controller. The servers would ask the next one after unavailable.
func TestList_OfAControllerThatEndsIsATimeout(t *testing.T) {
	r := newServed(t)
	r.plugin.Hang("ListVolumes")
	listed := make(chan error, 1)
	go func() {
		_, err := call(r, nodecalls.ClientCSIControllerList, &nodecalls.ClientCSIListRequest{PluginID: "ebs"})
		listed <- err
	}()
	kit.Must(t, r.plugin.Await(t.Context(), "ListVolumes", 1))
	r.plugin.Stop()
	if err := <-listed; !structs.IsKind(err, structs.KindTimeout) {
		t.Errorf("got %v", err)
	}
}
