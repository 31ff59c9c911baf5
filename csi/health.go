package csi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

const notAnnounced = "is not announced by the plugin"

// The last values that the specification has. The values become worse.
const (
	worstOfVolume  = int32(spec.VolumeHealthErrorType_DATA_LOSS)
	worstOfStorage = int32(spec.StorageHealthErrorType_STORAGE_UNREACHABLE)
)

// ControllerListVolumeHealth returns a page of the volumes that the plugin of a client reports as ill. It
// calls only plugins that announce LIST_VOLUME_HEALTH. Pages are not a consistent view: a volume may be
// missing from one pass, or come twice (CSI spec, ControllerListVolumeHealth).
func ControllerListVolumeHealth(
	ctx context.Context, c *Client, req *nodecalls.ClientCSIListHealthRequest,
) (*nodecalls.ClientCSIListHealthResponse, error) {
	const rpc = "ControllerListVolumeHealth"
	has, err := c.controllerHas(ctx)
	if err != nil {
		return nil, err
	}
	err = c.checkRequest(rpc,
		requirement{"LIST_VOLUME_HEALTH", faultIf(!has.SupportsListHealth, notAnnounced)},
		notNegative("max_entries", int64(req.MaxEntries)))
	if err != nil {
		return nil, err
	}

	msg := &spec.ControllerListVolumeHealthRequest{
		MaxEntries:    req.MaxEntries,
		StartingToken: req.StartingToken,
	}
	// A plugin may ignore max_entries, as with ListVolumes.
	resp, err := c.controller.ControllerListVolumeHealth(ctx, msg, grpc.MaxCallRecvMsgSize(structs.MaxCSIList))
	if err != nil {
		return nil, err
	}

	page := &nodecalls.ClientCSIListHealthResponse{NextToken: resp.GetNextToken()}
	err = c.checkNextToken(rpc, req.StartingToken, page.NextToken)
	if err != nil {
		return nil, err
	}
	for i, e := range resp.GetEntries() {
		at := fmt.Sprintf("entries[%d].", i)
		err := c.checkResponse(rpc, requirement{at + "volume_id", idFault(e.GetVolumeId(), structs.MaxCSIID)})
		if err != nil {
			return nil, err
		}
		page.Volumes = append(page.Volumes, &nodecalls.CSIListedHealth{
			ExternalID: e.GetVolumeId(),
			Condition:  conditionOf(e, nil),
		})
	}
	return page, nil
}

// ControllerGetVolumeHealth returns the health of a volume as the controller of a client sees it. It calls
// only plugins that announce GET_VOLUME_HEALTH. The error is not-found if the plugin has no such volume (CSI
// spec, ControllerGetVolumeHealth).
func ControllerGetVolumeHealth(
	ctx context.Context, c *Client, req *nodecalls.ClientCSIGetHealthRequest,
) (*storage.VolumeCondition, error) {
	const rpc = "ControllerGetVolumeHealth"
	has, err := c.controllerHas(ctx)
	if err != nil {
		return nil, err
	}
	err = c.checkRequest(rpc,
		requirement{"GET_VOLUME_HEALTH", faultIf(!has.SupportsCondition, notAnnounced)},
		requirement{"volume_id", idFault(req.ExternalID, structs.MaxCSIID)})
	if err != nil {
		return nil, err
	}

	resp, err := c.controller.ControllerGetVolumeHealth(ctx, &spec.ControllerGetVolumeHealthRequest{
		VolumeId: req.ExternalID,
		Secrets:  req.Secrets,
	})
	if err != nil {
		return nil, err
	}
	return answerOf{c, rpc, req.ExternalID}.health(resp.GetVolumeHealth(), req.Secrets)
}

// HealthRequest names a volume that a node has staged or published, or has tried to. The paths are in the
// plugin's own scope. Each is "" if nothing was tried there.
type HealthRequest struct {
	VolumeID    string
	PublishPath string
	StagingPath string
}

// NodeGetVolumeHealth returns the health of a volume as this node sees it. It calls only plugins that
// announce GET_VOLUME_HEALTH. The error is not-found if the plugin has no such volume on the node (CSI spec,
// NodeGetVolumeHealth).
func NodeGetVolumeHealth(
	ctx context.Context, c *Client, req HealthRequest,
) (*storage.VolumeCondition, error) {
	const rpc = "NodeGetVolumeHealth"
	has, err := c.nodeHas(ctx)
	if err != nil {
		return nil, err
	}
	err = c.checkRequest(rpc,
		requirement{"GET_VOLUME_HEALTH", faultIf(!has.node.SupportsCondition, notAnnounced)},
		notEmpty("volume_id", req.VolumeID),
		optionalPath("volume_publish_path", req.PublishPath),
		optionalPath("staging_target_path", req.StagingPath))
	if err != nil {
		return nil, err
	}

	resp, err := c.node.NodeGetVolumeHealth(ctx, &spec.NodeGetVolumeHealthRequest{
		VolumeId:          req.VolumeID,
		VolumePublishPath: req.PublishPath,
		StagingTargetPath: req.StagingPath,
	})
	if err != nil {
		return nil, err
	}
	return answerOf{c, rpc, req.VolumeID}.health(resp.GetVolumeHealth(), nil)
}

