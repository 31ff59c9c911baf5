package csi

import (
	"context"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// mutable requires MODIFY_VOLUME for mutable parameters (CSI spec, CreateVolumeRequest.mutable_parameters).
func mutable(has *structs.CSIControllerInfo, parameters map[string]string) requirement {
	return requirement{
		"mutable_parameters",
		faultIf(len(parameters) > 0 && !has.SupportsModify, "are given, and the plugin "+storage.NoModifyVolume),
	}
}

// ControllerModifyVolume makes a plugin change the given parameters of a volume, and keep the others. It may
// be repeated with the same arguments. After an error of kind invalid no parameter has changed.
func ControllerModifyVolume(ctx context.Context, c *Client, req *nodecalls.ClientCSIModifyRequest) error {
	has, err := c.controllerHas(ctx)
	if err != nil {
		return err
	}

	none := len(req.MutableParameters) == 0
	err = c.checkRequest("ControllerModifyVolume",
		notEmpty("volume_id", req.ExternalID),
		requirement{"mutable_parameters", faultIf(none, "has no key to change")},
		mutable(has, req.MutableParameters),
		smallMap("mutable_parameters", req.MutableParameters))
	if err != nil {
		return err
	}

	_, err = c.controller.ControllerModifyVolume(ctx, &spec.ControllerModifyVolumeRequest{
		VolumeId:          req.ExternalID,
		Secrets:           req.Secrets,
		MutableParameters: req.MutableParameters,
	})
	return err
}
