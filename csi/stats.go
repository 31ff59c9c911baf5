package csi

import (
	"context"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/encoding/protowire"

	"berth/structs"
	"berth/structs/storage"
)

// StatsRequest names a mounted volume. The paths are in the plugin's own scope, StagingPath is "" for plugins
// that do not stage.
type StatsRequest struct {
	VolumeID    string
	VolumePath  string
	StagingPath string
}

// NodeGetVolumeStats returns how full a volume is: Bytes, Inodes and Condition of a usage, as far as the
// plugin reports them.
func (c *Client) NodeGetVolumeStats(ctx context.Context, req StatsRequest) (*storage.VolumeUsage, error) {
	const rpc = "NodeGetVolumeStats"
	err := c.checkRequest(rpc, notEmpty("volume_id", req.VolumeID),
		absolutePath("volume_path", req.VolumePath), optionalPath("staging_target_path", req.StagingPath))
	if err != nil {
		return nil, err
	}

	resp, err := c.node.NodeGetVolumeStats(ctx, &spec.NodeGetVolumeStatsRequest{
		VolumeId:          req.VolumeID,
		VolumePath:        req.VolumePath,
		StagingTargetPath: req.StagingPath,
	})
	if err != nil {
		return nil, err
	}

	u := &storage.VolumeUsage{Source: storage.UsageByPlugin}
	for _, part := range resp.GetUsage() {
		err := c.checkResponse(rpc, notNegative("usage.available", part.GetAvailable()),
			notNegative("usage.total", part.GetTotal()), notNegative("usage.used", part.GetUsed()))
		if err != nil {
			return nil, err
		}

		amount := &storage.UsageAmount{
			Total:     part.GetTotal(),
			Used:      part.GetUsed(),
			Available: part.GetAvailable(),
		}
		switch part.GetUnit() {
		case spec.VolumeUsage_BYTES:
			u.Bytes = amount
		case spec.VolumeUsage_INODES:
			u.Inodes = amount
		}
	}
	u.Condition = formerCondition(resp.ProtoReflect().GetUnknown())
	return u, nil
}

// The fields of VolumeCondition, which the answer had until the calls for health came. Many plugins still
// send it.
const (
	conditionField = 2
	abnormalField  = 1
	messageField   = 2
)

// formerCondition finds the condition in the fields of an answer that the present spec does not have. It
// returns nil for none.
func formerCondition(unknown []byte) *storage.VolumeCondition {
	var c *storage.VolumeCondition
	eachField(unknown, func(n protowire.Number, _ uint64, body []byte) {
		if n != conditionField || body == nil {
			return
		}
		c = &storage.VolumeCondition{}
		eachField(body, func(n protowire.Number, number uint64, text []byte) {
			switch {
			case n == abnormalField && text == nil:
				c.Abnormal = number != 0
			case n == messageField && text != nil:
				message := structs.Cut(string(text), structs.MaxDescription)
				c.Message = structs.Printable(message)
			}
		})
	})
	return c
}

// eachField yields the numbers and the bodies of a message, up to the first field that is malformed. body is
// nil for a number.
func eachField(b []byte, yield func(n protowire.Number, number uint64, body []byte)) {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return
		}
		b = b[size:]

		size = protowire.ConsumeFieldValue(n, kind, b)
		if size < 0 {
			return
		}
		switch kind {
		case protowire.VarintType:
			number, _ := protowire.ConsumeVarint(b)
			yield(n, number, nil)
		case protowire.BytesType:
			body, _ := protowire.ConsumeBytes(b)
			yield(n, 0, append([]byte{}, body...)) // not nil
		}
		b = b[size:]
	}
}
