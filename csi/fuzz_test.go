package csi

import (
	"testing"
	"unicode/utf8"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"

	"berth/structs"
	"berth/structs/nodecalls"
)

// Each decodable answer is accepted or rejected without a panic. An accepted answer has the properties that
// the client promises to its callers.
func FuzzAnswers(f *testing.F) {
	for _, m := range []proto.Message{
		&spec.CreateVolumeResponse{Volume: &spec.Volume{VolumeId: "v", CapacityBytes: 5}},
		&spec.ListVolumesResponse{Entries: []*spec.ListVolumesResponse_Entry{
			{Volume: &spec.Volume{VolumeId: "v"}}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	c := &Client{endpoint: "/fuzz"}
	f.Fuzz(func(t *testing.T, b []byte) {
		var create spec.CreateVolumeResponse
		if proto.Unmarshal(b, &create) == nil {
			if r, err := c.checkCreated("CreateVolume", create.GetVolume(),
				nodecalls.CSICapacityRange{RequiredBytes: 1}); err == nil && r.ExternalID == "" {
				t.Fatal("a volume without an id")
			}
		}
		var list spec.ListVolumesResponse
		if proto.Unmarshal(b, &list) == nil {
			for i, e := range list.GetEntries() {
				if s, err := c.listedVolume("ListVolumes", i, e, &structs.CSIControllerInfo{}); err == nil &&
					s.CapacityBytes < 0 {
					t.Fatal("a negative size")
				}
			}
		}
		if !utf8.ValidString(sanitize(string(b), map[string]string{"k": string(b)})) {
			t.Fatal("an error text that is no UTF-8")
		}
	})
}
