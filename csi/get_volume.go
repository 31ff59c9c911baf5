package csi

import (
	"context"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/structs"
	"berth/structs/nodecalls"
)

// ControllerGetVolume returns a volume as the plugin of a client describes it. It calls only plugins that
// announce GET_VOLUME. The error is not-found if the plugin has no such volume (CSI spec,
// ControllerGetVolume).
func ControllerGetVolume(
	ctx context.Context, c *Client, req *nodecalls.ClientCSIGetVolumeRequest,
) (*structs.CSIVolumeExternalStub, error) {
	const rpc = "ControllerGetVolume"
	has, err := c.controllerHas(ctx)
	if err != nil {
		return nil, err
	}
	err = c.checkRequest(rpc,
		requirement{"GET_VOLUME", faultIf(!has.SupportsGet, "is not announced by the plugin")},
		requirement{"volume_id", idFault(req.ExternalID, structs.MaxCSIID)})
	if err != nil {
		return nil, err
	}

	msg := &spec.ControllerGetVolumeRequest{VolumeId: req.ExternalID}
	resp, err := c.controller.ControllerGetVolume(ctx, msg)
	if err != nil {
		return nil, err
	}
	stub, err := c.listedVolume(rpc, 0, &spec.ListVolumesResponse_Entry{
		Volume: resp.GetVolume(),
		Status: &spec.ListVolumesResponse_VolumeStatus{
			PublishedNodeIds: resp.GetStatus().GetPublishedNodeIds(),
		},
	}, has)
	if err != nil {
		return nil, err
	}
	other := stub.ExternalID != req.ExternalID
	return stub, c.checkResponse(rpc, requirement{"volume_id", faultIf(other, "is of another volume")})
}
