package volumes

import (
	"context"
	"strings"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/kit"
)

// abandonDetach detaches volume x from node n. Its caller goes away while the plugin works on the call. It
// returns the caller's error.
func abandonDetach(t *testing.T, r *served) error {
	t.Helper()
	ctx, gone := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := rpc.Call(ctx, r, nodecalls.ClientCSIControllerDetach,
			&nodecalls.ClientCSIDetachRequest{PluginID: "ebs", ExternalID: "x", ExternalNodeID: "n"})
		ended <- err
	}()
	kit.Must(t, r.plugin.Await(t.Context(), "ControllerUnpublishVolume", 1))
	gone()
	return <-ended
}

func TestDuty_C6_AnAttachDoesNotOvertakeAnAbandonedDetach(t *testing.T) {
	r := newServed(t)
	r.plugin.AddVolume("x", 1)
	gate := make(chan struct{})
	r.plugin.Script("ControllerUnpublishVolume", func(context.Context, any) (any, error) {
		<-gate
		return &spec.ControllerUnpublishVolumeResponse{}, nil
	})
	if err := abandonDetach(t, r); !structs.IsKind(err, structs.KindTimeout) {
		t.Errorf("got %v", err)
	}
	attach := &nodecalls.ClientCSIAttachRequest{
		PluginID:       "ebs",
		ExternalID:     "x",
		ExternalNodeID: "n",
		AccessMode:     writer[0].AccessMode,
		AttachmentMode: writer[0].AttachmentMode,
	}
	impatient, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	_, err := rpc.Call(impatient, r, nodecalls.ClientCSIControllerAttach, attach)
	if structs.KindOf(err).Final() || r.plugin.Count("ControllerPublishVolume") != 0 {
		t.Errorf("attached while it is detached: %v", err)
	}
	close(gate)
	_, err = call(r, nodecalls.ClientCSIControllerAttach, attach)
	kit.Must(t, err)
}

// A later agent rejects an attach that would overtake the detach of the former one. Unavailable would make
// the servers attach through another controller, which does not know of the detach.
func TestDuty_C6_ARejectionToOvertakeLeavesTheOutcomeUnknown(t *testing.T) {
	r := newServed(t)
	r.plugin.AddVolume("x", 1)
	release := r.plugin.Hang("ControllerUnpublishVolume")
	defer release()
	_ = abandonDetach(t, r)
	m, later := startManager(t, r.cfg)
	_, err := m.Client(t.Context(), structs.CSIKindController, "ebs")
	kit.Must(t, err)
	_, err = rpc.Call(t.Context(), later, nodecalls.ClientCSIControllerAttach, &nodecalls.ClientCSIAttachRequest{
		PluginID:       "ebs",
		ExternalID:     "x",
		ExternalNodeID: "n",
		AccessMode:     writer[0].AccessMode,
		AttachmentMode: writer[0].AttachmentMode,
	})
	if !structs.IsKind(err, structs.KindTimeout) ||
		!strings.Contains(err.Error(), "may still be carried out") ||
		r.plugin.Count("ControllerPublishVolume") != 0 {
		t.Errorf("got %v of kind %s", err, structs.KindOf(err))
	}
}

func TestDuty_C15_ACallThatNothingListenedForWasNotMade(t *testing.T) {
	r := newServed(t)
	r.plugin.Stop()
	// The client may learn of the end of its connection from the first call: that call may have arrived.
	err := structs.Errorf(structs.KindTimeout, "no call yet")
	for range 100 {
		if !structs.IsKind(err, structs.KindTimeout) {
			break
		}
		_, err = call(r, nodecalls.ClientCSIControllerDelete, &nodecalls.ClientCSIDeleteRequest{
			PluginID:   "ebs",
			ExternalID: "x",
		})
	}
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("got %v of kind %s: the next controller could be asked", err, structs.KindOf(err))
	}
	kit.Must(t, r.plugin.Restart())
	r.plugin.Hang("DeleteVolume")
	ended := make(chan error, 1)
	go func() {
		for {
			_, err := call(r, nodecalls.ClientCSIControllerDelete, &nodecalls.ClientCSIDeleteRequest{
				PluginID:   "ebs",
				ExternalID: "x",
			})
			if !structs.IsKind(err, structs.KindUnavailable) {
				ended <- err
				return
			}
		}
	}()
	kit.Must(t, r.plugin.Await(t.Context(), "DeleteVolume", 1))
	r.plugin.Stop()
	if err := <-ended; !structs.IsKind(err, structs.KindTimeout) {
		t.Errorf("got %v of kind %s: the plugin had the call", err, structs.KindOf(err))
	}
}
