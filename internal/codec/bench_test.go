package codec_test

import (
	"fmt"
	"testing"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"

	"berth/internal/codec"
	"berth/structs"
)

func benchClaim() *structs.CSIClaim {
	return &structs.CSIClaim{
		Namespace:      "default",
		VolumeID:       "volume-00001",
		AllocID:        "a3c1f0de-0f5c-4c3e-9d1b-6a1f5e8c9b7a",
		NodeID:         "b3c1f0de-0f5c-4c3e-9d1b-6a1f5e8c9b7b",
		PluginID:       "csi-hostpath",
		JobID:          "web",
		TaskGroup:      "cache",
		Mode:           structs.ClaimWrite,
		AccessMode:     structs.CSIMultiNodeMultipleWriter,
		AttachmentMode: structs.CSIFileSystem,
		State:          structs.ClaimGranted,
		GrantIndex:     123456,
		CreateTime:     1760000000000000000,
		GrantTime:      1760000000000000001,
		Indexes:        structs.Indexes{CreateIndex: 123456, ModifyIndex: 123457},
	}
}

func benchNode() *structs.Node {
	attributes := map[string]string{}
	for i := range 40 {
		attributes[fmt.Sprintf("attribute.%d", i)] = fmt.Sprintf("value %d", i)
	}
	return &structs.Node{
		ID:                    "b3c1f0de-0f5c-4c3e-9d1b-6a1f5e8c9b7b",
		SecretID:              "c3c1f0de-0f5c-4c3e-9d1b-6a1f5e8c9b7b",
		Datacenter:            "dc1",
		Name:                  "node-1",
		HTTPAddr:              "10.0.0.1:4646",
		Attributes:            attributes,
		NodeClass:             "large",
		NodePool:              "default",
		ComputedClass:         "v1:123456",
		Status:                structs.NodeReady,
		SchedulingEligibility: structs.NodeEligible,
		NodeResources: &structs.NodeResources{
			CPU: structs.NodeCPUResources{CpuShares: 8000, TotalCpuCores: 4},
		},
		Drivers: map[string]*structs.DriverInfo{
			"exec": {Detected: true, Healthy: true, HealthDescription: "Healthy"},
		},
	}
}

func benchList() *structs.CSIVolumeListResponse {
	r := &structs.CSIVolumeListResponse{}
	for i := range 1000 {
		r.Volumes = append(r.Volumes, &structs.CSIVolumeListStub{
			ID:             fmt.Sprintf("volume-%d", i),
			Namespace:      "default",
			Name:           fmt.Sprintf("volume-%d", i),
			ExternalID:     fmt.Sprintf("external-%d", i),
			State:          structs.VolumeReady,
			Topologies:     []*structs.CSITopology{{Segments: map[string]string{"zone": "a"}}},
			AttachmentMode: structs.CSIFileSystem,
			AccessMode:     structs.CSIMultiNodeMultipleWriter,
			CurrentReaders: 3,
			Schedulable:    true,
			PluginID:       "csi-hostpath",
			Provider:       "hostpath",
			NodesHealthy:   100,
			NodesExpected:  100,
			CreateTime:     1760000000000000000,
			ModifyTime:     1760000000000000000,
			Indexes:        structs.Indexes{CreateIndex: 1234, ModifyIndex: 12345},
		})
	}
	return r
}

var benched = []struct {
	name string
	v    any
}{
	{"claim", benchClaim()},
	{"claims", &structs.CSIVolumeClaimRequest{
		Claims: []*structs.CSIClaim{benchClaim()},
		NodeID: "b3c1f0de-0f5c-4c3e-9d1b-6a1f5e8c9b7b",
	}},
	{"node", benchNode()},
	{"volumes", benchList()},
	{"job", &structs.Job{
		ID:         "web",
		TaskGroups: []*structs.TaskGroup{{Name: "web", Tasks: []*structs.Task{{Name: "web"}}}},
	}},
}

// BenchmarkEncode and BenchmarkDecode have each value by reflection (the Handle) and by its own methods.
func BenchmarkEncode(b *testing.B) {
	for _, x := range benched {
		b.Run(x.name+"/reflected", func(b *testing.B) {
			b.ReportAllocs()
			var out []byte
			enc := msgpack.NewEncoderBytes(&out, codec.Handle)
			for b.Loop() {
				out = out[:0]
				enc.ResetBytes(&out)
				if err := enc.Encode(x.v); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(x.name+"/generated", func(b *testing.B) {
			b.ReportAllocs()
			var out []byte
			var err error
			for b.Loop() {
				out, err = codec.Append(out[:0], x.v)
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, x := range benched {
		wire := byHandle(b, x.v)
		b.Run(x.name+"/reflected", func(b *testing.B) {
			b.ReportAllocs()
			dec := msgpack.NewDecoderBytes(wire, codec.Handle)
			for b.Loop() {
				dec.ResetBytes(wire)
				if err := dec.Decode(newOf(x.v)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(x.name+"/generated", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := codec.Decode(wire, newOf(x.v)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