// NodeGetStorageHealth returns the adverse conditions of the storage as this node sees it, nil for none. It
// calls only plugins that announce GET_STORAGE_HEALTH (CSI spec, NodeGetStorageHealth). The client keeps the
// answer for NodeInfo.
func NodeGetStorageHealth(ctx context.Context, c *Client) (*structs.CSIStorageHealth, error) {
	const rpc = "NodeGetStorageHealth"
	has, err := c.nodeHas(ctx)
	if err != nil {
		return nil, err
	}
	err = c.checkRequest(rpc,
		requirement{"GET_STORAGE_HEALTH", faultIf(!has.node.SupportsStorageHealth, notAnnounced)})
	if err != nil {
		return nil, err
	}

	resp, err := c.node.NodeGetStorageHealth(ctx, &spec.NodeGetStorageHealthRequest{})
	if err != nil {
		return nil, err
	}
	list := make([]healthEntry, len(resp.GetBackendHealth()))
	s := &structs.CSIStorageHealth{}
	for i, b := range resp.GetBackendHealth() {
		list[i] = healthEntry{
			status: b.GetStatus().String(),
			rank:   rankOf(int32(b.GetStatus()), worstOfStorage),
			said:   b,
		}
		s.Abnormal = s.Abnormal || list[i].rank > 0
	}
	s.Conditions = worstFirst(list, nil)
	if len(list) == 0 {
		s = nil
	}
	c.updateLearned(func(k *learned) { k.storage = s })
	return s, nil
}

// answerOf names the call of an answer.
type answerOf struct {
	c      *Client
	rpc    string
	volume string
}

// health reads the health of the volume that a call was about.
func (a answerOf) health(
	h *spec.VolumeHealth, secrets map[string]string,
) (*storage.VolumeCondition, error) {
	other := h.GetVolumeId() != a.volume
	err := a.c.checkResponse(a.rpc,
		requirement{"volume_health", faultIf(h == nil, "is missing")},
		requirement{"volume_health.volume_id", faultIf(other, "is of another volume")})
	if err != nil {
		return nil, err
	}
	return conditionOf(h, secrets), nil
}

// conditionOf returns what a plugin says of a volume. Only values that the specification knows make it
// abnormal: automation ignores the others (CSI spec, VolumeHealth).
func conditionOf(h *spec.VolumeHealth, secrets map[string]string) *storage.VolumeCondition {
	list := make([]healthEntry, len(h.GetHealthStatuses()))
	c := &storage.VolumeCondition{}
	for i, s := range h.GetHealthStatuses() {
		list[i] = healthEntry{
			status: s.GetStatus().String(),
			rank:   rankOf(int32(s.GetStatus()), worstOfVolume),
			said:   s,
		}
		c.Abnormal = c.Abnormal || list[i].rank > 0
	}

	c.Statuses = worstFirst(list, secrets)
	texts := make([]string, len(c.Statuses))
	for i, s := range c.Statuses {
		texts[i] = s.Text()
	}
	c.Message = structs.Cut(strings.Join(texts, "; "), structs.MaxText)
	return c
}

// healthEntry is a condition as a plugin sends it.
type healthEntry struct {
	status string
	rank   int // of a known value, the higher the worse; 0 for the others
	said   interface {
		GetReason() string
		GetMessage() string
	}
}

// rankOf returns the rank of a value of an enumeration whose values become worse up to the last known one.
func rankOf(value, last int32) int {
	if value < 0 || value > last {
		return 0
	}
	return int(value)
}

// worstFirst returns the first MaxCSIHealth conditions. Those that are not known come last, so that they
// displace no known one.
func worstFirst(list []healthEntry, secrets map[string]string) (all []*structs.CSIHealth) {
	slices.SortStableFunc(list, func(a, b healthEntry) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.status, b.status),
			cmp.Compare(a.said.GetReason(), b.said.GetReason()))
	})
	for _, e := range list[:min(len(list), structs.MaxCSIHealth)] {
		all = append(all, &structs.CSIHealth{
			Status:  e.status,
			Reason:  shownText(e.said.GetReason(), structs.MaxCSIString, secrets),
			Message: shownText(e.said.GetMessage(), structs.MaxDescription, secrets),
		})
	}
	return all
}

// shownText makes a text of a plugin fit to be shown.
func shownText(text string, most int, secrets map[string]string) string {
	return structs.Printable(structs.Cut(sanitize(text, secrets), most))
}
