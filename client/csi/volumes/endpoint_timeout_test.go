package volumes

import (
	"testing"
	"time"

	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/kit"
)

// requestWith calls an endpoint with a request that has a timeout.
func requestWith[Req any, Resp any, P interface {
	*Req
	SetTimeout(time.Duration)
}](r *served, m structs.Method[Req, Resp], req P) func(time.Duration) error {
	return func(timeout time.Duration) error {
		req.SetTimeout(timeout)
		_, err := call(r, m, (*Req)(req))
		return err
	}
}

// TestEndpoints_GiveThePluginTheTimeoutOfTheRequest: without one, the call has the time of the node.
func TestEndpoints_GiveThePluginTheTimeoutOfTheRequest(t *testing.T) {
	r := newServed(t)
	r.plugin.AddVolume("x", 1)
	bring := func() {
		_, err := r.m.Volumes().Up(t.Context(), &Use{
			VolumeKey:      VolumeKey{Namespace: "default", ID: "v"},
			AllocID:        "a",
			PluginID:       "ebs",
			ExternalID:     "x",
			AccessMode:     structs.CSISingleNodeWriter,
			AttachmentMode: structs.CSIFileSystem,
		}, nil)
		kit.Must(t, err)
	}
	capability := writer[0]
	for _, c := range []struct {
		rpc string
		do  func(time.Duration) error
	}{
		{"CreateVolume", requestWith(r, nodecalls.ClientCSIControllerCreate,
			&nodecalls.ClientCSICreateRequest{PluginID: "ebs", Name: "n", Capabilities: writer})},
		{"ValidateVolumeCapabilities", requestWith(r, nodecalls.ClientCSIControllerValidate,
			&nodecalls.ClientCSIValidateRequest{PluginID: "ebs", ExternalID: "x", Capabilities: writer})},
		{"ControllerPublishVolume", requestWith(r, nodecalls.ClientCSIControllerAttach,
			&nodecalls.ClientCSIAttachRequest{PluginID: "ebs", ExternalID: "x", ExternalNodeID: "n1",
				AccessMode: capability.AccessMode, AttachmentMode: capability.AttachmentMode})},
		{"ControllerExpandVolume", requestWith(r, nodecalls.ClientCSIControllerExpand,
			&nodecalls.ClientCSIExpandRequest{PluginID: "ebs", ExternalID: "x", Capability: capability,
				Capacity: nodecalls.CSICapacityRange{RequiredBytes: 4}})},
		{"ListVolumes", requestWith(r, nodecalls.ClientCSIControllerList,
			&nodecalls.ClientCSIListRequest{PluginID: "ebs"})},
		{"NodeExpandVolume", requestWith(r, nodecalls.ClientCSINodeExpand,
			&nodecalls.ClientCSINodeExpandRequest{VolumeID: "v", AllocID: "a", PluginID: "ebs", ExternalID: "x",
				RequiredBytes: 4, AccessMode: capability.AccessMode, AttachmentMode: capability.AttachmentMode})},
		{"NodeUnpublishVolume", requestWith(r, nodecalls.ClientCSINodeDetach,
			&nodecalls.ClientCSINodeDetachRequest{VolumeID: "v", AllocID: "a"})},
		{"ControllerUnpublishVolume", requestWith(r, nodecalls.ClientCSIControllerDetach,
			&nodecalls.ClientCSIDetachRequest{PluginID: "ebs", ExternalID: "x", ExternalNodeID: "n1"})},
		{"DeleteVolume", requestWith(r, nodecalls.ClientCSIControllerDelete,
			&nodecalls.ClientCSIDeleteRequest{PluginID: "ebs", ExternalID: "x"})},
	} {
		for _, timeout := range []time.Duration{0, time.Minute} {
			bring()
			r.plugin.Forget()
			err := c.do(timeout)
			if err != nil {
				t.Errorf("%s: %v", c.rpc, err)
			}
			calls := r.plugin.Calls(c.rpc)
			if len(calls) != 1 {
				t.Fatalf("%s was called %d times", c.rpc, len(calls))
			}
			if left := calls[0].Left; (left <= time.Minute) != (timeout == time.Minute) {
				t.Errorf("%s had %s with a timeout of %s", c.rpc, left, timeout)
			}
			r.plugin.AddVolume("x", 1)
		}
	}
}
