package csi_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/encoding/protowire"

	"berth/csi"
	"berth/structs"
	"berth/structs/storage"
)

func callStats(c *csi.Client) (*storage.VolumeUsage, error) {
	return c.NodeGetVolumeStats(context.Background(), csi.StatsRequest{
		VolumeID:    "v",
		VolumePath:  "/target",
		StagingPath: "/stage",
	})
}

func TestNodeGetVolumeStats_ReadsBytesAndInodes(t *testing.T) {
	p, c := startPluginWith(t, both, csi.Options{})
	p.Answer("NodeGetVolumeStats", &spec.NodeGetVolumeStatsResponse{Usage: []*spec.VolumeUsage{
		{Unit: spec.VolumeUsage_BYTES, Total: 10, Used: 7, Available: 2},
		{Unit: spec.VolumeUsage_INODES, Total: 5, Used: 1, Available: 4},
		{Total: 99},
	}})
	u, err := callStats(c)
	if err != nil {
		t.Fatal(err)
	}
	want := &storage.VolumeUsage{
		Source: storage.UsageByPlugin,
		Bytes:  &storage.UsageAmount{Total: 10, Used: 7, Available: 2},
		Inodes: &storage.UsageAmount{Total: 5, Used: 1, Available: 4},
	}
	if !reflect.DeepEqual(u, want) {
		t.Errorf("got %+v, %+v, %+v", u, u.Bytes, u.Inodes)
	}
	sent := p.Calls("NodeGetVolumeStats")[0]
	if sent.Get("volume_id") != "v" || sent.Get("volume_path") != "/target" ||
		sent.Get("staging_target_path") != "/stage" {
		t.Errorf("sent %v", sent.Request)
	}
	_, err = c.NodeGetVolumeStats(t.Context(), csi.StatsRequest{VolumeID: "v", VolumePath: "relative"})
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("got %v", err)
	}
}

// conditionOf encodes the field that the present spec does not have.
func conditionOf(abnormal uint64, message string) []byte {
	body := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), abnormal)
	body = protowire.AppendString(protowire.AppendTag(body, 2, protowire.BytesType), message)
	return protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), body)
}

func TestNodeGetVolumeStats_ReadsTheConditionOfFormerPlugins(t *testing.T) {
	long := "a\x1bb" + strings.Repeat("x", 1000)
	for name, c := range map[string]struct {
		unknown []byte
		want    *storage.VolumeCondition
	}{
		"none":     {nil, nil},
		"normal":   {conditionOf(0, "fine"), &storage.VolumeCondition{Message: "fine"}},
		"abnormal": {conditionOf(1, "dead"), &storage.VolumeCondition{Abnormal: true, Message: "dead"}},
		"another":  {protowire.AppendVarint(protowire.AppendTag(nil, 9, protowire.VarintType), 1), nil},
		"a number": {protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 1), nil},
		"empty": {protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), nil),
			&storage.VolumeCondition{}},
	} {
		t.Run(name, func(t *testing.T) {
			p, client := startPluginWith(t, both, csi.Options{})
			resp := &spec.NodeGetVolumeStatsResponse{}
			resp.ProtoReflect().SetUnknown(c.unknown)
			p.Answer("NodeGetVolumeStats", resp)
			u, err := callStats(client)
			if err != nil || !reflect.DeepEqual(u.Condition, c.want) {
				t.Errorf("got %+v, %v", u, err)
			}
		})
	}
	p, client := startPluginWith(t, both, csi.Options{})
	resp := &spec.NodeGetVolumeStatsResponse{}
	resp.ProtoReflect().SetUnknown(conditionOf(1, long))
	p.Answer("NodeGetVolumeStats", resp)
	u, err := callStats(client)
	if err != nil || len(u.Condition.Message) > 300 || strings.Contains(u.Condition.Message, "\x1b") {
		t.Errorf("got %+v, %v", u, err)
	}
}

func TestNodeGetVolumeStats_RejectsNegativeNumbers(t *testing.T) {
	for _, part := range []*spec.VolumeUsage{{Total: -1}, {Used: -1}, {Available: -1}} {
		p, c := startPluginWith(t, both, csi.Options{})
		p.Answer("NodeGetVolumeStats", &spec.NodeGetVolumeStatsResponse{Usage: []*spec.VolumeUsage{part}})
		_, err := callStats(c)
		if !structs.IsKind(err, structs.KindInternal) || !strings.Contains(err.Error(), "is negative: -1") {
			t.Errorf("%v: got %v", part, err)
		}
	}
}
