package csi_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/csi"
	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/nodecalls"
)

type entry = spec.VolumeHealth_VolumeHealthEntry

// healthCalls are the four calls, each with its capability, as one function each that returns the conditions.
var healthCalls = map[string]struct {
	capability string
	call       func(ctx context.Context, c *csi.Client) ([]*structs.CSIHealth, error)
}{
	"ControllerListVolumeHealth": {"LIST_VOLUME_HEALTH",
		func(ctx context.Context, c *csi.Client) ([]*structs.CSIHealth, error) {
			page, err := csi.ControllerListVolumeHealth(ctx, c, &nodecalls.ClientCSIListHealthRequest{})
			if err != nil || len(page.Volumes) == 0 {
				return nil, err
			}
			return page.Volumes[0].Condition.Statuses, nil
		}},
	"ControllerGetVolumeHealth": {"GET_VOLUME_HEALTH",
		func(ctx context.Context, c *csi.Client) ([]*structs.CSIHealth, error) {
			got, err := csi.ControllerGetVolumeHealth(ctx, c, &nodecalls.ClientCSIGetHealthRequest{ExternalID: "v"})
			if err != nil {
				return nil, err
			}
			return got.Statuses, nil
		}},
	"NodeGetVolumeHealth": {"GET_VOLUME_HEALTH",
		func(ctx context.Context, c *csi.Client) ([]*structs.CSIHealth, error) {
			got, err := csi.NodeGetVolumeHealth(ctx, c, csi.HealthRequest{VolumeID: "v"})
			if err != nil {
				return nil, err
			}
			return got.Statuses, nil
		}},
	"NodeGetStorageHealth": {"GET_STORAGE_HEALTH",
		func(ctx context.Context, c *csi.Client) ([]*structs.CSIHealth, error) {
			got, err := csi.NodeGetStorageHealth(ctx, c)
			if err != nil {
				return nil, err
			}
			return got.Conditions, nil
		}},
}

// reporting is a plugin that announces capabilities at both halves, and has the volume v.
func reporting(t *testing.T, capabilities ...string) (*csitest.Plugin, *csi.Client) {
	t.Helper()
	cfg := both
	cfg.ControllerCaps = append([]string{}, capabilities...)
	cfg.NodeCaps = append([]string{}, capabilities...)
	p, c := startPlugin(t, cfg)
	p.AddVolume("v", 1)
	return p, c
}

func TestHealth_IsReadOnlyWhereAnnounced(t *testing.T) {
	for rpc, h := range healthCalls {
		t.Run(rpc, func(t *testing.T) {
			p, c := reporting(t, h.capability)
			p.SetHealth("v", &entry{Status: spec.VolumeHealthErrorType_DEGRADED, Reason: "Slow", Message: "m"})
			p.SetStorageHealth(&spec.NodeGetStorageHealthResponse_StorageBackendHealth{
				Status: spec.StorageHealthErrorType_STORAGE_DEGRADED, Reason: "Slow", Message: "m",
			})
			got, err := h.call(t.Context(), c)
			if err != nil || len(got) != 1 || !strings.HasSuffix(got[0].Text(), "DEGRADED Slow: m") {
				t.Errorf("got %+v, %v", got, err)
			}

			p, c = reporting(t, "GET_CAPACITY", "GET_VOLUME_STATS")
			_, err = h.call(t.Context(), c)
			if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), h.capability) ||
				len(p.Calls(rpc)) != 0 {
				t.Errorf("error %v, %d calls", err, len(p.Calls(rpc)))
			}
		})
	}
}

// TestDuty_E2_ControllerRPCsOnlyWithControllerService has a plugin with the capabilities of a controller, but
// without the service.
func TestDuty_E2_ControllerRPCsOnlyWithControllerService(t *testing.T) {
	cfg := both
	cfg.PluginCaps = []string{}
	cfg.ControllerCaps = []string{"LIST_VOLUME_HEALTH", "GET_VOLUME_HEALTH", "GET_VOLUME"}
	p, c := startPlugin(t, cfg)
	_, err := c.PluginCapabilities(t.Context()) // as each fingerprint does
	if err != nil {
		t.Fatal(err)
	}
	for _, rpc := range []string{"ControllerListVolumeHealth", "ControllerGetVolumeHealth"} {
		_, err := healthCalls[rpc].call(t.Context(), c)
		if err == nil || len(p.Calls(rpc)) != 0 {
			t.Errorf("%s: error %v, %d calls", rpc, err, len(p.Calls(rpc)))
		}
	}
	_, err = csi.ControllerGetVolume(t.Context(), c, &nodecalls.ClientCSIGetVolumeRequest{ExternalID: "v"})
	if err == nil || len(p.Calls("ControllerGetVolume")) != 0 {
		t.Errorf("ControllerGetVolume: error %v", err)
	}
	if n := len(p.Calls("ControllerGetCapabilities")); n != 0 {
		t.Errorf("%d calls of ControllerGetCapabilities", n)
	}
}

// TestDuty_B14_UnknownValuesAreOnlyShown has values that the specification does not have, more than are kept.
func TestDuty_B14_UnknownValuesAreOnlyShown(t *testing.T) {
	p, c := reporting(t, "GET_VOLUME_HEALTH")
	unknown := []*entry{{Status: 0, Reason: "None"}, {Status: 17, Reason: "New"}, {Status: -1, Reason: "Odd"}}
	p.SetHealth("v", unknown...)
	req := csi.HealthRequest{VolumeID: "v"}
	got, err := csi.NodeGetVolumeHealth(t.Context(), c, req)
	if err != nil || got.Abnormal || !strings.Contains(got.Message, "17 New") || len(got.Statuses) != 3 {
		t.Errorf("only unknown values: %+v, %v", got, err)
	}

	for range structs.MaxCSIHealth {
		unknown = append(unknown, &entry{Status: 17, Reason: "New"})
	}
	p.SetHealth("v", append(unknown,
		&entry{Status: spec.VolumeHealthErrorType_DEGRADED, Reason: "Slow"},
		&entry{Status: spec.VolumeHealthErrorType_DATA_LOSS, Reason: "Lost"})...)
	got, err = csi.NodeGetVolumeHealth(t.Context(), c, req)
	if err != nil || !got.Abnormal || len(got.Statuses) != structs.MaxCSIHealth ||
		!strings.HasPrefix(got.Message, "DATA_LOSS Lost; DEGRADED Slow; ") {
		t.Errorf("known values among many: %+v, %v", got, err)
	}
}

// TestDuty_H11_NoStatusIsHealthyAndAnErrorIsNot: what is missing, or about another volume, says nothing.
func TestDuty_H11_NoStatusIsHealthyAndAnErrorIsNot(t *testing.T) {
	p, c := reporting(t, "GET_VOLUME_HEALTH")
	req := &nodecalls.ClientCSIGetHealthRequest{ExternalID: "v", Secrets: structs.Secrets{"key": "secret"}}
	got, err := csi.ControllerGetVolumeHealth(t.Context(), c, req)
	if err != nil || got.Abnormal || got.Message != "" || got.Statuses != nil {
		t.Errorf("without a status: %+v, %v", got, err)
	}
	if sent := p.Calls("ControllerGetVolumeHealth")[0]; sent.Get("secrets.key") != "secret" {
		t.Errorf("sent %v", sent.Request)
	}

	for _, answer := range []*spec.VolumeHealth{nil, {VolumeId: "w"}, {}} {
		p.Answer("ControllerGetVolumeHealth", &spec.ControllerGetVolumeHealthResponse{VolumeHealth: answer})
		got, err = csi.ControllerGetVolumeHealth(t.Context(), c, req)
		if err == nil || got != nil || csi.Final(err) {
			t.Errorf("%v: got %+v, %v", answer, got, err)
		}
	}
	p.Fail("ControllerGetVolumeHealth", status.Error(codes.NotFound, "gone"))
	_, err = csi.ControllerGetVolumeHealth(t.Context(), c, req)
	if structs.CodeOf(err) != "NotFound" {
		t.Errorf("error %v", err)
	}
}

func TestHealth_BoundsAndCleansTheTexts(t *testing.T) {
	p, c := reporting(t, "GET_VOLUME_HEALTH")
	long := strings.Repeat("x", 2000)
	p.SetHealth("v", &entry{Status: 1, Reason: long + "a", Message: "\x1b[2J of secret" + long})
	got, err := csi.ControllerGetVolumeHealth(t.Context(), c, &nodecalls.ClientCSIGetHealthRequest{
		ExternalID: "v", Secrets: structs.Secrets{"key": "secret"},
	})
	if err != nil || len(got.Statuses[0].Reason) > structs.MaxCSIString+3 ||
		len(got.Statuses[0].Message) > structs.MaxDescription+3 ||
		strings.ContainsAny(got.Message, "\x1b") || strings.Contains(got.Message, "secret") {
		t.Errorf("got %+v, %v", got.Statuses[0], err)
	}
}

func TestControllerListVolumeHealth_ChecksItsPages(t *testing.T) {
	p, c := reporting(t, "LIST_VOLUME_HEALTH")
	list := func(token string) (*nodecalls.ClientCSIListHealthResponse, error) {
		return csi.ControllerListVolumeHealth(t.Context(), c,
			&nodecalls.ClientCSIListHealthRequest{MaxEntries: 7, StartingToken: token})
	}
	page := &spec.ControllerListVolumeHealthResponse{
		Entries: []*spec.VolumeHealth{{VolumeId: "a"}, {VolumeId: "a"}}, NextToken: "2",
	}
	p.Answer("ControllerListVolumeHealth", page)
	got, err := list("1")
	if err != nil || len(got.Volumes) != 2 || got.NextToken != "2" {
		t.Errorf("got %+v, %v", got, err)
	}
	sent := p.Calls("ControllerListVolumeHealth")[0]
	if sent.Get("max_entries") != "7" || sent.Get("starting_token") != "1" {
		t.Errorf("sent %v", sent.Request)
	}
	_, err = list("2")
	if err == nil || !strings.Contains(err.Error(), "is the starting token again") {
		t.Errorf("a token that comes again: %v", err)
	}
	page.Entries[1] = &spec.VolumeHealth{}
	_, err = list("1")
	if err == nil || !strings.Contains(err.Error(), "entries[1].volume_id") {
		t.Errorf("an entry without a volume: %v", err)
	}
	negative := &nodecalls.ClientCSIListHealthRequest{MaxEntries: -1}
	_, err = csi.ControllerListVolumeHealth(t.Context(), c, negative)
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("a negative number: %v", err)
	}
}

// TestDuty_K37_AnAttemptIsEnoughForTheHealth: both paths are optional, and those that are given are absolute.
func TestDuty_K37_AnAttemptIsEnoughForTheHealth(t *testing.T) {
	p, c := reporting(t, "GET_VOLUME_HEALTH")
	for _, req := range []csi.HealthRequest{
		{VolumeID: "v"}, {VolumeID: "v", StagingPath: "/stage"}, {VolumeID: "v", PublishPath: "/target"},
	} {
		_, err := csi.NodeGetVolumeHealth(t.Context(), c, req)
		calls := p.Calls("NodeGetVolumeHealth")
		sent := calls[len(calls)-1]
		if err != nil || sent.Get("volume_publish_path") != req.PublishPath ||
			sent.Get("staging_target_path") != req.StagingPath {
			t.Errorf("%+v: sent %v, %v", req, sent.Request, err)
		}
	}
	for _, req := range []csi.HealthRequest{
		{},
		{VolumeID: "v", StagingPath: "stage"}, {VolumeID: "v", PublishPath: "target"},
	} {
		_, err := csi.NodeGetVolumeHealth(t.Context(), c, req)
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%+v: error %v", req, err)
		}
	}
}

// TestDuty_K38_TheWorstConditionOfTheStorageComesFirst: no condition is no fault.
func TestDuty_K38_TheWorstConditionOfTheStorageComesFirst(t *testing.T) {
	p, c := reporting(t, "GET_STORAGE_HEALTH")
	got, err := csi.NodeGetStorageHealth(t.Context(), c)
	if err != nil || got != nil {
		t.Errorf("without a condition: %+v, %v", got, err)
	}
	p.SetStorageHealth(
		&spec.NodeGetStorageHealthResponse_StorageBackendHealth{Status: 17, Reason: "New"},
		&spec.NodeGetStorageHealthResponse_StorageBackendHealth{Status: 1, Reason: "Slow"},
		&spec.NodeGetStorageHealthResponse_StorageBackendHealth{Status: 2, Reason: "NoPath", Message: "m"})
	got, err = csi.NodeGetStorageHealth(t.Context(), c)
	want := &structs.CSIStorageHealth{Abnormal: true, Conditions: []*structs.CSIHealth{
		{Status: "STORAGE_UNREACHABLE", Reason: "NoPath", Message: "m"},
		{Status: "STORAGE_DEGRADED", Reason: "Slow"},
		{Status: "17", Reason: "New"},
	}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	p.Fail("NodeGetStorageHealth", status.Error(codes.Unavailable, "no answer"))
	_, err = csi.NodeGetStorageHealth(t.Context(), c)
	info, infoErr := c.NodeInfo(t.Context())
	if err == nil || infoErr != nil || !reflect.DeepEqual(info.StorageHealth, want) {
		t.Errorf("the report after an error: %+v, %v, %v", info, err, infoErr)
	}

	p.SetStorageHealth(&spec.NodeGetStorageHealthResponse_StorageBackendHealth{Status: 17, Reason: "New"})
	got, err = csi.NodeGetStorageHealth(t.Context(), c)
	if err != nil || got.Abnormal {
		t.Errorf("only an unknown value: %+v, %v", got, err)
	}
	p.SetStorageHealth()
	_, err = csi.NodeGetStorageHealth(t.Context(), c)
	info, infoErr = c.NodeInfo(t.Context())
	if err != nil || infoErr != nil || info.StorageHealth != nil {
		t.Errorf("the report after a recovery: %+v, %v, %v", info, err, infoErr)
	}
}
